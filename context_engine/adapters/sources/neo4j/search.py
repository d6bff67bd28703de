"""A search of one view of a store, restricted to sources, filters and a day."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.adapters.sources.neo4j.conditions import TITLES, TRUE, GraphView, NodeCondition, ScopedNodes, lucene
from context_engine.adapters.sources.neo4j.state import VISIBLE, text_index, vector_index
from context_engine.adapters.sources.stores.chunk_rows import names_in
from context_engine.adapters.sources.stores.options import SearchOptions, ranked
from context_engine.adapters.sources.stores.question import FoundRow, StoreEvidence, StoreQuestion, code_words
from context_engine.adapters.sources.stores.ranking import (
    FIRST,
    LEAST_POOL,
    Ranking,
    RowRanker,
    ViewSearch,
    nearest_wanted,
)
from context_engine.adapters.sources.stores.recall import RecallWatch, SearchWay
from context_engine.core.models import Chunk

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

APPROXIMATE_FROM: Final = 1_000
"""Texts of an access class from which its vector index is searched; fewer are all compared."""
_SPARE: Final = 4
"""Neighbours that are asked for each wanted one: the server's index knows no filter, and finds more of the nearest."""
_SPARE_MAPPED: Final = 4
"""Rows read for each wanted one under an adapter: the server does not know the lengths of mapped vectors."""
_MOST_NEIGHBOURS: Final = 4_000
_MOST_CLAUSES: Final = 300
"""Terms of a full text query; the server's limit is 1,024 clauses."""
_ROW: Final = "c.document, c.section, c.words, c.title_words, c.head_words, c.defined"  # the fields of a `FoundRow`


class _Found(NamedTuple):
    """Rows to score.

    Attributes:
        rows: those that text found first.
        by_text: how many text found.
        near: the nearest by vector, best first.
        nearness: of each row with vectors, as the server compares them.
        cosine: the same, of mapped vectors under an adapter.
        keys: the access class of each row.
    """

    rows: list[FoundRow]
    by_text: int
    near: list[int]
    nearness: dict[int, float]
    cosine: dict[int, float]
    keys: dict[int, int]


