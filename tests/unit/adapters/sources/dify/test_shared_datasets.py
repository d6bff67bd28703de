"""One dataset behind two rules."""

from __future__ import annotations

from typing import Any

from context_engine.adapters.sources.dify.shared_datasets import SharedDataset, shared_datasets
from context_engine.core.models import DomainSpec
from context_engine.core.policy.access import OPEN_ACCESS, ManifestPolicy

ONE, TWO = "0000000a-0000-4000-8000-000000000001", "0000000b-0000-4000-8000-000000000002"
ANALYST, BOARD = {"roles": ["analyst"]}, {"roles": ["board"]}


def domain(name: str, *sources: dict[str, Any], **fields: Any) -> DomainSpec:
    rows = [{"type": "bank_sop", "adapter": "dify", "connection": "dify", **source} for source in sources]
    return DomainSpec(version=1, domain=name, sources=rows, **fields)


def found(*domains: DomainSpec) -> tuple[SharedDataset, ...]:
    return shared_datasets(domains, ManifestPolicy({one.domain: one for one in domains}))


def test_a_second_source_with_another_rule_is_a_second_door() -> None:
    rules = {"id": "rules", "dataset_ids": [ONE, TWO], "access": ANALYST}
    copy = {"id": "copy", "dataset_ids": [ONE.upper()]}
    assert found(domain("A", rules, copy)) == (SharedDataset(ONE, ("copy", "rules")),)
    assert found(domain("A", rules, {**copy, "access": ANALYST})) == ()
    assert found(domain("A", rules), domain("B", {**copy, "access": BOARD})) == (SharedDataset(ONE, ("copy", "rules")),)


def test_the_rules_of_the_domains_count() -> None:
    rules, copy = {"id": "rules", "dataset_ids": [ONE]}, {"id": "copy", "dataset_ids": [ONE]}
    assert found(domain("A", rules, access=ANALYST), domain("B", copy)) == (SharedDataset(ONE, ("copy", "rules")),)
    assert found(domain("A", rules, access=ANALYST), domain("B", copy, access=ANALYST)) == ()


def test_a_classification_is_a_condition_where_there_is_a_rule() -> None:
    low = {"id": "low", "dataset_ids": [ONE], "classification": "internal"}
    high = {"id": "high", "dataset_ids": [ONE], "classification": "restricted"}
    assert found(domain("A", low, high)) == ()
    assert found(domain("A", low, high, access=ANALYST)) == (SharedDataset(ONE, ("high", "low")),)


def test_one_source_and_no_policy_have_nothing_to_differ() -> None:
    rules = {"id": "rules", "dataset_ids": [ONE], "access": ANALYST}
    assert found(domain("A", rules), domain("B", {"id": "other", "dataset_ids": [TWO]})) == ()
    both = [domain("A", rules, {"id": "copy", "dataset_ids": [ONE]})]
    assert shared_datasets(both, OPEN_ACCESS) == ()
