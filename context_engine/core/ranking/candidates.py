"""The pool of stage 2: candidates by identity, each with its effective authority."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from context_engine.core.models import Chunk, Key, Notice, NoticeCode, RawAnswer, Score, SourceSpec
from context_engine.core.policy.trust import (
    EffectiveAuthority,
    Freshness,
    declared_authority,
    effective_authority,
    freshness,
)
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.text import content_sha256


class Candidate:
    """A chunk under its identity (source_id, chunk_id), with its authority and the time at which its source answered.

    Args:
        analysed: analyses a text.
    """

    __slots__ = ("_analysed", "_label", "_text", "authority", "chunk", "key", "retrieved_at", "spec")

    def __init__(
        self,
        key: Key,
        chunk: Chunk,
        spec: SourceSpec,
        authority: EffectiveAuthority,
        retrieved_at: datetime,
        analysed: Callable[[str], AnalysedText],
    ) -> None:
        self.key, self.chunk, self.spec = key, chunk, spec
        self.authority, self.retrieved_at = authority, retrieved_at
        self._analysed = analysed
        self._text: AnalysedText | None = None
        self._label: AnalysedText | None = None

    @property
    def text(self) -> AnalysedText:
        """The analysed content, computed on first use."""
        if self._text is None:
            self._text = self._analysed(self.chunk.content)
        return self._text

    @property
    def label(self) -> AnalysedText:
        """The analysed label (`label_of`), computed on first use."""
        if self._label is None:
            self._label = self._analysed(label_of(self.chunk))
        return self._label

    @property
    def tier(self) -> int:
        """The authority tier under the manifest's ceiling."""
        return self.authority.tier

    def freshness(self, now: datetime) -> Freshness:
        """Return whether the content is still fresh."""
        return freshness(self.chunk, self.spec, now=now, retrieved_at=self.retrieved_at)

    def under(self, key: Key, chunk: Chunk) -> Candidate:
        """Return the candidate under another identity or with other scores; the text is the same."""
        return Candidate(key, chunk, self.spec, self.authority, self.retrieved_at, self._analysed)


def label_of(chunk: Chunk) -> str:
    """Return the text by which a chunk is identified and cited: title, headings, document id, section and reference."""
    named = (chunk.title, *chunk.heading_path, chunk.document_id, chunk.section, chunk.metadata.get("reference"))
    return " ".join(map(str, filter(None, named)))


def pool(
    answers: Iterable[tuple[SourceSpec, RawAnswer]], analysed: Callable[[str], AnalysedText] = AnalysedText
) -> tuple[list[Candidate], list[Notice]]:
    """Return the candidates of all answers, one per identity and sorted by it, and notices.

    A chunk without an id gets its text's hash as id. The same identity from two retrieval legs is one candidate with
    the scores of both. The same id with another text is another candidate: the text with the lowest hash keeps the id,
    the others get their hash appended. The result does not depend on the order of the answers.

    Args:
        analysed: analyses a text; may be a cache.
    """
    candidates: dict[Key, Candidate] = {}
    again: dict[Key, list[Candidate]] = {}
    for spec, answer in answers:
        declared, own = declared_authority(spec), spec.id
        for chunk in answer.chunks:
            source_id = chunk.source_id if chunk.source_id and spec.trust_document_metadata else own
            key = (source_id, chunk.chunk_id or content_sha256(chunk.content)[:32])
            authority = effective_authority(chunk, spec, declared)
            candidate = Candidate(key, chunk, spec, authority, answer.retrieved_at, analysed)
            if candidates.setdefault(candidate.key, candidate) is not candidate:
                again.setdefault(candidate.key, [candidates[candidate.key]]).append(candidate)
    notices: list[Notice] = []
    for key in sorted(again):
        texts = _by_text(again[key])
        candidates[key] = _joined(texts[0])
        for others in texts[1:]:
            _rename(_joined(others), candidates, again)
        if len(texts) > 1:
            message = f"source {key[0]!r} used the chunk id {key[1]!r} for {len(texts)} different texts; all are kept"
            detail = {"chunk_id": key[1], "texts": len(texts)}
            notices.append(Notice(NoticeCode.CHUNK_ID_REUSED, key[0], message, detail))
    return [candidates[key] for key in sorted(candidates)], notices


def _by_text(same: list[Candidate]) -> list[list[Candidate]]:
    """Group candidates of one identity by text, sorted by the texts' hashes."""
    texts: dict[str, list[Candidate]] = {}
    for candidate in same:
        texts.setdefault(candidate.chunk.content, []).append(candidate)
    return [texts[text] for text in sorted(texts, key=content_sha256)]


def _rename(candidate: Candidate, candidates: dict[Key, Candidate], again: dict[Key, list[Candidate]]) -> None:
    """Append the text's hash to a candidate's id. If a candidate already has that id, both are the same candidate."""
    source_id, chunk_id = candidate.key
    key = (source_id, f"{chunk_id}~{content_sha256(candidate.chunk.content)[:8]}")
    while key in candidates and candidates[key].chunk.content != candidate.chunk.content:
        key = (source_id, key[1] + "~")
    renamed = candidate.under(key, candidate.chunk)
    if key in again:
        again[key].append(renamed)  # handled later in the loop: it sorts after the id that it extends
    else:
        candidates[key] = _joined([candidates[key], renamed]) if key in candidates else renamed


def _joined(same: list[Candidate]) -> Candidate:
    """Return one candidate with the scores of all; of two scores with the same kind and scorer, the higher.

    Where the legs disagree about other fields, the least authoritative leg decides.
    """
    if len(same) == 1:
        return same[0]
    best: dict[tuple[str, str], Score] = {}
    for score in (score for candidate in same for score in candidate.chunk.scores):
        key = (score.kind.value, score.scorer or "")
        if key not in best or score.value > best[key].value:
            best[key] = score
    first = min(same, key=lambda candidate: (-candidate.tier, candidate.spec.id, repr(candidate.chunk)))
    return first.under(first.key, first.chunk._replace(scores=tuple(best[key] for key in sorted(best))))
