"""A search in one snapshot of a store, restricted to sources, filters and a day."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from psycopg import sql

from context_engine.adapters.sources.postgres.attributes import (
    HOLDING,
    TRUE,
    Condition,
    RowConditions,
    holding_all,
    in_force,
    read_row,
    tsquery,
    values_of,
)
from context_engine.adapters.sources.postgres.bm25 import best_rows
from context_engine.adapters.sources.postgres.connection import Session, one_row
from context_engine.adapters.sources.postgres.nearest import VectorQuery, cosines, nearest
from context_engine.adapters.sources.postgres.row_security import name_classes
from context_engine.adapters.sources.postgres.schema import StoreState
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.options import SearchOptions, ranked
from context_engine.adapters.sources.stores.question import (
    FoundRow,
    ScoredCollection,
    StoreEvidence,
    StoreQuestion,
    code_words,
)
from context_engine.adapters.sources.stores.ranking import (
    FIRST,
    LEAST_POOL,
    POOL,
    Ranking,
    RowRanker,
    ViewSearch,
    best_chunks,
    first_pool,
    nearest_wanted,
)
from context_engine.adapters.sources.stores.recall import RecallWatch
from context_engine.adapters.sources.stores.scope import Scope, pushed
from context_engine.core.models import AccessScope, Chunk

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

_PRECISION: Final = 10_000
"""Whole numbers add up to the same sum in every order, whatever the server's plan."""


class SnapshotView(NamedTuple):
    """What a caller may read of a store at one moment.

    Attributes:
        classes: the keys of the access classes.
    """

    session: Session
    state: StoreState
    classes: list[int]

    @property
    def keys(self) -> list[int]:
        """The keys of the access classes."""
        return self.classes

    def only(self, key: int) -> SnapshotView:
        """Return the view of one of its classes."""
        return self._replace(classes=[key])

    @property
    def ranked(self) -> list[int]:
        """The keys of those whose rows are found by BM25; those of the others are found by the terms they hold."""
        return [one_class.key for one_class in self.state.classes if one_class.ranked and one_class.key in self.classes]

    @classmethod
    def of(cls, session: Session, state: StoreState, access: AccessScope | None) -> SnapshotView:
        """Return the view of a caller, beyond which the session sees nothing (`row_security`); None: everything."""
        keys = [held.key for held in state.readable(access)]
        name_classes(session, keys)
        return cls(session, state, keys)

    def collection(self, question: StoreQuestion | None) -> ScoredCollection:
        """Return the statistics of the readable texts for the terms of a question."""
        classes = [one_class for one_class in self.state.classes if one_class.key in self.classes]
        words = [] if question is None else [*{*question.weights, *question.credited}]
        rows = self.session.execute(
            "SELECT term, sum(texts), sum(heads) FROM terms WHERE class_key = ANY(%s) AND term = ANY(%s) GROUP BY term",
            (self.classes, words),
        ).fetchall()
        return ScoredCollection(
            sum(one_class.texts for one_class in classes),
            sum(one_class.words for one_class in classes),
            {term: int(texts) for term, texts, _ in rows},
            {term: int(heads) for term, _, heads in rows},
        )


class ScopedRows(NamedTuple):
    """The rows of a source that a search may find.

    Attributes:
        source_id, key: of the source; its key is never shown, for it tells how many sources there are.
        condition: on `words`.
        test: chunks must pass it; None if the condition is exact.
    """

    source_id: str
    key: int
    condition: Condition
    test: Callable[[Chunk], bool] | None


def scoped(view: SnapshotView, scope: Scope, key: int) -> ScopedRows:
    """Return the rows of a source."""
    day = TRUE if scope.as_of is None else in_force(scope.as_of)
    if scope.filters is None:
        return ScopedRows(scope.source_id, key, day, None)
    query, test = pushed(scope, RowConditions(), partial(values_of, view.session), {})
    return ScopedRows(scope.source_id, key, sql.SQL("({}) AND ({})").format(day, query), test)


