"""The ranking of found rows by text, or by text and vectors: the same for every server, which finds rows only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from context_engine.adapters.sources.stores.chunk_rows import names_in
from context_engine.adapters.sources.stores.options import (
    CLEARLY,
    SearchOptions,
    boosted,
    kind_of,
    lifted,
    merged,
    ranked,
)
from context_engine.adapters.sources.stores.question import (
    FoundRow,
    ScoredCollection,
    Scorer,
    StoreEvidence,
    StoreQuestion,
    look_ups,
)
from context_engine.adapters.sources.stores.recall import RecallWatch
from context_engine.core.models import Chunk, Score, ScoreKind, TermStatistics

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

POOL: Final = 250
"""Rows of a source that are scored, the best by the terms they hold; 60 cost .015 of R@10, 120 cost .005."""
LEAST_POOL: Final = 60
_MOST_POOLED: Final = 1_000
"""Rows of many sources that are scored at first, in all."""
_POOL_SHARE: Final = 4
FIRST: Final = 40
"""Rows of the whole store among which the best hit is looked for."""


def first_pool(sources: int, top_k: int, most: int = POOL) -> int:
    """Return how many rows of each of some sources are scored at first, at most `most` unless more are wanted."""
    return max(min(most, _MOST_POOLED // max(sources, 1)), LEAST_POOL, top_k)


def nearest_wanted(options: SearchOptions, pool: int) -> int:
    """Return how many of the nearest rows join a pool: one for every fourth row of it, `depth` at least."""
    return max(options.depth, pool // _POOL_SHARE)


class Ranking(NamedTuple):
    """The rows of one source, best first, the scores of each, and whether more rows might be found."""

    rows: list[int]
    scores: Callable[[int], tuple[Score, ...]]
    more: bool


class RowRanker:
    """Ranks rows for one question.

    Args:
        question: None if it has no terms.
        collection: the statistics of the readable texts.
        by_text: the scorer id of the text scores, which also names the collection.
        by_vector: that of the cosines; "" for a search by text only.
        codes: the codes of the question; rows that hold all of them come first.

    Attributes:
        question, collection: the arguments.
        look_ups: the terms to find rows by.
    """

    def __init__(
        self,
        question: StoreQuestion | None,
        collection: ScoredCollection,
        options: SearchOptions,
        *,
        by_text: str,
        by_vector: str = "",
        codes: Sequence[str] = (),
    ) -> None:
        # No texts of whole sections are stored: in the embedded base they changed R@10 by -.000 to -.003.
        self._options = options.model_copy(update={"section_weight": 0.0})
        self.question, self.collection, self._codes = question, collection, codes
        self._by_text, self._by_vector = by_text, by_vector
        self.look_ups = [] if question is None else look_ups(question, collection, options)
        self._scorer = None if question is None else Scorer(question, collection, self._options)

    @property
    def statistics(self) -> TermStatistics:
        """How frequent the question's terms are, for the engine."""
        terms = () if self.question is None else self.question.weights
        counted = {term: self.collection.frequency(term) for term in terms}
        return TermStatistics(collection=self._by_text, chunks=self.collection.chunks, document_frequency=counted)

    def text_scores(self, rows: Sequence[FoundRow]) -> dict[int, float]:
        """Return the text score of each row; 0 if the question has no terms."""
        return dict.fromkeys((row.rid for row in rows), 0.0) if self._scorer is None else self._scorer.scores(rows)

    def evidence(self, rows: Sequence[FoundRow]) -> StoreEvidence:
        """Return the evidence of the best rows of the whole store, by which the scores of all sources compare."""
        return StoreEvidence(0.0, 0.0) if self._scorer is None else self._scorer.evidence(rows)

    def of_text(self, rows: Sequence[FoundRow], text: Mapping[int, float], *, more: bool) -> Ranking:
        """Rank rows by their text scores."""
        own = self._boosted({row.rid: text[row.rid] for row in rows}, rows)
        return Ranking(ranked(own), lambda row: (Score(ScoreKind.BM25, own[row], self._by_text),), more)

    def of_both(
        self,
        source_id: str,
        rows: Sequence[FoundRow],
        text: Mapping[int, float],
        cosines: Mapping[int, float],
        best: StoreEvidence,
        *,
        more: bool,
    ) -> Ranking:
        """Rank rows by text scores and cosines.

        Args:
            text: of each row.
            cosines: of each row with vectors; also of others.
        """
        kind, own = kind_of(self._options), {row.rid: text[row.rid] for row in rows}
        cosine = {row: cosines[row] for row in own if row in cosines}
        fused = self._boosted(merged(own, best.best, cosine, self._options, best.trust), rows)
        if self._codes:
            clearly = [row for row in rows if own[row.rid] >= CLEARLY * best.best]
            fused = lifted(fused, {row.rid for row in clearly if row.holds(self._codes)}, kind)
        # Ranks in one source's list are not comparable with those in another's, so each list has its own scorer.
        scorer = f"{self._by_text}:{self._by_vector}"
        scorer = scorer if kind is ScoreKind.WEIGHTED else f"{scorer}:{source_id}"

        def scores(row: int) -> tuple[Score, ...]:
            dense = (Score(ScoreKind.COSINE, cosine[row], self._by_vector),) if row in cosine else ()
            return (Score(kind, fused[row], scorer), *dense, Score(ScoreKind.BM25, own[row], self._by_text))

        return Ranking(ranked(fused), scores, more)

    def _boosted(self, scores: Mapping[int, float], rows: Sequence[FoundRow]) -> Mapping[int, float]:
        """Add the boosts for titles that contain the question's words, and for rows that define its terms."""
        options = self._options
        if self.question is None or self._scorer is None or not options.title_boost + options.definition_boost:
            return scores
        named = names_in(self.question.words)
        defines = {row.rid for row in rows if not row.defined.isdisjoint(named)}
        return boosted(scores, self._scorer.title_shares(rows), defines, options)


