"""The passages of a context; neighbouring passages of one document are joined into one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from context_engine.core.models import (
    TIER_OF,
    Chunk,
    Classification,
    Confidence,
    Key,
    RankedChunk,
    SourceType,
    TrustClass,
    default_trust,
    link_of,
)
from context_engine.core.models.chunk_dict import chunk_from_dict
from context_engine.core.policy.injection import INJECTION_SUSPECTED, injection_kinds, label_kinds, split_kinds
from context_engine.core.policy.masking import masked_labels
from context_engine.core.protocols import Mask


class Passage(NamedTuple):
    """A chunk with the part of its origin that is shown.

    Attributes:
        trusted: False puts the text inside a fence. Text of unknown origin is not trusted, nor is text with
            instructions to a model.
        confidence: strong, fair, weak or None. relevance: [0, 1] or None. final: the final score, or None.
        url: its address, or None.
        also_in: the duplicates that were merged into it, in words ("ORM-SOP-002 §9.1").
        truncated: its text was cut to fit.
    """

    rank: int
    source_id: str
    chunk_id: str
    chunk: Chunk
    tier: int | None
    source_type: SourceType | None
    trusted: bool
    classification: Classification | None
    relevance: float | None
    final: float | None
    fetched_at: str | None
    basis: str | None
    flags: tuple[str, ...]
    also_in: tuple[str, ...]
    url: str | None = None
    confidence: Confidence | None = None
    truncated: bool = False

    @property
    def key(self) -> Key:
        """The chunk's identity."""
        return (self.source_id, self.chunk_id)

    @property
    def suspected(self) -> bool:
        """Whether it reads like instructions to a model, or fakes marks."""
        return INJECTION_SUSPECTED in self.flags

    def as_suspected(self) -> Passage:
        """Return the passage flagged and fenced."""
        return self._replace(trusted=False, flags=tuple(dict.fromkeys((*self.flags, INJECTION_SUSPECTED))))

    def masked_labels(self, mask: Mask) -> Passage:
        """Return the passage with every shown part masked, except its text, ids, path and address."""
        return self._replace(chunk=masked_labels(self.chunk, mask), also_in=tuple(mask(name) for name in self.also_in))

    def masked(self, mask: Mask) -> Passage:
        """Return the passage with its text masked; a changed text loses its place in the document."""
        content = mask(self.chunk.content)
        changed = content != self.chunk.content
        return self._replace(chunk=self.chunk._replace(content=content, span=None)) if changed else self

    def cut(self, length: int) -> Passage:
        """Return the passage with the first `length` characters of its text, marked."""
        span = self.chunk.span
        short = None if span is None else (span[0], span[0] + length)
        return self._replace(chunk=self.chunk._replace(content=self.chunk.content[:length], span=short), truncated=True)


def passage_of(ranked: RankedChunk) -> Passage:
    """Return the passage of a ranked chunk."""
    basis = ranked.provenance.extra.get("fetched_at_basis")
    return Passage(
        rank=ranked.rank,
        source_id=ranked.source_id,
        chunk_id=ranked.chunk_id,
        chunk=ranked.chunk,
        tier=ranked.authority_tier,
        source_type=ranked.source_type,
        trusted=ranked.trust_class is TrustClass.TRUSTED and INJECTION_SUSPECTED not in ranked.flags,
        classification=ranked.classification,
        relevance=ranked.relevance,
        final=ranked.final,
        fetched_at=ranked.provenance.fetched_at,
        basis=None if basis is None else str(basis),
        flags=ranked.flags,
        also_in=tuple(_also_in(member._asdict()) for member in ranked.also_in),
        url=ranked.url,
        confidence=ranked.confidence,
    )


def passages_from_dicts(dicts: Sequence[Mapping[str, Any]]) -> list[Passage]:
    """Return the passages of chunk dicts, best first; texts with instructions are flagged.

    Raises:
        InvalidRequest: not a chunk dict.
    """
    passages = [_passage_from_dict(chunk, rank) for rank, chunk in enumerate(dicts, start=1)]
    suspected = {place for place, passage in enumerate(passages) if _is_suspected(passage)}
    for place, (before, after) in enumerate(pairwise(passages)):
        if split_kinds(before.chunk.content, after.chunk.content):
            suspected |= {place, place + 1}
    return [passage.as_suspected() if place in suspected else passage for place, passage in enumerate(passages)]


def _is_suspected(passage: Passage) -> bool:
    return passage.suspected or bool(injection_kinds(passage.chunk.content) or label_kinds(passage.chunk))


