"""The answers of several searches as one list, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_engine.core.models import Chunk, Score, ScoreKind
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.fusion import reciprocal_rank_fusion
from context_engine.core.ranking.lexical import lexical_scores


class Part(NamedTuple):
    """The answer of one dataset.

    Attributes:
        ordered: whether the order of the chunks means anything.
    """

    dataset_id: str
    chunks: tuple[Chunk, ...]
    ordered: bool


def fused_legs(dataset_id: str, legs: Sequence[Part]) -> Part:
    """Return the legs of one dataset as one answer, by reciprocal ranks; a chunk of both carries both scores."""
    if len(legs) == 1:
        return legs[0]
    fused = reciprocal_rank_fusion([[chunk.chunk_id for chunk in leg.chunks] for leg in legs])
    kept: dict[str, Chunk] = {}
    for leg in legs:
        for chunk in leg.chunks:
            other = kept.get(chunk.chunk_id)
            kept[chunk.chunk_id] = chunk if other is None else other._replace(scores=other.scores + chunk.scores)
    scorer = f"dify:{dataset_id}"
    chunks = [
        kept[name]._replace(scores=(Score(ScoreKind.RRF, value, scorer), *kept[name].scores))
        for name, value in sorted(fused.items(), key=lambda item: -item[1])
    ]
    return Part(dataset_id, tuple(chunks), True)


def merged(parts: Sequence[Part], query: str) -> list[Chunk]:
    """Return all chunks, best first.

    One answer with an order keeps it. Answers whose scores are comparable (one kind and one scorer) are merged by
    them. Else one measure has to order all: the engine's own lexical score over them, the better place in its answer
    first among equals.
    """
    filled = [part for part in parts if part.chunks]
    if len(filled) == 1 and filled[0].ordered:
        return list(filled[0].chunks)
    placed = [(chunk, place, number) for number, part in enumerate(filled) for place, chunk in enumerate(_stable(part))]
    if _comparable([chunk for chunk, _, _ in placed]):
        placed.sort(key=lambda item: (-item[0].scores[0].value, item[0].chunk_id))
        return [chunk for chunk, _, _ in placed]
    scores = lexical_scores(query, [AnalysedText(chunk.content) for chunk, _, _ in placed]).score
    ranked = sorted(zip(scores, placed), key=lambda item: (-item[0], item[1][1], item[1][2], item[1][0].chunk_id))
    return [chunk for _, (chunk, _, _) in ranked]


def _stable(part: Part) -> list[Chunk]:
    """An order that means nothing differs from call to call."""
    return list(part.chunks) if part.ordered else sorted(part.chunks, key=lambda chunk: chunk.chunk_id)


def _comparable(chunks: Sequence[Chunk]) -> bool:
    leading = {(chunk.scores[0].kind, chunk.scores[0].scorer) if chunk.scores else None for chunk in chunks}
    return len(leading) == 1 and None not in leading and all(chunk.scores[0].scorer for chunk in chunks)
