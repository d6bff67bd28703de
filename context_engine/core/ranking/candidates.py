"""The pool of stage 2: candidates by identity, each with the authority it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from context_engine.core.models import Chunk, Key, Notice, NoticeCode, RawAnswer, Score, SourceSpec
from context_engine.core.policy.trust import EffectiveAuthority, declared_authority, effective_authority
from context_engine.core.policy.validity import Freshness, freshness
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.text import content_sha256


class Candidate:
    """A chunk under its identity (source_id, chunk_id), with its authority and the time its source answered.

    Args:
        analysed: gives a text its analysis.
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
        """Its content, analysed when first asked for."""
        if self._text is None:
            self._text = self._analysed(self.chunk.content)
        return self._text

    @property
    def label(self) -> AnalysedText:
        """What heads it (`label_of`), likewise."""
        if self._label is None:
            self._label = self._analysed(label_of(self.chunk))
        return self._label

    @property
    def tier(self) -> int:
        """The authority tier after the manifest's ceiling."""
        return self.authority.tier

    def freshness(self, now: datetime) -> Freshness:
        """Return whether the content is still fresh."""
        return freshness(self.chunk, self.spec, now=now, retrieved_at=self.retrieved_at)

    def under(self, key: Key, chunk: Chunk) -> Candidate:
        """Return it under another identity, or with other scores; the text is the same."""
        return Candidate(key, chunk, self.spec, self.authority, self.retrieved_at, self._analysed)


def label_of(chunk: Chunk) -> str:
    """What heads a text: it tells what the text is about, and by what it is cited."""
    named = (chunk.title, *chunk.heading_path, chunk.document_id, chunk.section, chunk.metadata.get("reference"))
    return " ".join(map(str, filter(None, named)))


def pool(
    answers: Iterable[tuple[SourceSpec, RawAnswer]], analysed: Callable[[str], AnalysedText] = AnalysedText
) -> tuple[list[Candidate], list[Notice]]:
    """Return the candidates of all answers, one per identity, sorted by it, and notices.

    A chunk without an id gets its text's hash. The same identity from two retrieval legs is one candidate with the
    scores of both. The same id over another text is another candidate, told apart by the text's hash: the text with
    the lowest hash keeps the id. What comes out does not depend on the order of what goes in.

    Args:
        answers: of each source, with its declaration.
        analysed: gives a text its analysis; a cache of them does so too.
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
            message = f"source {key[0]!r} gave the chunk id {key[1]!r} to {len(texts)} texts; all are kept"
            detail = {"chunk_id": key[1], "texts": len(texts)}
            notices.append(Notice(NoticeCode.CHUNK_ID_REUSED, key[0], message, detail))
    return [candidates[key] for key in sorted(candidates)], notices


def _by_text(same: list[Candidate]) -> list[list[Candidate]]:
    """Group candidates of one identity by text, in the order of the texts' hashes."""
    texts: dict[str, list[Candidate]] = {}
    for candidate in same:
        texts.setdefault(candidate.chunk.content, []).append(candidate)
    return [texts[text] for text in sorted(texts, key=content_sha256)]


def _rename(candidate: Candidate, candidates: dict[Key, Candidate], again: dict[Key, list[Candidate]]) -> None:
    """Give a candidate the id of its text; one that has this id already, from an earlier answer, is the same."""
    source_id, chunk_id = candidate.key
    key = (source_id, f"{chunk_id}~{content_sha256(candidate.chunk.content)[:8]}")
    while key in candidates and candidates[key].chunk.content != candidate.chunk.content:
        key = (source_id, key[1] + "~")
    renamed = candidate.under(key, candidate.chunk)
    if key in again:
        again[key].append(renamed)  # its turn comes: it sorts after the id it is made from
    else:
        candidates[key] = _joined([candidates[key], renamed]) if key in candidates else renamed


def _joined(same: list[Candidate]) -> Candidate:
    """One candidate with the scores of all, of two scores of one kind and scorer the higher.

    Where legs disagree about the rest, the least authoritative one speaks.
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
