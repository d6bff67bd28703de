"""Merge the answers of several searches, best chunks first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from context_engine.core.models import Chunk, Notice, Score, ScoreKind, SourceAnswer, SourceQuery, distinct
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.fusion import reciprocal_rank_fusion
from context_engine.core.ranking.lexical import lexical_scores
from context_engine.errors import SourceError


class Part(NamedTuple):
    """The answer of one dataset; `ordered` if the order of its chunks is meaningful."""

    dataset_id: str
    chunks: tuple[Chunk, ...]
    ordered: bool


def fused_legs(dataset_id: str, legs: Sequence[Part]) -> Part:
    """Return the legs of one dataset as one answer, by reciprocal ranks; a chunk found by both legs has both scores."""
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

    A single ordered answer keeps its order. Answers with comparable scores (one kind and one scorer) are merged by
    them. Otherwise the engine's own lexical score over all of them decides, then the place within the answer.
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
    """Sort an unordered answer, whose order differs from call to call."""
    return list(part.chunks) if part.ordered else sorted(part.chunks, key=lambda chunk: chunk.chunk_id)


def _comparable(chunks: Sequence[Chunk]) -> bool:
    leading = {(chunk.scores[0].kind, chunk.scores[0].scorer) if chunk.scores else None for chunk in chunks}
    return len(leading) == 1 and None not in leading and all(chunk.scores[0].scorer for chunk in chunks)


class Found(NamedTuple):
    """The result of one search leg of one dataset.

    Attributes:
        at: when Dify answered; None if it was not asked.
        failure: the reason for a missing part.
        fields: the fields that a filter can name in the dataset; None if Dify did not describe it, or some may belong
            only to withheld documents.
        withheld: chunks that the caller may not read.
    """

    part: Part
    notices: tuple[Notice, ...] = ()
    at: datetime | None = None
    failure: SourceError | None = None
    fields: frozenset[str] | None = None
    withheld: tuple[Chunk, ...] = ()


def answered(
    query: SourceQuery,
    source_id: str,
    datasets: Sequence[str],
    results: Sequence[Found | SourceError],
    notices: Sequence[Notice],
) -> SourceAnswer:
    """Return the answer of a source: the best chunks of all datasets, and the failures.

    Chunks that the caller may not read come last: the engine removes and records them.

    Args:
        query: its full text orders chunks whose scores are not comparable.

    Raises:
        SourceError: no call was answered.
    """
    legs: dict[str, list[Part]] = {}
    failures: list[SourceError] = []
    results_found = [result for result in results if isinstance(result, Found)]
    for dataset, result in zip(datasets, results, strict=True):
        failure = result.failure if isinstance(result, Found) else result
        if failure is not None:
            failures.append(named(failure, source_id, dataset))
        if isinstance(result, Found):
            legs.setdefault(dataset, []).append(result.part)
    if not legs:
        raise _all_failed(failures)
    asked = [result for result in results_found if result.at is not None]
    chunks = merged([_of_dataset(dataset, parts) for dataset, parts in legs.items()], query.words or query.text)
    withheld = {chunk.chunk_id: chunk for result in results_found for chunk in result.withheld}
    return SourceAnswer(
        chunks=[*chunks[: query.top_k], *withheld.values()],
        notes=distinct([*notices, *(notice for result in results_found for notice in result.notices)]),
        retrieved_at=min((result.at for result in results_found if result.at is not None), default=None),
        cut=max(len(chunks) - query.top_k, 0),
        failures=tuple(failures),
        by_keywords=bool(asked) and not any(result.part.ordered for result in asked),
        filter_fields=None if query.filters is None else _fields_of(results_found),
    )


def _fields_of(datasets: Sequence[Found]) -> tuple[str, ...] | None:
    known = [dataset.fields for dataset in datasets if dataset.fields is not None]
    return tuple(sorted(frozenset[str]().union(*known))) if known else None


def _of_dataset(dataset: str, legs: Sequence[Part]) -> Part:
    filled = [leg for leg in legs if leg.chunks]
    return fused_legs(dataset, filled) if filled else legs[0]


def named(error: SourceError, source_id: str, dataset: str) -> SourceError:
    """Return the error with source and dataset, without its cause."""
    problem, later = f"dataset {dataset}: {error}", error.retryable
    return type(error)(problem, source_id=source_id, retryable=later, retry_after_s=error.retry_after_s)


def _all_failed(failures: Sequence[SourceError]) -> SourceError:
    """Return the first failure, with the number of all; retryable if any of them is."""
    first = failures[0]
    if len(failures) == 1:
        return first
    return type(first)(
        f"all {len(failures)} calls failed; the first: {first.problem}",
        source_id=first.source_id,
        retryable=any(failure.retryable for failure in failures),
        retry_after_s=first.retry_after_s,
    )
