"""The threshold filter of the dict API."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from context_engine.errors import InvalidRequest

logger = logging.getLogger(__name__)


def filter_by_similarity(
    chunks: Sequence[Mapping[str, Any]], threshold: float = 0.0, min_chunks: int = 2
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Keep the chunks whose `score` is at least the threshold; if fewer than `min_chunks` are, the best that many.

    Scores and metadata are kept as they are, and so is the order. A chunk without a score counts as lowest; with a
    threshold of 0 or less every chunk passes. The given dicts are not changed.

    Args:
        chunks: chunk dicts with `score`, all of one kind.
        threshold: least score, of that kind.
        min_chunks: least number of chunks to keep, >= 0.

    Returns:
        The kept chunks (copies; those brought back carry `below_threshold: True`) and
        {original_count, filtered_count, fallback_triggered, scores}.

    Raises:
        InvalidRequest: chunks that are no sequence of dicts, a threshold that is not a finite number, or a negative
            `min_chunks`.
    """
    if isinstance(chunks, str | bytes) or not isinstance(chunks, Sequence):
        raise InvalidRequest(f"chunks must be a sequence of chunk dicts, got {type(chunks).__name__}")
    for position, chunk in enumerate(chunks):
        if not isinstance(chunk, Mapping):
            raise InvalidRequest(f"chunks[{position}] must be a chunk dict, got {type(chunk).__name__}")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not isfinite(threshold):
        raise InvalidRequest(f"threshold must be a finite number, got {threshold!r}")
    if isinstance(min_chunks, bool) or not isinstance(min_chunks, int) or min_chunks < 0:
        raise InvalidRequest(f"min_chunks must be a whole number >= 0, got {min_chunks!r}")
    scores = [_score(chunk) for chunk in chunks]
    passed = {
        index for index, score in enumerate(scores) if threshold <= 0 or (score is not None and score >= threshold)
    }
    fallback = len(passed) < min(min_chunks, len(chunks))
    kept = set(passed)
    if fallback:
        by_score = sorted(range(len(chunks)), key=lambda index: (scores[index] is None, -(scores[index] or 0.0), index))
        kept.update([index for index in by_score if index not in passed][: min_chunks - len(passed)])
        logger.info("threshold %.3f left %d chunks, %d kept by min_chunks", threshold, len(passed), len(kept))
    out = [{**chunks[index], **({} if index in passed else {"below_threshold": True})} for index in sorted(kept)]
    report = {
        "original_count": len(chunks),
        "filtered_count": len(out),
        "fallback_triggered": fallback,
        "scores": [scores[index] for index in sorted(kept)],
    }
    return out, report


def _score(chunk: Mapping[str, Any]) -> float | None:
    value = chunk.get("score")
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)