class NodeSearch(ViewSearch[ScopedNodes]):
    """One question to a view; further arguments are those of `ViewSearch`.

    Args:
        question: None if it has no terms.
    """

    def __init__(
        self,
        view: GraphView,
        question: StoreQuestion | None,
        vector: Sequence[float] | None,
        options: SearchOptions,
        watch: RecallWatch,
        adapter: DomainAdapter | None = None,
    ) -> None:
        super().__init__(view.state.model_id, vector, options, watch, adapter)
        self._view = view
        asked = vector if vector is None or adapter is None else adapter.asked(vector).tolist()
        self._vector = None if asked is None or not any(asked) else list(map(float, asked))
        self._ranker = RowRanker(
            question,
            view.collection(question),
            options,
            by_text=f"neo4j:{view.state.base_id}",
            by_vector=self.scorer_id,
            codes=[] if question is None or vector is None else self._codes_of(question),
        )
        self._words = self._full_text()
        self._best: StoreEvidence | None = None

    def _rank(self, sources: Sequence[ScopedNodes], pool: int) -> dict[str, Ranking]:
        return {source.source_id: self._ranked(source, pool) for source in sources}

    def _ranked(self, source: ScopedNodes, pool: int) -> Ranking:
        limit = nearest_wanted(self._options, pool)
        pool_rows = self._found(source.condition, pool, limit)
        text, more = self._ranker.text_scores(pool_rows.rows), pool_rows.by_text >= pool
        if self._vector is None:
            return self._ranker.of_text(pool_rows.rows, text, more=more)
        own, more = {*pool_rows.near, *ranked(text)[:limit]}, more or len(pool_rows.near) >= limit
        rows = [row for row in pool_rows.rows if row.rid in own]
        return self._ranker.of_both(source.source_id, rows, text, pool_rows.cosine, self._evidence(), more=more)

    def _chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        return self._view.chunks("n.row IN $rows", rows=list(rows))

    def _compared(
        self, source: ScopedNodes, rids: Collection[int]
    ) -> tuple[list[FoundRow], Mapping[int, float] | None]:
        chosen = (
            f"MATCH (n:{self._view.store}:Chunk) WHERE n.row IN $rows AND n.words IS NOT NULL AND"
            f" {self._readable(source.condition)} RETURN n.row AS row, true AS by_text"
        )
        scored = self._scored(chosen, source.condition, rows=list(rids))
        return scored.rows, None if self._vector is None else scored.cosine

    def ranked_in(self, source: ScopedNodes, documents: Collection[int]) -> dict[int, list[int]]:
        """Return the rows of each of some documents that hold words of the question, best first."""
        if not self._words:
            return {}
        inside = source.condition._replace(text=f"{source.condition.text} AND n.document = $document")
        chosen = self._by_text(inside)
        rows_of = {
            document: self._scored(chosen, inside, pool=LEAST_POOL, document=document).rows for document in documents
        }
        return {document: ranked(self._ranker.text_scores(rows)) for document, rows in rows_of.items()}

    def _found(self, condition: NodeCondition, pool: int, limit: int) -> _Found:
        """Return the rows to score: the best by text and the nearest by vector, in one call.

        The index of vectors knows no filter. So more neighbours are asked for while too few meet the condition. Where
        the share that met it says that more than `_MOST_NEIGHBOURS` are needed, every row that meets it is compared.
        """
        wanted = limit if self.adapter is None else _SPARE_MAPPED * limit
        asked = _SPARE * wanted
        indexed = self._indexed()
        while True:
            by_index = indexed if asked <= _MOST_NEIGHBOURS else []
            others = [key for key in self._view.keys if key not in by_index]
            parts = [self._by_text(condition)] if self._words else []
            parts += [] if self._vector is None else self._nearest(condition, by_index)
            if not parts:
                return _Found([], 0, [], {}, {}, {})
            scored = self._scored(" UNION ALL ".join(parts), condition, pool=pool, limit=wanted, asked=asked,
                                 exact=[text_index(self._view.store, key) for key in others], exact_keys=others,
                                 indexes=[vector_index(self._view.store, key) for key in by_index])  # fmt: skip
            near = scored.near[:wanted]
            if len(near) >= wanted or not by_index or asked >= self._ranker.collection.chunks:
                self._measure(scored, near, by_index)
                if not any(map(self._watch.is_low, by_index)):
                    return scored._replace(near=ranked({rid: scored.cosine[rid] for rid in near})[:limit])
                indexed = []
            else:
                asked = max(4 * asked, asked * wanted // max(len(near), 1))

    def _indexed(self) -> list[int]:
        """Return the classes whose index of vectors is searched."""
        large = [each.key for each in self._view.classes if each.texts >= APPROXIMATE_FROM]
        return [key for key in large if self._watch.next_way(key) is not SearchWay.EXACT]

    def _measure(self, scored: _Found, near: Collection[int], by_index: Sequence[int]) -> None:
        """Watch the recall of the indexes: rows that text found, and that are near enough, are to be neighbours too."""
        farthest = min((scored.nearness[rid] for rid in near), default=1.0)
        due = [row.rid for row in scored.rows[: scored.by_text] if scored.nearness.get(row.rid, -1.0) > farthest]
        for key in by_index:
            own = {rid for rid in due if scored.keys[rid] == key}
            if own:
                self._watch.add(key, len(own.intersection(near)) / len(own))

    def _scored(self, chosen: str, condition: NodeCondition, **values: Any) -> _Found:
        """Return rows to score, with their cosines.

        Args:
            chosen: the statement that returns `row` and `by_text`; it uses the condition and `values`.
        """
        cosine = "null" if self._vector is None else "max(vector.similarity.cosine(n.embedding, $vector))"
        vectors = "null" if self._vector is None or self.adapter is None else "collect(n.embedding)"
        rows = self._view.rows(
            f"CALL {{ {chosen} }} WITH row, collect(by_text) AS parts MATCH (n:{self._view.store} {{row: row}})"
            f" WITH row, parts, head([x IN collect(n) WHERE x:Chunk]) AS c, {cosine} AS cosine,"
            f" {vectors} AS near RETURN row, parts, cosine, near, c.store_class, {_ROW} ORDER BY cosine DESC, row",
            **condition.values, **values, vector=self._vector, within=condition.lucene,
            words=f"+({self._words}) +({condition.lucene})^0" if condition.lucene else self._words,
            text_indexes=[text_index(self._view.store, key) for key in self._view.keys],
        )  # fmt: skip
        # The server gives (1 + cosine) / 2.
        nearness = {rid: 2.0 * cosine - 1.0 for rid, _, cosine, *_ in rows if cosine is not None}
        cosines = nearness
        if self.adapter is not None and self._vector is not None:
            mapped = [(rid, vector) for rid, _, _, vectors, *_ in rows for vector in vectors]
            cosines = self.adapter.best_cosines(self._vector, mapped)
        first = [row for row in rows if True in row[1]]
        others = [row for row in rows if True not in row[1]]
        near = [rid for rid, parts, *_ in rows if False in parts]
        keys = {rid: key for rid, _, _, _, key, *_ in rows}
        found_rows = [_found_row(rid, *row) for rid, _, _, _, _, *row in (*first, *others)]
        return _Found(found_rows, len(first), near, nearness, cosines, keys)

    def _by_text(self, condition: NodeCondition) -> str:
        """Return the statement for the rows of a condition that are best by the full text index of each class."""
        return (
            "UNWIND $text_indexes AS name CALL { WITH name"
            " CALL db.index.fulltext.queryNodes(name, $words) YIELD node AS n, score"
            f" WITH n, score WHERE {self._readable(condition)}"
            " RETURN n.row AS row ORDER BY score DESC, row LIMIT $pool } RETURN row, true AS by_text"
        )

    def _nearest(self, condition: NodeCondition, by_index: Sequence[int]) -> list[str]:
        """Return the statements for the rows of a condition that are nearest to the vector."""
        best = (  # the scores of the index are rounded: its vectors are quantised
            "WITH n.row AS row, max(vector.similarity.cosine(n.embedding, $vector)) AS score"
            " RETURN row, false AS by_text ORDER BY score DESC, row LIMIT $limit"
        )
        within = (  # the index of words knows which chunks have the values that a filter asks for
            "UNWIND $exact AS name CALL db.index.fulltext.queryNodes(name, $within) YIELD node AS c WITH c.row AS row"
            f" MATCH (n:{self._view.store} {{row: row}})"
        )
        compared = (
            f"{within if condition.lucene else f'MATCH (n:{self._view.store})'} WHERE n.embedding IS NOT NULL"
            f" AND n.store_class IN $exact_keys AND {self._readable(condition)} {best}"
        )
        searched = (
            "UNWIND $indexes AS name CALL db.index.vector.queryNodes(name, $asked, $vector) YIELD node AS n"
            f" WITH n WHERE {self._readable(condition)} {best}"
        )
        return [*([searched] if by_index else []), *([compared] if len(by_index) < len(self._view.keys) else [])]

    def _readable(self, condition: NodeCondition) -> str:
        return f"{condition.text} AND n.store_class IN $keys AND {VISIBLE}"

    def _full_text(self) -> str:
        """Return the question as a full text query; the server multiplies each weight by the term's own idf."""
        options, collection, clauses = self._options, self._ranker.collection, list[str]()
        for look_up in self._ranker.look_ups[:_MOST_CLAUSES]:
            idf = collection.head_idf if look_up.in_head else collection.idf
            weight = look_up.score / idf(look_up.term)
            if not look_up.in_head:
                clauses.append(lucene("words", look_up.term, weight))
                continue
            boosted = weight * (1.0 + options.title_boost)
            clauses += [lucene("title_words", look_up.term, boosted), lucene("head_words", look_up.term, weight)]
        if options.definition_boost and self._ranker.question is not None:
            names = names_in(self._ranker.question.words)[:_MOST_CLAUSES]
            clauses += [lucene("defined", name, options.definition_boost) for name in names]
        return " ".join(clauses)

    def _codes_of(self, question: StoreQuestion) -> list[str]:
        """Return the question's codes if it has few other words and some readable row holds all of them, else none."""
        codes = code_words(question.own)
        fields = ("words", *TITLES)
        query = " ".join(f"+({' '.join(lucene(field, code) for field in fields)})" for code in codes)
        rows = codes and self._view.rows(
            "UNWIND $names AS name CALL db.index.fulltext.queryNodes(name, $query) YIELD node AS n"
            f" WITH n WHERE {self._readable(TRUE)} RETURN n.row LIMIT 1",
            names=[text_index(self._view.store, key) for key in self._view.keys], query=query,
        )  # fmt: skip
        return codes if rows else []

    def _evidence(self) -> StoreEvidence:
        """Return the best hit of all that the caller may read, so that the scores of all sources compare."""
        if self._best is None:
            rows = self._scored(self._by_text(TRUE), TRUE, pool=FIRST).rows if self._words else []
            self._best = self._ranker.evidence(rows)
        return self._best


def _found_row(rid: int, document: int, section: int, words: str, title: str, head: str, defined: str) -> FoundRow:
    titled = frozenset(title.split())
    return FoundRow(
        rid, 0, document, section, words.split(), titled.union(head.split()), titled, frozenset(defined.split())
    )
