"""What stage 2 knows of every candidate, in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from context_engine.core.engine.survivors import Survivor
from context_engine.core.models import Fate, Key, Outcome, RawAnswer, ScoreKind, SourceSpec
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.candidates import pool

__all__ = ["Columns"]


class Columns:
    """The candidates of a search. A row is a candidate's place in the order of identity.

    Args:
        answers: stage 1, each with the source's declaration.
        analysed: gives a text its analysis.

    Attributes:
        tiers: the tier each row ranks by: its source's, 5 where it was demoted.
        relevance, absolute: of each row; 0 until they are measured, a cluster's best once texts are merged.
        flags: what the steps noted, by row.
        members: the rows merged into a row, each with its likeness to it.
        rerank_scores: what the model reranker said, by identity.
        fates: what became of a row.
    """

    def __init__(
        self, answers: Sequence[tuple[SourceSpec, RawAnswer]], analysed: Callable[[str], AnalysedText]
    ) -> None:
        self.candidates, self.warnings = pool(answers, analysed)
        self.keys = [candidate.key for candidate in self.candidates]
        self.chunks = [candidate.chunk for candidate in self.candidates]
        self.tiers = [candidate.standing.tier for candidate in self.candidates]
        self.relevance = [0.0] * len(self.candidates)
        self.absolute = self.relevance.copy()
        self.flags: dict[int, tuple[str, ...]] = {}
        self.members: dict[int, list[tuple[int, float]]] = {}
        self.rerank_scores: dict[Key, float] = {}
        self.fates: dict[int, Fate] = {}

    def drop(
        self, row: int, stage: str, reason: str, value: float | str | None = None, limit: float | str | None = None
    ) -> None:
        """Note why a row goes no further."""
        self.fates[row] = Fate(*self.keys[row], Outcome.DROPPED, stage, reason, value, limit)

    def flag(self, row: int, flag: str) -> None:
        """Note something on a row."""
        self.flags[row] = (*self.flags.get(row, ()), flag)

    def best_score(self, row: int, kind: ScoreKind) -> float | None:
        """Return the highest score of a kind among the texts merged here, None where the survivor's own has none."""
        value = self.chunks[row].score(kind)
        if value is None:
            return None
        merged = (self.chunks[member].score(kind) for member, _ in self.members.get(row, ()))
        return max([value, *(score for score in merged if score is not None)])

    def survivor(self, row: int, boost: float, final: float) -> Survivor:
        """Return a row with every number it has."""
        return Survivor(
            candidate=self.candidates[row],
            relevance=self.relevance[row],
            absolute=self.absolute[row],
            boost=boost,
            final=final,
            rerank_score=self.rerank_scores.get(self.keys[row]),
            flags=self.flags.get(row, ()),
            members=tuple(
                (self.candidates[member], self.relevance[member], similarity)
                for member, similarity in self.members.get(row, ())
            ),
        )