def where(sources: Sequence[ScopedRows]) -> Condition:
    """Return the condition for the rows of any of some sources."""
    by_condition: dict[str, tuple[Condition, list[int]]] = {}
    for source in sources:
        by_condition.setdefault(repr(source.condition), (source.condition, []))[1].append(source.key)
    return RowConditions().in_any(
        [
            sql.SQL("(source_key = ANY({}) AND {})").format(sql.Literal(keys), condition)
            for condition, keys in by_condition.values()
        ]
    )


_BEST: Final = """
SELECT rid FROM (
    SELECT rid, row_number() OVER (PARTITION BY part ORDER BY sum(score) DESC, rid) AS place
    FROM unnest(%(lexemes)s::tsquery[], %(scores)s::bigint[]) AS wanted (lexeme, score)
    CROSS JOIN LATERAL (
        SELECT rid, {each} AS part FROM words WHERE class_key = ANY({classes}) AND terms @@ lexeme AND {condition}
    ) AS holding
    GROUP BY rid, part
) AS ranked WHERE place <= %(pool)s
"""
_ROWS: Final = """
SELECT rid, source_key, doc_key, section, parts FROM words
WHERE class_key = ANY(%s) AND rid = ANY(%s) AND {condition} ORDER BY rid
"""
_TEXTS: Final = (
    "SELECT rid, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key) WHERE rid = ANY(%s)"
)
_SOME: Final = f"WITH {HOLDING.format('')} SELECT EXISTS (SELECT FROM holding)"


