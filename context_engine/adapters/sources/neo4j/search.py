"""A search of one view of a store, restricted to sources, filters and a day."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import count
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.neo4j.server import Transaction
from context_engine.adapters.sources.neo4j.state import VISIBLE, StoreClass, StoreState, text_index, vector_index
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.index_text import names_in
from context_engine.adapters.sources.stores.options import SearchOptions, ranked
from context_engine.adapters.sources.stores.pushdown import FieldValues
from context_engine.adapters.sources.stores.question import (
    FoundRow,
    ScoredCollection,
    StoreEvidence,
    StoreQuestion,
    code_words,
)
from context_engine.adapters.sources.stores.ranking import Ranker, Ranking
from context_engine.adapters.sources.stores.recall import RecallWatch
from context_engine.adapters.sources.stores.scope import Scope, pushed
from context_engine.core.models import Chunk

POOL: Final = 250
"""Rows of a source that are scored, the best by the server's full text index."""
LEAST_POOL: Final = 60
_POOL_SHARE: Final = 4
"""A search by vectors takes one row for so many of the pool, `depth` at least."""
_FIRST: Final = 40
"""Rows of the whole store among which the best hit is looked for."""
APPROXIMATE_FROM: Final = 1_000
"""Texts of an access class from which its vector index is searched; fewer are all compared."""
_SPARE: Final = 4
"""Neighbours that are asked for each wanted one: the server's index knows no filter, and finds more of the nearest."""
_MOST_NEIGHBOURS: Final = 4_000
_MOST_CLAUSES: Final = 300
"""Terms of a full text query; the server's limit is 1,024 clauses."""
_SPECIAL: Final = re.compile(r'([+\-&|!(){}\[\]^"~*?:\\/])')
_TITLES: Final = ("title_words", "head_words")


class RowCondition(NamedTuple):
    """A condition on a node `n`, in Cypher, and the values of its parameters."""

    text: str
    values: Mapping[str, Any]


TRUE: Final = RowCondition("true", {})


class RowConditions:
    """Sets of rows as conditions (`pushdown.RowSets`)."""

    everything: RowCondition = TRUE
    nothing: RowCondition = RowCondition("false", {})

    def __init__(self) -> None:
        self._names = count()

    def having(self, numbers: Iterable[int]) -> RowCondition:
        """Return the condition for rows with at least one of some numbers."""
        name = f"numbers_{next(self._names)}"
        return RowCondition(f"any(number IN n.attributes WHERE number IN ${name})", {name: list(numbers)})

    def without(self, rows: RowCondition) -> RowCondition:
        """Return the condition for all other rows."""
        return RowCondition(f"NOT ({rows.text})", rows.values)

    def in_all(self, parts: list[RowCondition]) -> RowCondition:
        """Return the condition for rows of every part."""
        return self._joined(" AND ", parts)

    def in_any(self, parts: list[RowCondition]) -> RowCondition:
        """Return the condition for rows of any part."""
        return self._joined(" OR ", parts)

    def _joined(self, word: str, parts: list[RowCondition]) -> RowCondition:
        values = {name: value for part in parts for name, value in part.values.items()}
        return RowCondition(f"({word.join(part.text for part in parts)})", values)


