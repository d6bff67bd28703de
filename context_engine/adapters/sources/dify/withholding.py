"""Records of documents that raise their classification above what the caller may read.

Dify searches with the rights of the workspace's owner and keeps no partitions: what comes back is divided here, before
anything is ordered, cut or said of it. What is withheld goes to the engine all the same, behind everything else, for
the record alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from context_engine.adapters.sources.dify.metadata import MARKED, MetadataReader
from context_engine.adapters.sources.dify.reading import claimed_classification
from context_engine.core.models import AccessScope, Classification, SourceSpec
from context_engine.core.policy.access import access_class


class DividedRecords(NamedTuple):
    """The records of an answer, those the caller may read first, each part in Dify's order."""

    readable: tuple[Mapping[str, Any], ...]
    withheld: tuple[Mapping[str, Any], ...] = ()


def divided(
    records: Sequence[Mapping[str, Any]], spec: SourceSpec, claims: MetadataReader, access: AccessScope | None
) -> DividedRecords:
    """Return well-formed records, divided by whether the caller may read their document.

    Args:
        spec: the source, which the caller may search: its rule is not asked again.
        access: what the caller may read; None: everything.
    """
    if access is None or not _can_be_too_high(spec, access):
        return DividedRecords(tuple(records))
    parts: dict[bool, list[Mapping[str, Any]]] = {True: [], False: []}
    for record in records:
        claimed = claimed_classification(record, claims)
        parts[access.admits(access_class("", spec.classification, claimed))].append(record)
    return DividedRecords(tuple(parts[True]), tuple(parts[False]))


def may_withhold(spec: SourceSpec, access: AccessScope | None, field: str | None, fields: Collection[str]) -> bool:
    """Return whether some of an answer may be withheld, so that more has to be asked for.

    Args:
        field: that the manifest maps to the classification; None where it maps none.
        fields: of the dataset; what this package wrote says its classification under that name.
    """
    claims = field is not None or (MARKED in fields and "classification" in fields)
    return claims and access is not None and _can_be_too_high(spec, access)


def _can_be_too_high(spec: SourceSpec, access: AccessScope) -> bool:
    highest = max(one.rank for one in Classification)
    return max(access.clearance.rank, spec.classification.rank) < highest
