"""The chunks of rows. One that was read for one search is kept for the next: popular chunks come again.

A row is never changed, but it may be removed; so what is kept holds for one moment of the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.local.records import decode
from context_engine.core.engine.admission import valid_chunk
from context_engine.core.models import Chunk, Notice, Score

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.reader import View


_MOST_KEPT: Final = 10_000
"""1.7 kB each where texts have 530 characters."""
_LONG: Final = 4_000
"""Characters of a text whose chunk is not kept; few have as many."""
_MOST_PARAMETERS: Final = 900

KeptChunks = dict[int, "RowChunk"]


class RowChunk:
    """A chunk without scores as the engine's validation leaves it.

    Args:
        decoded: as it was stored.

    Attributes:
        chunk: valid.
        notices: what was changed in it.
    """

    __slots__ = ("_nested", "chunk", "notices")

    def __init__(self, decoded: Chunk) -> None:
        notices: list[Notice] = []
        self.chunk = valid_chunk(decoded, notices)
        self.notices = tuple(notices)
        mappings = (self.chunk.metadata, self.chunk.extra)
        self._nested = any(isinstance(one, Mapping | list) for mapping in mappings for one in mapping.values())

    def scored(self, scores: tuple[Score, ...]) -> Chunk:
        """Return the chunk with scores; its mappings are copies: whoever changes them changes no other search."""
        content, chunk_id, source_id, _, *others, metadata, extra = self.chunk
        copy = deepcopy if self._nested else dict
        own = copy(metadata) if metadata else metadata, copy(extra) if extra else extra
        return Chunk._make((content, chunk_id, source_id, scores, *others, *own))


def chunks_of_rows(view: View, rids: Iterable[int]) -> dict[int, RowChunk]:
    """Return the chunks of those of some rows that are of the view's generation."""
    found: dict[int, RowChunk] = {}
    unread: list[int] = []
    for rid in dict.fromkeys(rids):
        if (kept := view.chunks.get(rid)) is not None:
            found[rid] = kept
        else:
            unread.append(rid)
    for start in range(0, len(unread), _MOST_PARAMETERS):
        found |= _read(view, unread[start : start + _MOST_PARAMETERS])
    return found


def _read(view: View, rids: list[int]) -> dict[int, RowChunk]:
    rows = view.connection.execute(
        "SELECT rid, partition_key, generation, removed, indexed_at, chunk_id, content, fields FROM chunks"
        f" JOIN documents USING (doc_key) WHERE rid IN ({','.join('?' * len(rids))})",
        rids,
    )
    chunks = {
        rid: RowChunk(decode((row[0], row[1], row[2]), indexed_at))
        for rid, partition_key, generation, removed, indexed_at, *row in rows
        if view.holds(partition_key, generation, removed) and not (removed and _came_again(view, rid))
    }
    if len(view.chunks) + len(chunks) > _MOST_KEPT:
        view.chunks.clear()
    view.chunks.update((rid, one) for rid, one in chunks.items() if len(one.chunk.content) < _LONG)
    return chunks


def _came_again(view: View, rid: int) -> bool:
    """Return whether the document of a row was moved to a partition whose index is ahead, so that it is found there."""
    found = view.connection.execute(
        "SELECT now.partition_key, now.generation FROM chunks JOIN documents AS former USING (doc_key)"
        " JOIN documents AS now ON now.source_key = former.source_key AND now.document_id = former.document_id"
        " AND now.version = former.version AND now.removed IS NULL WHERE rid = ?",
        (rid,),
    ).fetchone()
    if found is None:
        return False
    partition_key, generation = found
    return partition_key in view.partitions and view.holds(partition_key, generation, None)