class StoreView(NamedTuple):
    """What a caller may read of a store after one commit.

    Attributes:
        store: the name of the store.
        classes: the readable access classes.
    """

    transaction: Transaction
    store: str
    state: StoreState
    classes: tuple[StoreClass, ...]

    @property
    def keys(self) -> list[int]:
        """The keys of the readable classes."""
        return [each.key for each in self.classes]

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the visible nodes of the readable classes."""
        return self.transaction.rows(statement, generation=self.state.generation, keys=self.keys, **values)

    def chunks(self, condition: str, **values: Any) -> dict[int, Chunk]:
        """Return the readable chunks that meet a condition, by their numbers, in the order of writing."""
        rows = self.rows(
            f"MATCH (n:{self.store}:Chunk) WHERE ({condition}) AND n.store_class IN $keys AND {VISIBLE}"
            " RETURN n.row, n.indexed_at, n.chunk_id, n.content, n.fields ORDER BY n.row",
            **values,
        )
        return {row: decode((chunk_id, content, fields), at) for row, at, chunk_id, content, fields in rows}

    def values_of(self, name: str) -> FieldValues:
        """Return the number that says "has the field", and (number, value) of each value."""
        rows = self.transaction.rows(
            f"MATCH (f:{self.store}_field {{name: $name}}) RETURN f.number, f.value ORDER BY f.number", name=name
        )
        has = next((number for number, value in rows if not value), None)
        return has, [(number, json.loads(value)) for number, value in rows if value]

    def fields_of(self, source_id: str) -> tuple[str, ...]:
        """Return the fields of a source's chunks."""
        rows = self.rows(
            f"MATCH (n:{self.store}:Document {{source: $source}}) WHERE n.store_class IN $keys AND {VISIBLE}"
            " UNWIND n.fields AS field RETURN DISTINCT field ORDER BY field",
            source=source_id,
        )
        return tuple(field for (field,) in rows)

    def collection(self, question: StoreQuestion | None) -> ScoredCollection:
        """Return the statistics of the readable texts for the terms of a question."""
        words = [] if question is None else [*{*question.weights, *question.credited}]
        rows = self.rows(
            f"MATCH (t:{self.store}_term) WHERE t.class IN $keys AND t.term IN $words"
            " RETURN t.term, sum(t.texts), sum(t.heads)",
            words=words,
        )
        return ScoredCollection(
            sum(each.texts for each in self.classes),
            sum(each.words for each in self.classes),
            {term: texts for term, texts, _ in rows},
            {term: heads for term, _, heads in rows},
        )


class ScopedRows(NamedTuple):
    """The rows of a source that a search may find.

    Attributes:
        test: chunks must pass it; None if the condition is exact.
    """

    key: str
    condition: RowCondition
    test: Callable[[Chunk], bool] | None


def scoped(view: StoreView, scope: Scope) -> ScopedRows:
    """Return the rows of a source."""
    sets = RowConditions()
    parts = [RowCondition("n.source = $source", {"source": scope.source_id})]
    parts += [] if scope.as_of is None else [_in_force(scope.as_of)]
    if scope.filters is None:
        return ScopedRows(scope.source_id, sets.in_all(parts), None)
    query, test = pushed(scope, sets, view.values_of, {})
    return ScopedRows(scope.source_id, sets.in_all([*parts, query]), test)


def _in_force(day: date) -> RowCondition:
    text = "(n.from_day IS NULL OR n.from_day <= $day) AND (n.to_day IS NULL OR n.to_day > $day)"
    return RowCondition(text, {"day": day.toordinal()})


def lucene(field: str, term: str, weight: float = 1.0) -> str:
    """Return a clause of a full text query."""
    escaped = _SPECIAL.sub(r"\\\1", term)
    return f"{field}:{escaped}^{weight:.4f}"


def all_in_head(words: Iterable[str]) -> str:
    """Return the full text query for the heads that hold every one of some words."""
    return " ".join(f"+({' '.join(lucene(field, word) for field in _TITLES)})" for word in words)


_ROW: Final = "c.document, c.section, c.words, c.title_words, c.head_words, c.defined"  # the fields of a `FoundRow`


class _Found(NamedTuple):
    """Rows to score.

    Attributes:
        rows: those that text found first.
        by_text: how many text found.
        near: the nearest by vector, best first.
        cosine: of each row with vectors.
        keys: the access class of each row.
    """

    rows: list[FoundRow]
    by_text: int
    near: list[int]
    cosine: dict[int, float]
    keys: dict[int, int]


