"""The chunks, vectors and words of each access class of a view: to calibrate with, to learn from, to suggest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.neo4j.conditions import TITLES, GraphView, NodeCondition, lucene
from context_engine.adapters.sources.neo4j.state import VISIBLE, text_index
from context_engine.adapters.sources.stores.adapter_rows import Origin
from context_engine.adapters.sources.stores.calibrating import MOST_PASSAGES, CalibratedExtent
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.question import kept
from context_engine.adapters.sources.stores.term_counts import WRITTEN
from context_engine.core.models import Chunk, HeldVectors
from context_engine.core.query.spelling import near_words
from context_engine.core.text import terms

_LAST: Final = (1 << 63) - 1
"""The highest number of a node."""


class NodeTexts(NamedTuple):
    """The chunks of a view (`ClassTexts`)."""

    view: GraphView

    def holding(self, source_ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return (source, key of a class) for each class that holds documents of some sources."""
        return self.view.rows(
            f"MATCH (n:{self.view.store}:Document) WHERE n.source IN $names AND n.store_class IN $keys AND {VISIBLE}"
            " RETURN DISTINCT n.source, n.store_class",
            names=list(source_ids),
        )

    def extent(self, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
        """Return the size of a class, counting rows up to a number only."""
        ((own, every, last),) = self._of_class(
            key, "n.row <= $last RETURN count(CASE WHEN n.source IN $names THEN 1 END), count(n), max(n.row)",
            names=list(source_ids), last=_LAST if up_to is None else up_to,
        )  # fmt: skip
        return CalibratedExtent(own, every, last or 0)

    def passages(self, key: int, source_ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks of a class with the lowest digests, at most MOST_PASSAGES."""
        rows = self._of_class(
            key, "n.source IN $names RETURN n.chunk_id, n.content, n.fields, n.indexed_at ORDER BY n.digest, n.row"
            " LIMIT $most", names=list(source_ids), most=MOST_PASSAGES,
        )  # fmt: skip
        return [decode((chunk_id, content, fields), at) for chunk_id, content, fields, at in rows]

    def held_ids(self, key: int, source_ids: Sequence[str], asked_ids: Collection[str]) -> frozenset[str]:
        """Return those of some ids that chunks and documents of a class have."""
        wanted = "n.source IN $names AND (n.chunk_id IN $ids OR n.document_id IN $ids) RETURN n.chunk_id, n.document_id"
        rows = self._of_class(key, wanted, names=list(source_ids), ids=list(asked_ids))
        return frozenset({*chain.from_iterable(rows)} & {*asked_ids})

    def _of_class(self, key: int, condition: str, **values: Any) -> list[tuple[Any, ...]]:
        nodes = f"MATCH (n:Chunk:{self.view.store}_{key}) WHERE {VISIBLE}"
        return self.view.only(key).rows(f"{nodes} AND {condition}", **values)


def held_vectors(view: GraphView, source_ids: Sequence[str]) -> HeldVectors:
    """Return the vectors of some sources with their chunks; see `TrainableStore`."""
    import numpy as np  # only here: the rest of the store works without it

    origin = Origin(view.learnt.moves, tuple(sorted({key for _, key in NodeTexts(view).holding(source_ids)})))
    stored = HeldVectors([], [], np.empty(0, np.int64), np.empty((0, view.state.dimension), np.float32), origin)
    further = f"COLLECT {{ MATCH (p:Passage:{view.store} {{row: n.row}}) RETURN p.embedding ORDER BY p.part }}"
    rows = view.rows(
        f"MATCH (n:{view.store}:Chunk)-[:BELONGS_TO]->(d) WHERE n.source IN $names AND n.store_class IN $keys"
        f" AND n.embedding IS NOT NULL AND {VISIBLE} RETURN n.source, n.chunk_id, n.content, n.fields, n.indexed_at,"
        f" [n.embedding] + {further} ORDER BY n.source, d.document_id, d.version, n.row",
        names=list(source_ids),
    )
    lengths, parts = [], [stored.parts]
    for source_id, chunk_id, content, fields, at, vectors in rows:
        stored.source_ids.append(source_id)
        stored.chunks.append(decode((chunk_id, content, fields), at))
        lengths.append(len(vectors))
        parts.append(np.array(vectors, np.float32))
    return stored._replace(lengths=np.array(lengths, np.int64), parts=np.concatenate(parts))


class NodeWords(NamedTuple):
    """The words of the nodes that meet a condition (`misspelt.Vocabulary`)."""

    view: GraphView
    condition: NodeCondition

    def has(self, word: str) -> bool:
        """Return whether some chunk holds a term of the word; true for a word without terms (a stop word)."""
        own = [kept(term) for term in terms(word)]
        return not own or self._count(" ".join(lucene(field, term) for term in own for field in ("words", *TITLES))) > 0

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return the words near to a word among those of all readable texts that begin with a letter."""
        rows = self.view.rows(
            f"MATCH (t:{self.view.store}_term) WHERE t.class IN $keys AND t.term STARTS WITH $letter AND t.texts > 0"
            " RETURN DISTINCT substring(t.term, 1)",
            letter=WRITTEN + letter,
        )
        return near_words(word, [name for (name,) in rows])

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of chunks with each word."""
        counted = {word: self._count(lucene("written", word)) for word in words}
        return {word: count for word, count in counted.items() if count}

    def _count(self, query: str) -> int:
        rows = self.view.rows(
            "UNWIND $names AS name CALL db.index.fulltext.queryNodes(name, $query) YIELD node AS n"
            f" WITH n WHERE {self.condition.text} AND n.store_class IN $keys AND {VISIBLE} RETURN count(n)",
            names=[text_index(self.view.store, key) for key in self.view.keys], query=query, **self.condition.values,
        )  # fmt: skip
        return int(rows[0][0])
