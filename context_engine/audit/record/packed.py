"""Compress repetition in the parts of a record, most of which is columns of equal values.

- Consecutive content numbers are written as the first of them.
- Kinds and scorers that all chunks of an answer share are written once.
- A time at which all chunks were fetched is written once.
- The hash of a returned text is taken from its fate.
- Statistics that several answers share are written with the first of them.

Everything else stays as it is; numbers are never rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.audit.record.exact import Unreadable

_NUMBERS: Final = ("text", "card")
_SHA256: Final = "content_sha256"
_AS_FATE: Final = True


def packed_candidates(candidates: Mapping[str, Any]) -> dict[str, Any]:
    """Return the candidates of `Parts` in compact form."""
    out = dict(candidates)
    if "answers" in out:
        out["answers"] = [{**answer, "chunks": _packed_chunks(answer["chunks"])} for answer in out["answers"]]
    if out.get("returned"):
        hashes = _hashes(out["fates"])
        out["returned"] = [_with_hash(chunk, hashes, packs=True) for chunk in out["returned"]]
    return out


def unpacked_candidates(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Restore what `packed_candidates` was given.

    Raises:
        Unreadable: this version does not write such data.
    """
    out = dict(packed)
    try:
        if "answers" in out:
            out["answers"] = [{**answer, "chunks": _unpacked_chunks(answer["chunks"])} for answer in out["answers"]]
        if out.get("returned"):
            hashes = _hashes(out["fates"])
            out["returned"] = [_with_hash(chunk, hashes, packs=False) for chunk in out["returned"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"its candidates: {type(error).__name__}: {error}") from None
    return out


def packed_question(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question of `Parts` in compact form."""
    answers: list[dict[str, Any]] = []
    for answer in question.get("answers", ()):
        statistics = answer.get("statistics")
        first = next(
            (place for place, other in enumerate(answers) if statistics and other.get("statistics") == statistics), None
        )
        answers.append(dict(answer) if first is None else {**answer, "statistics": first})
    return {**question, "answers": answers} if answers else dict(question)


def unpacked_question(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Restore what `packed_question` was given.

    Raises:
        Unreadable: this version does not write such data.
    """
    try:
        answers = packed.get("answers") or []
        full = [_with_statistics(answer, answers) for answer in answers]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Unreadable(f"its question: {type(error).__name__}: {error}") from None
    return {**packed, "answers": full} if full else dict(packed)


def _with_statistics(answer: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    place = answer.get("statistics")
    if not isinstance(place, int):
        return answer
    first = answers[place]["statistics"]
    if isinstance(first, int):
        raise Unreadable(f"its question: answer {place} has no statistics of its own")
    return {**answer, "statistics": first}


def _packed_chunks(columns: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(columns)
    if not columns["scores"]:
        return out
    for name in _NUMBERS:
        numbers = columns[name]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            out[name] = numbers[0]
    times = columns.get("fetched_at")
    if times and times[0] is not None and times.count(times[0]) == len(times):
        out["fetched_at"] = times[0]
    of, values = _score_forms(columns["scores"])
    if values is not None:
        out["scores"] = {"of": of, "values": values}
    return out


def _score_forms(scores: Sequence[Sequence[Sequence[Any]]]) -> tuple[list[list[Any]], list[list[float]] | None]:
    """Return kind and scorer of the scores of every chunk, and their values; None if they are not the same."""
    of = [[kind, scorer] for kind, _, scorer in scores[0]]
    values = []
    for each in scores:
        if [[kind, scorer] for kind, _, scorer in each] != of:
            return of, None
        values.append([value for _, value, _ in each])
    return of, values


def _unpacked_chunks(columns: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(columns)
    scores = columns["scores"]
    if isinstance(scores, Mapping):
        of = scores["of"]
        out["scores"] = [
            [[kind, value, scorer] for (kind, scorer), value in zip(of, values, strict=True)]
            for values in scores["values"]
        ]
    count = len(out["scores"])
    for name in _NUMBERS:
        if isinstance(columns[name], int):
            out[name] = list(range(columns[name], columns[name] + count))
    if isinstance(columns.get("fetched_at"), str):
        out["fetched_at"] = [columns["fetched_at"]] * count
    return out


def _hashes(fates: Mapping[str, Any]) -> dict[tuple[str, str], str | None]:
    """Return the hash of each candidate's text by its identity."""
    keys = zip(fates.get("source_id", ()), fates.get("chunk_id", ()))
    return dict(zip(keys, fates.get(_SHA256, ())))


def _with_hash(
    ranked: Mapping[str, Any], hashes: Mapping[tuple[str, str], str | None], *, packs: bool
) -> Mapping[str, Any]:
    """Replace the text hash in a returned chunk's tag by a reference to its fate (`packs`), or the other way round."""
    extra = ranked.get("provenance", {}).get("extra")
    sha256 = hashes.get((ranked["source_id"], ranked["chunk_id"]))
    was, new = (sha256, _AS_FATE) if packs else (_AS_FATE, sha256)
    if sha256 is None or not isinstance(extra, Mapping) or extra.get(_SHA256) != was:
        return ranked
    return {**ranked, "provenance": {**ranked["provenance"], "extra": {**extra, _SHA256: new}}}
