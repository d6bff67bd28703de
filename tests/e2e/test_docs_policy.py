"""The access policy of the developer's guide decides, and its classes say the same as its decisions."""

from __future__ import annotations

import re
from itertools import chain, combinations
from pathlib import Path

import pytest

from context_engine.core.models import NOBODY, Classification, Principal, SearchRequest
from context_engine.core.policy.access import access_class
from context_engine.errors import UnknownDomain

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "developer.md"


@pytest.fixture
def policy():
    (code,) = re.findall(r"^<!-- policy -->\n```python\n(.*?)^```$", GUIDE.read_text("utf-8"), flags=re.M | re.S)
    module: dict = {}
    exec(compile(code, GUIDE.name, "exec"), module)
    return module["StatementPolicy"]({})


def principal(*roles):
    return Principal(roles=roles, clearance=Classification.INTERNAL)


@pytest.fixture
def engine(make_engine, spec_of, chunk_of, policy):
    names = {"handbook": 2, "cases": 1, "drafts": 3}
    sources = [(spec_of(tier, name), [chunk_of(name, 0.5)]) for name, tier in names.items()]
    return make_engine(sources, access=policy)


def test_a_search_asks_what_a_statement_permits(engine):
    def asked(who):
        return [
            status.source_id
            for status in engine.search(SearchRequest(query="rule", domain="NPA", principal=who)).sources
        ]

    assert asked(principal("staff")) == ["handbook"]
    assert asked(principal("auditor")) == ["handbook", "cases"]
    for who in (NOBODY, principal("guest")):
        with pytest.raises(UnknownDomain):
            asked(who)


def test_fewer_roles_never_see_more_and_classes_say_what_decisions_say(engine, policy):
    domain, roles = engine.registry.domain("NPA"), ("staff", "auditor", "guest")
    some = [frozenset(one) for one in chain.from_iterable(combinations(roles, n) for n in range(4))]
    decided = {one: policy.decide(principal(*one), domain) for one in some}
    assert all(decided[one].allowed <= decided[other].allowed for one in some for other in some if one <= other)
    for decision in decided.values():
        for source in domain.sources:
            held = access_class(policy.rules_of(source.id), source.classification, None)
            assert decision.scope.admits(held) == (source.id in decision.allowed)
