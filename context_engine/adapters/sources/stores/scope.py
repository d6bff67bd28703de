"""The source that a store searches, the restrictions, and whether its documents are where they belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, TypeVar

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
from context_engine.errors import RepartitionRequired

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


_MOST_REMEMBERED: Final = 1_024


class PlacementCheck:
    """Checks, once for each commit, that the documents of a source are in the access class of its place. Thread-safe.

    Args:
        remedy: what moves them there, for the error.
    """

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy
        self._known: dict[tuple[str, SourcePlace], tuple[object, bool]] = {}

    def require(
        self, source_id: str, place: SourcePlace | None, commit: object, is_placed: Callable[[SourcePlace], bool]
    ) -> None:
        """Refuse a source with documents in the wrong access class; one whose place is unknown has none.

        Args:
            commit: names the commit that is searched.
            is_placed: returns whether every document of the source, readable or not, is in the class of a place.

        Raises:
            RepartitionRequired: some documents are in another class.
        """
        if place is None:
            return
        name = (source_id, place)
        known = self._known.get(name)
        if known is None or known[0] != commit:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            known = self._known[name] = (commit, is_placed(place))
        if not known[1]:
            raise RepartitionRequired(
                f"the access rules or the classification have changed: run {self._remedy}", source_id=source_id
            )
