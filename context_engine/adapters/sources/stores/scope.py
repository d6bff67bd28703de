"""The source that a store searches, and the restrictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.pushdown import (
    ENGINE_FIELDS,
    Pushdown,
    RowSets,
    Standing,
    ValuesOf,
    relaxed,
)
from context_engine.core.models import AccessScope, Chunk, Filter
from context_engine.core.policy.filters import matches, own_fields

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The source to search, and the restrictions.

    Attributes:
        filters: conditions on the chunks; those on tier, type, trust and classification need `standing`, and are left
            to the engine without it.
        as_of: only chunks in force on that day.
        constants: further fields that are the same for every chunk of the source (the domain).
        standing: from a document's claims of authority to the fields that the engine sees.
        access: of the caller; None admits everything.
        place: where the source's documents belong; None if unknown.
    """

    source_id: str
    filters: Filter | None = None
    as_of: date | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    standing: Standing | None = None
    access: AccessScope | None = None
    place: SourcePlace | None = None


def pushed(
    scope: Scope, sets: RowSets[T], values_of: ValuesOf, resolved: MutableMapping[str, T]
) -> tuple[T, Callable[[Chunk], bool] | None]:
    """Return the query for the rows that match a scope's filter, and a test for the chunks found.

    The test is None if the query is exact.

    Args:
        scope: with a filter.
        sets, values_of, resolved: see `Pushdown`.
    """
    filters, stand = scope.filters, scope.standing
    assert filters is not None
    constants = {**scope.constants, "source_id": scope.source_id, "source": scope.source_id}
    if stand is None:
        filters = relaxed(filters, ENGINE_FIELDS - constants.keys())
    pushdown = Pushdown(sets, values_of, resolved, constants, stand)
    query = pushdown.query(filters)

    def test(chunk: Chunk) -> bool:
        return matches(filters, {**own_fields(chunk), **(stand(chunk) if stand else {}), **constants})

    return query, None if pushdown.exact else test