def _passage_from_dict(fields: Mapping[str, Any], rank: int) -> Passage:
    """Return the passage of a chunk dict, with or without `_provenance`.

    The caller or the provenance tag states the trust; a document's metadata may lower it, never raise it. A text
    without a trust class, tier or source type is not trusted.

    Args:
        rank: its place in the caller's order, 1-based.

    Raises:
        InvalidRequest: not a chunk dict.
    """
    chunk = chunk_from_dict(fields)
    stated = chunk_from_dict({key: value for key, value in fields.items() if key != "metadata"})
    tag = _mapping(fields.get("_provenance"))
    extra = _mapping(tag.get("extra"))
    tier = stated.authority_tier
    if tier is None and stated.source_type is not None:
        tier = TIER_OF[stated.source_type]
    trust = stated.trust_class or (TrustClass.UNTRUSTED if tier is None else default_trust(tier))
    members = extra.get("also_in") or ()
    return Passage(
        rank=rank,
        source_id=str(fields.get("source_id") or tag.get("source_id") or ""),
        chunk_id=chunk.chunk_id or f"#{rank}",
        chunk=chunk,
        tier=tier,
        source_type=stated.source_type,
        trusted=trust is TrustClass.TRUSTED and chunk.trust_class is not TrustClass.UNTRUSTED,
        classification=chunk.classification,
        relevance=_number(fields.get("_relevance_score"), fields.get("relevance_score"), extra.get("relevance")),
        final=_number(fields.get("_rag_score"), extra.get("rag_score"), fields.get("score")),
        fetched_at=_text(tag.get("fetched_at") or fields.get("fetched_at")),
        basis=_text(extra.get("fetched_at_basis")),
        flags=tuple(str(flag) for flag in extra.get("flags") or ()),
        also_in=tuple(_also_in(member) for member in members if isinstance(member, Mapping)),
        url=link_of(chunk, None),
        confidence=next((word for word in Confidence if word == fields.get("confidence")), None),
    )


def _also_in(member: Mapping[str, Any]) -> str:
    """Return a duplicate in words. A name that contains instructions is replaced by the source, because no fence
    surrounds it.
    """
    source = str(member.get("source_id") or "unknown")
    name = str(member.get("document_id") or member.get("title") or source)
    label = f"{name} §{member['section']}" if member.get("section") else name
    return source if injection_kinds(label) else label


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(*values: Any) -> float | None:
    """Return the first that is a number; a value of another type is not shown."""
    return next((float(value) for value in values if isinstance(value, int | float) and value == value), None)


BlockKey = tuple[tuple[Key, int, bool], ...]


class JoinedPassage(NamedTuple):
    """One passage, or several adjacent passages.

    Attributes:
        parts: in the order of the document.
        text: the document's text from the first start to the last end.
    """

    parts: tuple[Passage, ...]
    text: str

    @property
    def key(self) -> BlockKey:
        """What tells it from every other block of one text: its chunks, and how much of each."""
        return tuple((part.key, len(part.chunk.content), part.truncated) for part in self.parts)

    @property
    def best(self) -> Passage:
        """The part that ranks highest; it names the block."""
        return min(self.parts, key=lambda part: part.rank)

    @property
    def suspected(self) -> bool:
        """Whether a part reads like instructions to a model, or contains forged marks."""
        return any(part.suspected for part in self.parts)

    @property
    def start(self) -> int:
        """Where the text begins in the document; 0 without a known span."""
        return self.parts[0].chunk.span[0] if self.parts[0].chunk.span else 0

    @property
    def truncated(self) -> bool:
        """Whether the text ends where a passage was cut."""
        return max(self.parts, key=_end).truncated


def document_key(passage: Passage) -> tuple[object, ...]:
    """Return the key that neighbours share; a passage without an exact span has no neighbours.

    A span is exact if it is as long as the text. Trust is part of the key, because a fence surrounds a whole block.
    """
    chunk = passage.chunk
    if chunk.document_id is None or chunk.span is None or chunk.span[1] - chunk.span[0] != len(chunk.content):
        return (passage.source_id, passage.chunk_id)
    return (passage.source_id, chunk.document_id, chunk.document_version, passage.trusted)


def joined(passages: Sequence[Passage]) -> list[JoinedPassage]:
    """Return the passages of one `document_key` as texts, by span; overlapping and adjacent passages become one text.

    Passages that claim the same place with different words are not neighbours.
    """
    out: list[JoinedPassage] = []
    for passage in sorted(passages, key=lambda passage: (passage.chunk.span or (0, 0), passage.rank)):
        text = _continued(out[-1], passage) if out else None
        if text is None:
            out.append(JoinedPassage((passage,), passage.chunk.content))
        else:
            out[-1] = JoinedPassage((*out[-1].parts, passage), text)
    return out


def _continued(before: JoinedPassage, passage: Passage) -> str | None:
    """Return the joined text; None if they do not touch, or differ in the overlap."""
    span = passage.chunk.span
    if span is None or span[0] > before.start + len(before.text):
        return None
    shared = before.text[span[0] - before.start :]
    content = passage.chunk.content
    if not (content.startswith(shared) or shared.startswith(content)):
        return None
    return before.text + content[len(shared) :]


def _end(passage: Passage) -> tuple[int, bool]:
    """Return where a passage ends; of two with the same end, the uncut passage counts."""
    return (passage.chunk.span[1] if passage.chunk.span else 0, not passage.truncated)