class StoreSearch(ViewSearch[ScopedRows]):
    """One question to a view; further arguments are those of `ViewSearch`.

    Args:
        question: None if it has no terms.
    """

    def __init__(
        self,
        view: SnapshotView,
        question: StoreQuestion | None,
        vector: Sequence[float] | None,
        options: SearchOptions,
        watch: RecallWatch,
        adapter: DomainAdapter | None = None,
    ) -> None:
        super().__init__(view.state.model_id, vector, options, watch, adapter)
        self._view = view
        self._vector = None if vector is None else VectorQuery.of(view.session, vector, adapter)
        self._ranker = RowRanker(
            question,
            view.collection(question),
            options,
            by_text=f"postgres:{view.state.base_id}",
            by_vector=self.scorer_id,
            codes=[] if question is None or vector is None else self._codes_of(question),
        )

    def best(self, sources: Sequence[ScopedRows], top_k: int) -> dict[str, list[Chunk]]:
        """Return the best top_k chunks of each source."""
        ranked = self._ranked(sources) == self._view.classes
        most = LEAST_POOL if ranked else POOL  # more by BM25 found nothing more
        pool = first_pool(len(sources), top_k, most)
        return best_chunks(sources, self._rank, self._chunks, top_k=top_k, pool=pool, most=self._most_pool)

    def _rank(self, sources: Sequence[ScopedRows], pool: int) -> dict[str, Ranking]:
        """Return the ranking of each source.

        Args:
            pool: most rows of a source that are scored.
        """
        rows = self._rows_by_text(sources, pool)
        rows_of = {source.key: [row for row in rows if row.source_key == source.key] for source in sources}
        if self._vector is None:
            text = self._ranker.text_scores(rows)
            return {
                source.source_id: self._ranker.of_text(own, text, more=len(own) >= pool)
                for source in sources
                for own in [rows_of[source.key]]
            }
        best = self._evidence()
        return {
            source.source_id: self._merged(source, self._vector, rows_of[source.key], best, pool) for source in sources
        }

    def _chunks(self, rids: Sequence[int]) -> dict[int, Chunk]:
        rows = self._view.session.execute(_TEXTS, (list(rids),)).fetchall()
        return {rid: decode((chunk_id, content, fields), at) for rid, at, chunk_id, content, fields in rows}

    def _compared(self, source: ScopedRows, rids: Collection[int]) -> tuple[list[FoundRow], Mapping[int, float] | None]:
        rows = self._rows(list(rids), condition=where([source]))
        if self._vector is None:
            return rows, None
        return rows, cosines(self._view.session, self._vector, self._view.classes, [row.rid for row in rows])

    def ranked_in(self, source: ScopedRows, doc_keys: Collection[int]) -> dict[int, list[int]]:
        """Return the rows of each of some documents that hold words of the question, best first."""
        inside = sql.SQL("{} AND doc_key = ANY({})").format(where([source]), sql.Literal(list(doc_keys)))
        rows = self._rows(self._by_lexemes(self._view.classes, inside, sql.Identifier("doc_key"), LEAST_POOL))
        scores = self._ranker.text_scores(rows)
        return {key: ranked({row.rid: scores[row.rid] for row in rows if row.doc_key == key}) for key in doc_keys}

    def _merged(
        self, source: ScopedRows, vector: VectorQuery, by_text: Sequence[FoundRow], best: StoreEvidence, pool: int
    ) -> Ranking:
        """Merge the best of a source by text with the nearest by vector; every row gets both of its true scores."""
        view, limit = self._view, nearest_wanted(self._options, pool)
        near = nearest(
            view.session,
            vector,
            view.classes,
            where([source]),
            limit,
            self._watch,
            selective=source.condition is not TRUE,
        )
        rows = [*by_text, *self._rows(near, by_text)]
        text = self._ranker.text_scores(rows)
        own = {*near, *ranked(text)[:limit]}
        cosine = cosines(view.session, vector, view.classes, list(own))
        more = len(near) >= limit or len(by_text) >= pool
        rows = [row for row in rows if row.rid in own]
        return self._ranker.of_both(source.source_id, rows, text, cosine, best, more=more)

    def _codes_of(self, question: StoreQuestion) -> list[str]:
        """Return the question's codes if it has few other words and some readable row holds all of them, else none."""
        codes = code_words(question.own)
        values = (self._view.classes, holding_all(codes))
        return codes if codes and one_row(self._view.session, _SOME, values)[0] else []

    def _evidence(self) -> StoreEvidence:
        """Return the best hit of all that the caller may read, so that the scores of all sources compare."""
        return self._ranker.evidence(self._found([TRUE], TRUE, sql.SQL("1"), FIRST, self._view.ranked))

    def _ranked(self, sources: Sequence[ScopedRows]) -> list[int]:
        """Return the classes whose rows are found by BM25.

        Its index answers under a filter slowly and in part, so it is asked only where the index of terms is not read.
        """
        selective = any(source.condition is not TRUE for source in sources)
        return [] if selective and not self._view.state.guarded else self._view.ranked

    def _rows_by_text(self, sources: Sequence[ScopedRows], pool: int) -> list[FoundRow]:
        each = [where([source]) for source in sources]
        return self._found(each, where(sources), sql.Identifier("source_key"), pool, self._ranked(sources))

    def _found(
        self,
        conditions: Sequence[Condition],
        condition: Condition,
        each: sql.Composable,
        pool: int,
        ranked: Sequence[int],
    ) -> list[FoundRow]:
        """Return the rows to score: by BM25 for each condition, and by their lexemes at most `pool` for `each`.

        Args:
            condition: met by the rows of any of the conditions.
            ranked: the classes whose rows are found by BM25.
        """
        question, view = self._ranker.question, self._view
        if question is None or not self._ranker.look_ups:
            return []
        rids = best_rows(view.session, question.weights, ranked, conditions, pool)
        return self._rows([*rids, *self._by_lexemes([*{*view.classes} - {*ranked}], condition, each, pool)])

    def _by_lexemes(self, keys: Sequence[int], condition: Condition, each: sql.Composable, pool: int) -> list[int]:
        """Return the rows with the highest sum of the scores of the lexemes they hold."""
        look_ups = self._ranker.look_ups
        if not keys or not look_ups:
            return []
        query = sql.SQL(_BEST).format(classes=sql.Literal(sorted(keys)), condition=condition, each=each)
        scores = [round(_PRECISION * look_up.score) for look_up in look_ups]
        values = {"lexemes": [*map(tsquery, look_ups)], "scores": scores, "pool": pool}
        return [rid for (rid,) in self._view.session.execute(query, values)]

    def _rows(
        self, rids: Sequence[int], but_for: Sequence[FoundRow] = (), condition: Condition = TRUE
    ) -> list[FoundRow]:
        known = {row.rid for row in but_for}
        wanted = [rid for rid in rids if rid not in known]
        query = sql.SQL(_ROWS).format(condition=condition)
        rows = self._view.session.execute(query, (self._view.classes, wanted)) if wanted else ()
        return [read_row(*row) for row in rows]
