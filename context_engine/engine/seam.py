"""What a source gave, checked before anything trusts it."""

from __future__ import annotations

from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

from context_engine.errors import SourceProtocolError
from context_engine.models import Chunk, ScoreKind, SourceAnswer

__all__ = ["Admitted", "admit"]


class Admitted(NamedTuple):
    """A checked answer: its chunks cut at top_k, how many were cut, how many were refused, and notes."""

    chunks: tuple[Chunk, ...]
    cut: int
    rejected: int
    notes: tuple[str, ...]


def admit(answer: Any, *, source_id: str, top_k: int) -> Admitted:
    """Return the usable part of an answer.

    Chunks past top_k are cut and counted, without looking at them. What is not a chunk with text is refused and
    counted. Scores that are not finite, and relevance outside [0, 1], count as absent and are noted.

    Raises:
        SourceProtocolError: not a `SourceAnswer`, or its chunks are not a sequence.
    """
    if not isinstance(answer, SourceAnswer):
        raise SourceProtocolError(
            f"search() returned {type(answer).__name__} instead of a SourceAnswer", source_id=source_id
        )
    given: Any = answer.chunks
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        raise SourceProtocolError(f"its chunks are {type(given).__name__} instead of a list", source_id=source_id)
    notes: list[str] = list(answer.notes)
    kept: list[Chunk] = []
    rejected = 0
    for chunk in islice(given, top_k):
        if _is_chunk(chunk):
            kept.append(_with_usable_scores(chunk, notes))
        else:
            rejected += 1
    if rejected:
        notes.append(f"{rejected} chunk(s) without text were refused")
    return Admitted(tuple(kept), answer.cut + max(len(given) - top_k, 0), rejected, tuple(notes))


def _is_chunk(value: Any) -> bool:
    """A chunk with text in it; what a source hands over need not be what its annotations say."""
    content: Any = getattr(value, "content", None)
    return isinstance(value, Chunk) and isinstance(content, str) and not content.isspace() and content != ""


def _with_usable_scores(chunk: Chunk, notes: list[str]) -> Chunk:
    bad = [score for score in chunk.scores if not _usable(score.kind, score.value)]
    if not bad:
        return chunk
    for score in bad:
        notes.append(f"chunk {chunk.chunk_id or 'without id'}: {score.kind} score {score.value!r} counts as absent")
    return chunk._replace(scores=tuple(score for score in chunk.scores if score not in bad))


def _usable(kind: ScoreKind, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return False
    return kind is not ScoreKind.RELEVANCE or 0.0 <= value <= 1.0
