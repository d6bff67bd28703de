"""The ranking of the rows of a store for one question, whatever found them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from context_engine.adapters.sources.stores.index_text import names_in
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
from context_engine.core.models import Chunk, Score, ScoreKind, TermStatistics

_MOST_POOL: Final = 16_000


class Ranking(NamedTuple):
    """The rows of one source, best first, the scores of each, and whether more rows might be found."""

    rids: list[int]
    scores: Callable[[int], tuple[Score, ...]]
    more: bool


class Ranker:
    """Ranks rows by their text and their vectors.

    Attributes:
        look_ups: the terms to find rows by.

    Args:
        question: None if it has no terms.
        collection: the statistics of the readable texts.
        by_text: the scorer of texts, which names the store.
        scorer_id: the scorer of cosines; "" for a search by text only.
    """

    def __init__(
        self,
        question: StoreQuestion | None,
        collection: ScoredCollection,
        options: SearchOptions,
        *,
        by_text: str,
        scorer_id: str,
    ) -> None:
        # No texts of whole sections are stored: in the embedded base they changed R@10 by -.000 to -.003.
        self._options = options.model_copy(update={"section_weight": 0.0})
        self._question, self._collection = question, collection
        self._by_text, self._by_vector = by_text, scorer_id
        self.look_ups = [] if question is None else look_ups(question, collection, options)
        self._scorer = None if question is None else Scorer(question, collection, self._options)

    @property
    def statistics(self) -> TermStatistics:
        """How frequent the question's terms are, for the engine."""
        weights = {} if self._question is None else self._question.weights
        counted = {term: self._collection.frequency(term) for term in weights}
        return TermStatistics(collection=self._by_text, chunks=self._collection.chunks, document_frequency=counted)

    def texts(self, rows: Sequence[FoundRow]) -> dict[int, float]:
        """Return the text score of each row; 0 for a question without terms."""
        return dict.fromkeys([row.rid for row in rows], 0.0) if self._scorer is None else self._scorer.scores(rows)

    def evidence(self, rows: Sequence[FoundRow]) -> StoreEvidence:
        """Return the evidence of the best of some rows."""
        return StoreEvidence(0.0, 0.0) if self._scorer is None else self._scorer.evidence(rows)

    def by_text(self, rows: Sequence[FoundRow], text: Mapping[int, float], *, more: bool) -> Ranking:
        """Rank rows by their text scores.

        Args:
            text: the text score of each row.
            more: whether other rows might be found.
        """
        own = self._boosted({row.rid: text[row.rid] for row in rows}, rows)
        return Ranking(ranked(own), lambda rid: (Score(ScoreKind.BM25, own[rid], self._by_text),), more)

    def by_both(
        self,
        source_id: str,
        rows: Sequence[FoundRow],
        text: Mapping[int, float],
        cosine: Mapping[int, float],
        best: StoreEvidence,
        codes: Sequence[str],
        *,
        more: bool,
    ) -> Ranking:
        """Rank rows by their text scores and cosines.

        Args:
            cosine: of each row with vectors.
            best: the best hit of all that the caller may read, so that the scores of all sources compare.
            codes: rows that hold all of them, and match well, come first.
        """
        kind = kind_of(self._options)
        fused = self._boosted(merged(text, best.best, cosine, self._options, best.trust), rows)
        if codes:
            clearly = [row for row in rows if text[row.rid] >= CLEARLY * best.best]
            fused = lifted(fused, {row.rid for row in clearly if row.holds(codes)}, kind)
        # Ranks in one source's list are not comparable with those in another's, so each list has its own scorer.
        scorer = f"{self._by_text}:{self._by_vector}"
        scorer = scorer if kind is ScoreKind.WEIGHTED else f"{scorer}:{source_id}"

        def scores(rid: int) -> tuple[Score, ...]:
            dense = (Score(ScoreKind.COSINE, cosine[rid], self._by_vector),) if rid in cosine else ()
            return (Score(kind, fused[rid], scorer), *dense, Score(ScoreKind.BM25, text[rid], self._by_text))

        return Ranking(ranked(fused), scores, more)

    def _boosted(self, scores: Mapping[int, float], rows: Sequence[FoundRow]) -> Mapping[int, float]:
        """Add the boosts for titles that contain the question's words, and for rows that define its terms."""
        options = self._options
        if self._question is None or self._scorer is None or not options.title_boost + options.definition_boost:
            return scores
        named = names_in(self._question.words)
        defines = {row.rid for row in rows if not row.defined.isdisjoint(named)}
        return boosted(scores, self._scorer.title_shares(rows), defines, options)


class RankedSource(Protocol):
    """A source to search: its key in the store, and a test that chunks must pass; None if all rows found do."""

    @property
    def key(self) -> Any: ...

    @property
    def test(self) -> Callable[[Chunk], bool] | None: ...


S = TypeVar("S", bound=RankedSource)


def best_chunks(
    rank: Callable[[Sequence[S], int], Mapping[Any, Ranking]],
    chunks_of: Callable[[Sequence[int]], Mapping[int, Chunk]],
    sources: Iterable[S],
    top_k: int,
    pool: int,
) -> dict[Any, list[Chunk]]:
    """Return the best top_k chunks of each source; a source is searched deeper while chunks fail its test.

    Args:
        rank: returns the ranking of each of some sources, from at most so many rows of each.
        chunks_of: returns the chunks of some rows.
        pool: rows of a source that are scored at first.
    """
    out: dict[Any, list[Chunk]] = {}
    left = list(sources)
    while left:
        rankings = rank(left, pool)
        reached = {source.key: rankings[source.key].rids[: None if source.test else top_k] for source in left}
        texts = chunks_of([rid for rids in reached.values() for rid in rids])
        for source in left:
            kept = [rid for rid in reached[source.key] if source.test is None or source.test(texts[rid])][:top_k]
            if len(kept) >= top_k or not rankings[source.key].more or pool >= _MOST_POOL:
                scores = rankings[source.key].scores
                out[source.key] = [texts[rid]._replace(scores=scores(rid)) for rid in kept]
        left = [source for source in left if source.key not in out]
        pool = min(4 * pool, _MOST_POOL)
    return out
