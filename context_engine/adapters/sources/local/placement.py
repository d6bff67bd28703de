"""Where documents stand: the access class of a document follows from its source's rules and from what it claims."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from context_engine.adapters.sources.local.partitions import partitions
from context_engine.adapters.sources.local.schema import BaseState
from context_engine.core.models import AccessClass, Chunk, Classification, SourceSpec
from context_engine.core.policy.access import access_class
from context_engine.errors import RepartitionRequired

_MOST_REMEMBERED: Final = 1024


class SourcePlace(NamedTuple):
    """What the configuration says of who may read a source.

    Attributes:
        rules: all of its access rules (`AccessPolicy.rules_of`); "" where it has none.
        classification: the declared one.
    """

    rules: str = ""
    classification: Classification = Classification.INTERNAL

    def holds(self, claimed: Classification | None) -> AccessClass:
        """Return the class of a document of the source."""
        return access_class(self.rules, self.classification, claimed)


Place = Callable[[str], SourcePlace | None]
"""From a source's id to what is said of it; None where nothing is known."""


class Move(NamedTuple):
    """Documents that stand where they should not: those of one source and one claim in one partition.

    Attributes:
        claimed: as it stands in the rows.
        holds: the class that they are of.
    """

    source_key: int
    partition_key: int
    claimed: str
    holds: AccessClass


def places(specs: Iterable[SourceSpec], rules_of: Callable[[str], str]) -> Place:
    """Return the places of some sources.

    Args:
        specs: the sources.
        rules_of: returns the access rules of one (`AccessPolicy.rules_of`).
    """
    return {spec.id: SourcePlace(rules_of(spec.id), spec.classification) for spec in specs}.get


def claimed_by(chunks: Iterable[Chunk]) -> Classification | None:
    """Return the highest classification that a chunk of a document claims: a document is placed as a whole."""
    claims = (chunk.classification for chunk in chunks if chunk.classification is not None)
    return max(claims, key=lambda one: one.rank, default=None)


def moves(connection: sqlite3.Connection, place: Place, *, source_id: str | None = None) -> Iterator[Move]:
    """Yield what stands where it should not; of sources of which nothing is known nothing does.

    Args:
        connection: in a transaction, or a writer's.
        place: where the sources stand now.
        source_id: look at one source alone.
    """
    holds = {one.key: one.holds for one in partitions(connection)}
    rows = connection.execute(
        "SELECT DISTINCT source_id, source_key, partition_key, claimed FROM sources JOIN documents USING (source_key)"
        f" WHERE removed IS NULL{'' if source_id is None else ' AND source_id = ?'}"
        " ORDER BY source_key, partition_key, claimed",
        () if source_id is None else (source_id,),
    )
    for name, source_key, partition_key, claimed in rows.fetchall():
        said = place(name)
        if said is not None:
            wanted = said.holds(Classification(claimed) if claimed else None)
            if wanted != holds.get(partition_key):
                yield Move(source_key, partition_key, claimed, wanted)


class PlacementCheck:
    """Sees to it that a searched source's documents stand where its rules say; looks once a commit.

    Safe for several threads.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, SourcePlace], tuple[BaseState, bool]] = {}

    def require(self, connection: sqlite3.Connection, state: BaseState, source_id: str, place: SourcePlace) -> None:
        """Refuse a source of which some do not.

        Args:
            connection: a reader's, in a transaction.
            state: of the base in that transaction.
            source_id: the source.
            place: what is said of it now.

        Raises:
            RepartitionRequired: they stand where former rules put them.
        """
        if not self._stands(connection, state, source_id, place):
            raise RepartitionRequired(
                "the access rules or the classification have changed: run 'context-engine kb repartition' to move the "
                "documents",
                source_id=source_id,
            )

    def _stands(self, connection: sqlite3.Connection, state: BaseState, source_id: str, place: SourcePlace) -> bool:
        key = (source_id, place)
        known = self._known.get(key)
        if known is None or known[0] != state:
            right = next(moves(connection, lambda _: place, source_id=source_id), None) is None
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            known = self._known[key] = (state, right)
        return known[1]
