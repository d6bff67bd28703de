"""The pool of stage 2: candidates by identity, each with the authority it has."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from context_engine.models import Chunk, Key, RawAnswer, Score, SourceSpec
from context_engine.policy.trust import Standing, standing
from context_engine.text import content_sha256

__all__ = ["Candidate", "pool"]


class Candidate(NamedTuple):
    """A chunk under its identity (source_id, chunk_id), with its standing and the time its source answered."""

    key: Key
    chunk: Chunk
    spec: SourceSpec
    standing: Standing
    retrieved_at: datetime

    @property
    def tier(self) -> int:
        """The authority tier after the manifest's ceiling."""
        return self.standing.tier


def pool(answers: Iterable[tuple[SourceSpec, RawAnswer]]) -> tuple[list[Candidate], list[str]]:
    """Return the candidates of all answers, one per identity, sorted by it, and warnings.

    A chunk without an id gets its text's hash. The same identity from two retrieval legs is one candidate with the
    scores of both. The same id over another text is another candidate, told apart by the text's hash.
    """
    found: dict[Key, Candidate] = {}
    warnings: list[str] = []
    for spec, answer in answers:
        for chunk in answer.chunks:
            candidate = _candidate(spec, chunk, answer.retrieved_at)
            known = found.get(candidate.key)
            if known is not None and known.chunk.content != chunk.content:
                candidate = _renamed(candidate)
                warnings.append(f"source {spec.id!r} gave the chunk id {known.key[1]!r} to two texts; both are kept")
                known = found.get(candidate.key)
            found[candidate.key] = candidate if known is None else _joined(known, candidate)
    return [found[key] for key in sorted(found)], sorted(set(warnings))


def _candidate(spec: SourceSpec, chunk: Chunk, retrieved_at: datetime) -> Candidate:
    source_id = chunk.source_id if chunk.source_id and spec.trust_document_metadata else spec.id
    chunk_id = chunk.chunk_id or content_sha256(chunk.content)[:32]
    return Candidate((source_id, chunk_id), chunk, spec, standing(chunk, spec), retrieved_at)


def _renamed(candidate: Candidate) -> Candidate:
    source_id, chunk_id = candidate.key
    return candidate._replace(key=(source_id, f"{chunk_id}~{content_sha256(candidate.chunk.content)[:8]}"))


def _joined(first: Candidate, second: Candidate) -> Candidate:
    """One candidate with the scores of both; of two scores of one kind the higher."""
    best: dict[tuple[str, str], Score] = {}
    for score in (*first.chunk.scores, *second.chunk.scores):
        key = (score.kind.value, score.scorer or "")
        if key not in best or score.value > best[key].value:
            best[key] = score
    scores = tuple(best[key] for key in sorted(best))
    return first._replace(chunk=first.chunk._replace(scores=scores))