class StoreSearch:
    """One question to a view.

    Args:
        question: None if it has no terms.
        vector: of the question; None: search by text only.
        watch: the recall of the vector indexes.
    """

    def __init__(
        self,
        view: StoreView,
        question: StoreQuestion | None,
        vector: Sequence[float] | None,
        options: SearchOptions,
        watch: RecallWatch,
    ) -> None:
        self._view, self._question, self._options, self._watch = view, question, options, watch
        self._vector = None if vector is None or not any(vector) else list(map(float, vector))
        self._collection = view.collection(question)
        self.ranker = Ranker(
            question,
            self._collection,
            options,
            by_text=f"neo4j:{view.state.base_id}",
            scorer_id="" if vector is None else str(view.state.model_id),
        )
        self._words = self._full_text()
        self._codes = [] if question is None or vector is None else self._codes_of(question)
        self._best: StoreEvidence | None = None

    def rank(self, sources: Sequence[ScopedRows], pool: int) -> dict[str, Ranking]:
        """Return the ranking of each source.

        Args:
            pool: most rows of a source that are scored.
        """
        return {source.key: self._rank(source, pool) for source in sources}

    def _rank(self, source: ScopedRows, pool: int) -> Ranking:
        limit = max(self._options.depth, pool // _POOL_SHARE)
        found = self._found(source.condition, pool, limit)
        text = self.ranker.texts(found.rows)
        if self._vector is None:
            return self.ranker.by_text(found.rows, text, more=found.by_text >= pool)
        own = {*found.near, *ranked({row.rid: text[row.rid] for row in found.rows})[:limit]}
        more = len(found.near) >= limit or found.by_text >= pool
        return self._by_both(source, [row for row in found.rows if row.rid in own], text, found.cosine, more=more)

    def measured(self, source: ScopedRows, rids: Collection[int]) -> Ranking:
        """Return the ranking of those of some rows that a search of a source may find, as if it had found them all."""
        chosen = (
            f"MATCH (n:{self._view.store}:Chunk) WHERE n.row IN $rows AND n.words IS NOT NULL AND"
            f" {self._readable(source.condition)} RETURN n.row AS row, true AS by_text"
        )
        found = self._scored(chosen, source.condition, rows=list(rids))
        text = self.ranker.texts(found.rows)
        if self._vector is None:
            return self.ranker.by_text(found.rows, text, more=False)
        return self._by_both(source, found.rows, text, found.cosine, more=False)

    def ranked_in(self, source: ScopedRows, documents: Collection[int]) -> dict[int, list[int]]:
        """Return the rows of each of some documents that hold words of the question, best first."""
        if not self._words:
            return {}
        inside = RowCondition(f"{source.condition.text} AND n.document = $document", source.condition.values)
        return {
            document: ranked(
                self.ranker.texts(self._scored(self._by_text(inside), inside, pool=LEAST_POOL, document=document).rows)
            )
            for document in documents
        }

    def _by_both(
        self,
        source: ScopedRows,
        rows: Sequence[FoundRow],
        text: Mapping[int, float],
        cosines: Mapping[int, float],
        *,
        more: bool,
    ) -> Ranking:
        own = {row.rid: text[row.rid] for row in rows}
        cosine = {rid: cosines[rid] for rid in own if rid in cosines}
        return self.ranker.by_both(source.key, rows, own, cosine, self._evidence(), self._codes, more=more)

    def _found(self, condition: RowCondition, pool: int, limit: int) -> _Found:
        """Return the rows to score: the best by text and the nearest by vector, in one call.

        The index of vectors knows no filter. So more neighbours are asked for while too few meet the condition, and in
        the end every row that meets it is compared.
        """
        asked = _SPARE * limit
        while True:
            by_index = self._indexed if asked <= _MOST_NEIGHBOURS else []
            parts = [self._by_text(condition)] if self._words else []
            parts += [] if self._vector is None else self._nearest(condition, by_index)
            if not parts:
                return _Found([], 0, [], {}, {})
            found = self._scored(" UNION ALL ".join(parts), condition, pool=pool, limit=limit, asked=asked,
                                 exact=[key for key in self._view.keys if key not in by_index],
                                 indexes=[vector_index(self._view.store, key) for key in by_index])  # fmt: skip
            near = found.near[:limit]
            if len(near) >= limit or not by_index or asked >= self._collection.chunks:
                self._measure(found, near, by_index)
                return found._replace(near=near)
            asked *= 4

    @property
    def _indexed(self) -> list[int]:
        """The classes whose index of vectors is searched."""
        classes = self._view.classes
        return [each.key for each in classes if each.texts >= APPROXIMATE_FROM and not self._watch.is_low(each.key)]

    def _measure(self, found: _Found, near: Collection[int], by_index: Sequence[int]) -> None:
        """Watch the recall of the indexes: rows that text found, and that are near enough, are to be neighbours too."""
        farthest = min((found.cosine[rid] for rid in near), default=1.0)
        due = [row.rid for row in found.rows[: found.by_text] if found.cosine.get(row.rid, -1.0) > farthest]
        for key in by_index:
            own = {rid for rid in due if found.keys[rid] == key}
            if own:
                self._watch.add(key, len(own.intersection(near)) / len(own))

    def _scored(self, chosen: str, condition: RowCondition, **values: Any) -> _Found:
        """Return rows to score, with their cosines.

        Args:
            chosen: the statement that returns `row` and `by_text`; it uses the condition and `values`.
        """
        cosine = "null" if self._vector is None else "max(vector.similarity.cosine(n.embedding, $vector))"
        rows = self._view.rows(
            f"CALL {{ {chosen} }} WITH row, collect(by_text) AS parts MATCH (n:{self._view.store} {{row: row}})"
            f" WITH row, parts, head([x IN collect(n) WHERE x:Chunk]) AS c, {cosine} AS cosine"
            f" RETURN row, parts, cosine, c.store_class, {_ROW} ORDER BY cosine DESC, row",
            **condition.values, **values, words=self._words, vector=self._vector,
            text_indexes=[text_index(self._view.store, key) for key in self._view.keys],
        )  # fmt: skip
        # The server gives (1 + cosine) / 2.
        cosines = {rid: 2.0 * cosine - 1.0 for rid, _, cosine, *_ in rows if cosine is not None}
        first = [row for row in rows if True in row[1]]
        others = [row for row in rows if True not in row[1]]
        near = [rid for rid, parts, *_ in rows if False in parts]
        keys = {rid: key for rid, _, _, key, *_ in rows}
        found = [_found_row(rid, *row) for rid, _, _, _, *row in (*first, *others)]
        return _Found(found, len(first), near, cosines, keys)

    def _by_text(self, condition: RowCondition) -> str:
        """Return the statement for the rows of a condition that are best by the full text index of each class."""
        return (
            "UNWIND $text_indexes AS name CALL { WITH name"
            " CALL db.index.fulltext.queryNodes(name, $words) YIELD node AS n, score"
            f" WITH n, score WHERE {self._readable(condition)}"
            " RETURN n.row AS row ORDER BY score DESC, row LIMIT $pool } RETURN row, true AS by_text"
        )

    def _nearest(self, condition: RowCondition, by_index: Sequence[int]) -> list[str]:
        """Return the statements for the rows of a condition that are nearest to the vector."""
        compared = (
            f"MATCH (n:{self._view.store}) WHERE n.embedding IS NOT NULL AND n.store_class IN $exact AND"
            f" {self._readable(condition)}"
            " WITH n.row AS row, max(vector.similarity.cosine(n.embedding, $vector)) AS score"
            " RETURN row, false AS by_text ORDER BY score DESC, row LIMIT $limit"
        )
        searched = (
            "UNWIND $indexes AS name CALL db.index.vector.queryNodes(name, $asked, $vector) YIELD node AS n, score"
            f" WITH n, score WHERE {self._readable(condition)} WITH n.row AS row, max(score) AS score"
            " RETURN row, false AS by_text ORDER BY score DESC, row LIMIT $limit"
        )
        return [*([searched] if by_index else []), *([compared] if len(by_index) < len(self._view.keys) else [])]

    def _readable(self, condition: RowCondition) -> str:
        return f"{condition.text} AND n.store_class IN $keys AND {VISIBLE}"

    def _full_text(self) -> str:
        """Return the question as a full text query; the server multiplies each weight by the term's own idf."""
        options, clauses = self._options, list[str]()
        for look_up in self.ranker.look_ups[:_MOST_CLAUSES]:
            idf = self._collection.head_idf if look_up.in_head else self._collection.idf
            weight = look_up.score / idf(look_up.term)
            if not look_up.in_head:
                clauses.append(lucene("words", look_up.term, weight))
                continue
            boosted = weight * (1.0 + options.title_boost)
            clauses += [lucene("title_words", look_up.term, boosted), lucene("head_words", look_up.term, weight)]
        if options.definition_boost and self._question is not None:
            names = names_in(self._question.words)[:_MOST_CLAUSES]
            clauses += [lucene("defined", name, options.definition_boost) for name in names]
        return " ".join(clauses)

    def _codes_of(self, question: StoreQuestion) -> list[str]:
        """Return the question's codes if it has few other words and some readable row holds all of them, else none."""
        codes = code_words(question.own)
        fields = ("words", *_TITLES)
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
            rows = self._scored(self._by_text(TRUE), TRUE, pool=_FIRST).rows if self._words else []
            self._best = self.ranker.evidence(rows)
        return self._best


def _found_row(rid: int, document: int, section: int, words: str, title: str, head: str, defined: str) -> FoundRow:
    titled = frozenset(title.split())
    return FoundRow(
        rid, 0, document, section, words.split(), titled.union(head.split()), titled, frozenset(defined.split())
    )
