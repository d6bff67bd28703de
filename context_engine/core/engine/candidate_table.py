"""The input of stage 2, its table of candidates and its output, and the cache of their analysed texts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from cachetools import LRUCache

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import (
    Chunk,
    Fate,
    Key,
    Notice,
    Outcome,
    PathStep,
    RankedChunk,
    RawAnswer,
    ScopeThreshold,
    ScoreKind,
    SourceSpec,
    StageTrace,
    Swap,
    TrustClass,
    hops_of,
)
from context_engine.core.policy.trust import ranking_tier
from context_engine.core.ranking.candidates import AnalysedText, Candidate, pool
from context_engine.core.ranking.dedup import Match
from context_engine.core.ranking.relevance import Measured
from context_engine.core.text import has_cjk

_MOST_BYTES: Final = 32 * 2**20
_FIXED: Final = 300
_PER_CHARACTER: Final = 2
_PER_CJK_CHARACTER: Final = 230
"""Bytes of an analysis per character. Measured with the text: 0.5 kB for 116 characters, 1.4 kB for 383, 2.4 kB for
761; up to 69 kB for 297 Chinese characters, each pair of which is a separate string."""


class TextCache:
    """Keeps analysed texts by the text itself; the least recently used ones are dropped. Safe for many threads.

    Each engine has its own cache.

    Args:
        most_bytes: limit for the sum of the estimated sizes; 0 keeps nothing.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = Lock()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop everything: at a fork another thread may have been changing the cache."""
        self._kept: LRUCache[str, AnalysedText] = LRUCache(self._most_bytes, getsizeof=_bytes)

    def analysed(self, text: str) -> AnalysedText:
        """Return the text with its analysis, from the cache if possible."""
        with self._lock:
            kept = self._kept.get(text)
            if kept is None:
                kept = AnalysedText(text)
                with suppress(ValueError):  # it is larger than the whole cache
                    self._kept[text] = kept
            return kept

    @property
    def bytes(self) -> int:
        """The estimated size of the cache."""
        return int(self._kept.currsize)


def _bytes(analysed: AnalysedText) -> int:
    """Estimate the size of a text with its whole analysis."""
    each = _PER_CJK_CHARACTER if has_cjk(analysed.text) else _PER_CHARACTER
    return _FIXED + sys.getsizeof(analysed.text) + each * len(analysed.text)


LINKED: Final = "linked"
"""Flag of a chunk that one of the best chunks leads to."""


class Reranked(NamedTuple):
    """The scores of a model reranker.

    Attributes:
        scores: [0, 1], by chunk key.
        adapter: id of the vector adapter that was used; None if none was.
    """

    scores: Mapping[Key, float]
    adapter: str | None = None


RerankStep = Callable[[str, Sequence[tuple[Key, Chunk]]], Reranked | None]
"""Scores candidates; None for "no opinion"; raises RerankerError."""


@dataclass(frozen=True, slots=True)
class StageTwoInput:
    """Everything stage 2 depends on, except for the reranker's scores.

    Attributes:
        answers: of the sources that answered.
    """

    plan: SearchPlan
    answers: tuple[RawAnswer, ...]

    def by_source(self) -> list[tuple[SourceSpec, RawAnswer]]:
        """Return each answer with its source's declaration, in the order of the manifest."""
        answered = {answer.source_id: answer for answer in self.answers}
        return [(spec, answered[spec.id]) for spec in self.plan.specs if spec.id in answered]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTwoOutput:
    """The ranked chunks, and the account of every candidate.

    Attributes:
        scope_tested: number of candidates that were tested against the scope threshold.
        in_scope: whether the best of them reached it.
        rerank_scores: scores of the model reranker by chunk key.
        rerank_adapter: id of the vector adapter that the reranker used; None if none.
        rerank_failed: the reranker's failure; None if it ran or was not called.
    """

    chunks: tuple[RankedChunk, ...]
    fates: tuple[Fate, ...]
    swaps: tuple[Swap, ...]
    swap_count: int
    stages: tuple[StageTrace, ...]
    notices: tuple[Notice, ...]
    scope_tested: int
    in_scope: bool
    scope: ScopeThreshold
    rerank_scores: Mapping[Key, float]
    rerank_adapter: str | None
    rerank_failed: str | None


class SelectedCandidate(NamedTuple):
    """A returned candidate with all its scores.

    Attributes:
        relevance, absolute, recalled: the best of its cluster of near-duplicates.
        members: the candidates merged into it, each with its relevance and its similarity to this one.
        path: what leads to it from another chunk; () if nothing does.
    """

    candidate: Candidate
    relevance: float
    absolute: float
    recalled: float
    boost: float
    final: float
    rerank_score: float | None
    flags: tuple[str, ...]
    members: tuple[tuple[Candidate, float, float], ...]
    path: tuple[PathStep, ...] = ()