class CheckedRows(Protocol):
    """The rows of a source that a search may find."""

    @property
    def source_id(self) -> str: ...

    @property
    def test(self) -> Callable[[Chunk], bool] | None:
        """A test that chunks must pass; None if the server's condition is exact."""


S = TypeVar("S", bound=CheckedRows)


class ViewSearch(Generic[S]):
    """One question to a view of a store.

    Attributes:
        adapter: maps the vectors before they are compared; None: they are compared as they are.
        scorer_id: of its cosines: the model, or the model and the adapter; "" for a search by text only.

    Args:
        model_id: of the store's vectors.
        vector: of the question; None: search by text only.
        watch: the recall of approximate searches.
    """

    _ranker: RowRanker
    _most_pool = 16_000
    """Most rows of a source that are scored."""

    def __init__(
        self,
        model_id: str | None,
        vector: Sequence[float] | None,
        options: SearchOptions,
        watch: RecallWatch,
        adapter: DomainAdapter | None,
    ) -> None:
        self._options, self._watch, self.adapter = options, watch, adapter
        model = str(model_id) if adapter is None else adapter.scorer_id
        self.scorer_id = "" if vector is None else model

    @property
    def statistics(self) -> TermStatistics:
        """How frequent the question's terms are, for the engine."""
        return self._ranker.statistics

    def best(self, sources: Sequence[S], top_k: int) -> dict[str, list[Chunk]]:
        """Return the best top_k chunks of each source."""
        pool = first_pool(len(sources), top_k)
        return best_chunks(sources, self._rank, self._chunks, top_k=top_k, pool=pool, most=self._most_pool)

    def measured(self, source: S, rows: Collection[int]) -> dict[int, Chunk]:
        """Return the chunks of those of some rows that a search of a source may find, with the scores that it gives if
        it finds them together.
        """
        found_rows, cosine = self._compared(source, rows)
        text = self._ranker.text_scores(found_rows)
        if cosine is None:
            ranking = self._ranker.of_text(found_rows, text, more=False)
        else:
            ranking = self._ranker.of_both(source.source_id, found_rows, text, cosine, self._evidence(), more=False)
        chunks = self._chunks(ranking.rows)
        kept = {row: chunk for row, chunk in chunks.items() if source.test is None or source.test(chunk)}
        return {row: chunk._replace(scores=ranking.scores(row)) for row, chunk in kept.items()}

    if TYPE_CHECKING:

        def ranked_in(self, source: S, documents: Collection[int]) -> Mapping[int, Sequence[int]]:
            """Return the rows of each of some documents that hold words of the question, best first."""

        def _rank(self, sources: Sequence[S], pool: int) -> Mapping[str, Ranking]:
            """Return the ranking of each source, with at most `pool` rows of it scored."""

        def _chunks(self, rows: Sequence[int]) -> Mapping[int, Chunk]:
            """Return the chunks of some rows."""

        def _compared(self, source: S, rows: Collection[int]) -> tuple[Sequence[FoundRow], Mapping[int, float] | None]:
            """Return those of some rows that a search of a source may find, and their cosines if it has a vector."""

        def _evidence(self) -> StoreEvidence:
            """Return the best hit of all that the caller may read, so that the scores of all sources compare."""


def best_chunks(
    sources: Sequence[S],
    rank: Callable[[Sequence[S], int], Mapping[str, Ranking]],
    texts: Callable[[Sequence[int]], Mapping[int, Chunk]],
    *,
    top_k: int,
    pool: int,
    most: int,
) -> dict[str, list[Chunk]]:
    """Return the best top_k chunks of each source; a source is searched deeper while chunks fail its test.

    Args:
        rank: returns the ranking of each of some sources, with so many rows of it scored.
        texts: returns the chunks of some rows; without those that the server has lost since they were ranked.
        pool: rows of a source that are scored at first; `most` at last.
    """
    out: dict[str, list[Chunk]] = {}
    left = list(sources)
    while left:
        rankings = rank(left, pool)
        reached = {
            source.source_id: rankings[source.source_id].rows[: None if source.test else top_k] for source in left
        }
        chunks = texts([row for rows in reached.values() for row in rows])
        for source in left:
            name, ranking = source.source_id, rankings[source.source_id]
            there = [row for row in reached[name] if row in chunks]
            kept = [row for row in there if source.test is None or source.test(chunks[row])][:top_k]
            if len(kept) >= top_k or not ranking.more or pool >= most:
                out[name] = [chunks[row]._replace(scores=ranking.scores(row)) for row in kept]
        left = [source for source in left if source.source_id not in out]
        pool = min(4 * pool, most)
    return out
