"""Datasets that stand in several sources with different rules: whoever may search one of the sources may read it all.

Dify's key opens every dataset of its workspace, so nothing but a source's rule keeps a caller from a dataset. The same
dataset in a second source with another rule is a second door to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from context_engine.core.models import AccessClass, DomainSpec
from context_engine.core.policy.access import access_class
from context_engine.core.protocols import AccessPolicy


class SharedDataset(NamedTuple):
    """A dataset with more than one rule.

    Attributes:
        sources: the ids of the sources that hold it, sorted; two of them at least admit different callers.
    """

    dataset_id: str
    sources: tuple[str, ...]


def shared_datasets(domains: Iterable[DomainSpec], policy: AccessPolicy) -> tuple[SharedDataset, ...]:
    """Return the datasets that several sources hold with different rules or classifications, sorted by id.

    Args:
        domains: all of the registry.
        policy: says which rules a source has; of `OpenAccess` none has any.
    """
    held: dict[str, dict[str, AccessClass]] = {}
    for source in (source for domain in domains for source in domain.sources):
        needed = access_class(policy.rules_of(source.id), source.classification, None)
        for dataset in source.dataset_ids:
            held.setdefault(dataset.lower(), {})[source.id] = needed
    return tuple(
        SharedDataset(dataset, tuple(sorted(classes)))
        for dataset, classes in sorted(held.items())
        if len(set(classes.values())) > 1
    )