class CandidateTable:
    """The candidates of a search. A row is the index of a candidate in the list sorted by chunk key.

    Args:
        answers: of stage 1, each with the source's declaration.
        analyse: analyses a text; may be a cache.

    Attributes:
        tiers: the tier by which each row ranks: that of its source, or 5 if it is untrusted or was demoted.
        relevance, absolute: by row; 0 until measured; the best of the cluster once texts are merged.
        evidence: how much of what is asked a row tells; 0 until measured.
        recalled: the relevance before the reranker and the learnt blend.
        measured_by: the kind of score that `relevance` comes from.
        text: the engine's lexical score divided by the best one; 0 if a source declared relevance.
        coverage: the share of the question's information that a text contains, [0, 1]; 0 likewise.
        paths: to the candidates that others lead to, by chunk key.
        added: the keys of those among them that no source found for the query.
        flags: by row.
        members: the rows merged into a row, each with its similarity to it.
        rerank_scores: scores of the model reranker by chunk key.
        rerank_adapter: id of the vector adapter that the reranker used; None if none.
        fates: the outcome of each row.
    """

    def __init__(self, answers: Sequence[tuple[SourceSpec, RawAnswer]], analyse: Callable[[str], AnalysedText]) -> None:
        self.analyse = analyse
        self.candidates, self.notices = pool(answers, analyse)
        self.keys = [candidate.key for candidate in self.candidates]
        self.chunks = [candidate.chunk for candidate in self.candidates]
        linked = [((spec.id, link.chunk_id), link) for spec, answer in answers for link in answer.links]
        self.paths = {key: link.path for key, link in linked}
        self.added = frozenset(key for key, link in linked if link.added)
        self.tiers = [ranking_tier(candidate.authority) for candidate in self.candidates]
        self.relevance = [0.0] * len(self.candidates)
        self.absolute = self.relevance.copy()
        self.evidence = self.relevance.copy()
        self.recalled = self.relevance
        self.measured_by = ""
        self.text = self.relevance.copy()
        self.coverage = self.relevance.copy()
        self.flags: dict[int, tuple[str, ...]] = {}
        self.members: dict[int, list[tuple[int, float]]] = {}
        self.rerank_scores: dict[Key, float] = {}
        self.rerank_adapter: str | None = None
        self.fates: dict[int, Fate] = {}

    def drop(
        self, row: int, stage: str, reason: str, value: float | str | None = None, limit: float | str | None = None
    ) -> None:
        """Record why a row is dropped."""
        self.fates[row] = Fate(*self.keys[row], Outcome.DROPPED, stage, reason, value, limit)

    def take_words(self, rows: Sequence[int], measured: Measured) -> None:
        """Keep the kind of score that was measured, and for each row the lexical scores of its best wording."""
        self.measured_by = measured.by
        best = max(measured.lexical, default=0.0) or 1.0
        for row, score, coverage in zip(rows, measured.lexical, measured.coverage):
            self.text[row] = max(self.text[row], score / best)
            self.coverage[row] = max(self.coverage[row], coverage)

    def inherit(self, weight: float) -> None:
        """Give each chunk with a path a share of what the chunk has at which its path begins, if its own is lower.

        The share of relevance and absolute signal is weight ** hops.
        """
        rows = {key: row for row, key in enumerate(self.keys)} if self.paths else {}
        relevance, absolute = self.relevance.copy(), self.absolute.copy()
        for key, path in self.paths.items():
            row, origin = rows.get(key), rows.get((path[0].source_id, path[0].chunk_id))
            if row is None or origin is None:
                continue
            share = weight ** hops_of(path)
            relevance[row] = max(relevance[row], share * self.relevance[origin])
            absolute[row] = max(absolute[row], share * self.absolute[origin])
            self.flag(row, LINKED)
        self.relevance, self.absolute = relevance, absolute

    def trusted(self, row: int) -> bool:
        """Return whether a row's text is trusted; untrusted text gets no boost."""
        return self.candidates[row].authority.trust is TrustClass.TRUSTED

    def flag(self, row: int, flag: str) -> None:
        """Add a flag to a row."""
        self.flags[row] = (*self.flags.get(row, ()), flag)

    def merge(self, rows: Sequence[int], matches: Sequence[Match | None], limit: float) -> list[int]:
        """Merge near-duplicates into the row they match, which takes their best relevance; return the remaining rows.

        Args:
            matches: for each row, an index into `rows`; None if it matches no earlier row.
            limit: the lowest similarity of a near-duplicate.
        """
        relevance, absolute, left = self.relevance.copy(), self.absolute.copy(), []
        for row, match in zip(rows, matches):
            if match is None:
                left.append(row)
                continue
            into = rows[match.into]
            self.members.setdefault(into, []).append((row, match.similarity))
            relevance[into] = max(relevance[into], relevance[row])
            absolute[into] = max(absolute[into], absolute[row])
            key, kept = self.keys[row], self.keys[into]
            self.fates[row] = Fate(*key, Outcome.MERGED, "dedup", match.how, match.similarity, limit, kept)
        self.relevance, self.absolute = relevance, absolute
        return left

    def best_score(self, row: int, kind: ScoreKind) -> float | None:
        """Return the highest score of a kind in the row's cluster; None if its own text has no such score."""
        value = self.chunks[row].score(kind)
        if value is None:
            return None
        merged = (self.chunks[member].score(kind) for member, _ in self.members.get(row, ()))
        return max([value, *(score for score in merged if score is not None)])

    def selected(self, row: int, boost: float, final: float) -> SelectedCandidate:
        """Return a row with all its scores, and record that it is returned."""
        self.fates[row] = Fate(*self.keys[row], Outcome.RETURNED, "select", "returned", final)
        return SelectedCandidate(
            candidate=self.candidates[row],
            relevance=self.relevance[row],
            absolute=self.absolute[row],
            recalled=self.recalled[row],
            boost=boost,
            final=final,
            rerank_score=self.rerank_scores.get(self.keys[row]),
            flags=self.flags.get(row, ()),
            members=tuple(
                (self.candidates[member], self.relevance[member], similarity)
                for member, similarity in self.members.get(row, ())
            ),
            path=self.paths.get(self.keys[row], ()),
        )
