"""What was fetched, as one text: of one source and one version, with what is known of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.node_output import inert_values
from context_engine.apps.mcp.reply import labelled, passage_id
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.context.render import quoted
from context_engine.core.models import TrustClass, json_value
from context_engine.core.policy.injection import injection_kinds, label_kinds
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest
from context_engine.service.fetching import Fetched, FetchedPassage

_BETWEEN: Final = "\n\n"
_FIELD_TOKENS: Final = 500


class PassagePlace(NamedTuple):
    """A passage in the text of its document: characters [start, end)."""

    chunk_id: str
    section: str | None
    page: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedDocument:
    """Passages of one document, or one passage.

    Attributes:
        text: as it is; for a model only by `for_a_model`.
        fenced: whether a model reads it in a fence; `suspected`: because it wants to be obeyed.
    """

    id: str
    title: str
    url: str
    metadata: dict[str, Any]
    text: str
    places: tuple[PassagePlace, ...]
    fenced: bool
    suspected: bool

    def for_a_model(self, start: int, end: int) -> str:
        """Return some of the text; what is not trusted stands in a fence, which it cannot know beforehand."""
        part = self.text[start:end]
        return quoted(part, content_sha256(self.text)[:16], suspected=self.suspected) if self.fenced else part

    def within(self, start: int, end: int) -> Sequence[PassagePlace]:
        """Return the passages of which some text stands there."""
        return [one for one in self.places if one.start < end and one.end > start]


def fetched_document(found: Fetched, version: str | None, *, whole: bool) -> FetchedDocument:
    """Return what was fetched as one text: of several versions the one asked for, else the one in force last.

    Args:
        found: at least one passage.
        whole: a document was asked for, not a passage.

    Raises:
        InvalidRequest: there is no such version.
    """
    versions: dict[tuple[str, str | None], list[FetchedPassage]] = {}
    for one in found.passages:
        versions.setdefault((one.spec.id, one.chunk.document_version), []).append(one)
    chosen = _chosen(versions, version)
    passages = versions[chosen] if whole else versions[chosen][:1]
    others = [{"source": source, "version": held} for source, held in versions if (source, held) != chosen]
    return _document(found.domain, passages, others)


def _chosen(
    versions: dict[tuple[str, str | None], list[FetchedPassage]], version: str | None
) -> tuple[str, str | None]:
    if version is not None:
        of_version = next((key for key in versions if key[1] == version), None)
        if of_version is None:
            there = ", ".join(str(held) for _, held in versions)
            raise InvalidRequest(f"there is no version {version!r} of it: there is {there}")
        return of_version

    def newest(key: tuple[str, str | None]) -> tuple[bool, date, str]:
        chunk = versions[key][0].chunk
        return chunk.superseded_by is None, chunk.effective_from or date.min, chunk.document_version or ""

    return max(versions, key=newest)


def _document(domain: str, passages: Sequence[FetchedPassage], others: list[dict[str, Any]]) -> FetchedDocument:
    first, places, pieces, start = passages[0], list[PassagePlace](), list[str](), 0
    for one in passages:
        chunk = one.chunk
        end = start + len(chunk.content)
        places.append(
            PassagePlace(inert_values(chunk.chunk_id), labelled(chunk.section) or None, chunk.page, start, end)
        )
        pieces.append(chunk.content)
        start = end + len(_BETWEEN)
    text = _BETWEEN.join(pieces)
    suspected = bool(injection_kinds(text)) or any(label_kinds(one.chunk) for one in passages)
    return FetchedDocument(
        id=passage_id(domain, first.spec.id, first.chunk.chunk_id),
        title=labelled(first.chunk.title or first.chunk.document_id or first.spec.title or first.spec.id),
        url=labelled(first.url),
        metadata=_metadata(domain, first, others),
        text=text,
        places=tuple(places),
        fenced=suspected or any(one.authority.trust is not TrustClass.TRUSTED for one in passages),
        suspected=suspected,
    )


def _metadata(domain: str, one: FetchedPassage, others: list[dict[str, Any]]) -> dict[str, Any]:
    chunk, authority = one.chunk, one.authority
    known = {
        "domain": domain,
        "source": one.spec.id,
        "document_id": chunk.document_id,
        "document_version": chunk.document_version,
        "document_type": chunk.doc_type,
        "authority_tier": authority.tier,
        "source_type": str(authority.source_type),
        "trust_class": str(authority.trust),
        "classification": str(authority.classification),
        "effective_from": json_value(chunk.effective_from),
        "effective_to": json_value(chunk.effective_to),
        "superseded_by": chunk.superseded_by,
        "other_versions": others,
        "fields": json_value(chunk.metadata),
    }
    told = {name: inert_values(value) for name, value in known.items() if value not in (None, [], {})}
    if ApproxTokenCounter().count(json.dumps(told, ensure_ascii=False, default=str)) > _FIELD_TOKENS:
        told.pop("fields", None)
    return told
