"""The `fetch` tool: a document or a passage as one text, in parts of bounded length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.node_output import inert_values
from context_engine.apps.mcp.answers import FetchAnswer, FetchedPlace
from context_engine.apps.mcp.arguments import LEAST_TOKENS, FetchArguments
from context_engine.apps.mcp.reply import Call, Reply, labelled, passage_id
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.context.render import quoted
from context_engine.core.models import TrustClass, json_value
from context_engine.core.policy.injection import injection_kinds, label_kinds
from context_engine.core.text import content_sha256
from context_engine.errors import CursorExpired, InvalidRequest
from context_engine.service.fetching import (
    Fetched,
    FetchedPassage,
    VersionKey,
    by_version,
    fetch_passages,
    newest_version,
)

_ONE_OF: Final = "send one of id, chunk_id and document_id"


class _Wanted(NamedTuple):
    """The passage or document to fetch."""

    domain: str | None
    source: str | None
    chunk_id: str | None
    document_id: str | None

    @property
    def name(self) -> str:
        return self.chunk_id or self.document_id or ""


def fetch(call: Call, asked: FetchArguments) -> Reply:
    """Return a text by the id of its passage or document, as far as the caller may read it.

    Raises:
        InvalidRequest: invalid arguments, or nothing found that the caller may read.
        SourceError: a source that may have it could not be read.
        CursorExpired: the text has changed since the previous part.
    """
    wanted = _wanted(asked)
    fetched = fetch_passages(
        call.deployment,
        call.caller.principal,
        domain=wanted.domain,
        source=wanted.source,
        chunk_ids=() if wanted.chunk_id is None else (wanted.chunk_id,),
        document_ids=() if wanted.document_id is None else (wanted.document_id,),
    )
    _check_found(fetched, wanted)
    document = fetched_document(fetched, asked.version, whole=wanted.document_id is not None)
    budget = asked.max_tokens
    while True:
        answer = _answer(document, asked.cursor, budget, demo=call.deployment.demo)
        reply = Reply(answer, _text(answer) if asked.id is None else _json(answer))
        if reply.fits or budget <= LEAST_TOKENS:
            return reply
        budget = max(LEAST_TOKENS, budget // 2)


def _wanted(asked: FetchArguments) -> _Wanted:
    if sum(name is not None for name in (asked.id, asked.chunk_id, asked.document_id)) != 1:
        raise InvalidRequest(f"{_ONE_OF}; each comes from a result of search")
    if asked.id is None:
        return _Wanted(asked.domain, asked.source, asked.chunk_id, asked.document_id)
    domain, _, rest = asked.id.partition("/")
    source, _, chunk_id = rest.partition("/")
    if not (domain and source and chunk_id):
        raise InvalidRequest("id is not one of a result: send it as returned by search, DOMAIN/SOURCE/PASSAGE")
    return _Wanted(domain, source, chunk_id, None)


def _check_found(fetched: Fetched, wanted: _Wanted) -> None:
    if fetched.passages:
        return
    for error in fetched.unanswered:
        raise error
    raise InvalidRequest(
        f"there is no {'passage' if wanted.chunk_id else 'document'} {wanted.name!r} that you may read: ids come from "
        "results of search; search again to find replaced documents"
    )


def _answer(document: FetchedDocument, cursor: str | None, budget: int, *, demo: bool) -> FetchAnswer:
    part = part_of(document.text, cursor, budget)
    return FetchAnswer(
        id=document.id,
        title=document.title,
        content=document.for_a_model(part.start, part.end),
        url=document.url,
        metadata=document.metadata,
        passages=[
            FetchedPlace(chunk_id=place.chunk_id, section=place.section, page=place.page)
            for place in document.within(part.start, part.end)
        ],
        begins=part.start,
        ends=part.end,
        of=len(document.text),
        cursor=part.cursor,
        demo=demo,
    )


def _json(answer: FetchAnswer) -> str:
    """Return the answer as JSON for clients that fetch by `id`; they expect the key `text`."""
    named = {"text" if name == "content" else name: value for name, value in answer.model_dump(mode="json").items()}
    return json.dumps(named, ensure_ascii=False, separators=(",", ":"))


def _text(answer: FetchAnswer) -> str:
    facts = " · ".join(f"{name} {_shown(value)}" for name, value in answer.metadata.items())
    lines = ["This is a fictitious demo bank."] if answer.demo else []
    lines += [f"{answer.title} (id {' '.join(answer.id.split())})", facts, answer.url, "", answer.content, ""]
    lines.append(f"Passages: {'; '.join(map(_place, answer.passages))}.")
    lines.append(f"Characters {answer.begins} to {answer.ends} of {answer.of}.")
    if answer.cursor is not None:
        lines.append(f"More text: call fetch with the same arguments and cursor {answer.cursor!r}.")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    nested = isinstance(value, dict | list)
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str) if nested else str(value)


def _place(passage: FetchedPlace) -> str:
    where = (passage.section, None if passage.page is None else f"page {passage.page}")
    return ", ".join(part for part in (passage.chunk_id, *where) if part)


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
        text: raw; a model gets it only from `for_a_model`.
        fenced: whether a model gets it in a fence.
        suspected: whether the text or its labels look like instructions to a model.
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
        """Return a part of the text; untrusted text is fenced with a nonce that its author cannot know."""
        part = self.text[start:end]
        return quoted(part, content_sha256(self.text)[:16], suspected=self.suspected) if self.fenced else part

    def within(self, start: int, end: int) -> Sequence[PassagePlace]:
        """Return the passages that overlap characters [start, end)."""
        return [place for place in self.places if place.start < end and place.end > start]


def fetched_document(fetched: Fetched, version: str | None, *, whole: bool) -> FetchedDocument:
    """Return fetched passages as one text: of several versions the requested one, else the newest in force.

    Args:
        fetched: at least one passage.
        whole: whether a document was requested, not a passage.

    Raises:
        InvalidRequest: the requested version does not exist.
    """
    versions = by_version(fetched.passages)
    chosen = _chosen(versions, version)
    passages = versions[chosen] if whole else versions[chosen][:1]
    others = [{"source": source, "version": other} for source, other in versions if (source, other) != chosen]
    return _document(fetched.domain, passages, others)


def _chosen(versions: Mapping[VersionKey, Sequence[FetchedPassage]], version: str | None) -> VersionKey:
    if version is None:
        return newest_version(versions)
    of_version = next((key for key in versions if key[1] == version), None)
    if of_version is None:
        known = ", ".join(str(other) for _, other in versions)
        raise InvalidRequest(f"there is no version {version!r} of it, only {known}")
    return of_version


def _document(domain: str, passages: Sequence[FetchedPassage], others: list[dict[str, Any]]) -> FetchedDocument:
    first, places, pieces, start = passages[0], list[PassagePlace](), list[str](), 0
    for passage in passages:
        chunk = passage.chunk
        end = start + len(chunk.content)
        places.append(
            PassagePlace(inert_values(chunk.chunk_id), labelled(chunk.section) or None, chunk.page, start, end)
        )
        pieces.append(chunk.content)
        start = end + len(_BETWEEN)
    text = _BETWEEN.join(pieces)
    suspected = bool(injection_kinds(text)) or any(label_kinds(passage.chunk) for passage in passages)
    return FetchedDocument(
        id=passage_id(domain, first.source_id, first.chunk_id),
        title=labelled(first.chunk.title or first.chunk.document_id or first.source_title or first.source_id),
        url=labelled(first.url),
        metadata=_metadata(domain, first, others),
        text=text,
        places=tuple(places),
        fenced=suspected or any(passage.trust_class is not TrustClass.TRUSTED for passage in passages),
        suspected=suspected,
    )


def _metadata(domain: str, passage: FetchedPassage, others: list[dict[str, Any]]) -> dict[str, Any]:
    known = {
        "domain": domain,
        **passage.facts(),
        "other_versions": others,
        "fields": json_value(passage.chunk.metadata),
    }
    shown = {name: inert_values(value) for name, value in known.items() if value not in (None, [], {})}
    if ApproxTokenCounter().count(json.dumps(shown, ensure_ascii=False, default=str)) > _FIELD_TOKENS:
        shown.pop("fields", None)
    return shown


_DIGEST: Final = 12
_MOST_PER_TOKEN: Final = 40
"""Characters; only white space has as many."""

_counter: Final = ApproxTokenCounter()


class TextPart(NamedTuple):
    """Characters [start, end) of a text; `cursor` continues after them and is None at the end."""

    start: int
    end: int
    cursor: str | None


def part_of(text: str, cursor: str | None, most_tokens: int) -> TextPart:
    """Return the part at a cursor, or the first part; it ends between lines or words if possible.

    Raises:
        CursorExpired: the text has changed since the cursor was made.
    """
    start = 0 if cursor is None else _start(text, cursor)
    end = _end(text, start, most_tokens)
    more = f"{end}.{content_sha256(text)[:_DIGEST]}" if end < len(text) else None
    return TextPart(start, end, more)


def _start(text: str, cursor: str) -> int:
    place, _, digest = cursor.partition(".")
    known = place.isascii() and place.isdecimal() and digest == content_sha256(text)[:_DIGEST]
    if not known or not 0 < int(place) < len(text):
        raise CursorExpired("the text has changed since this cursor was given: fetch it from its beginning")
    return int(place)


def _end(text: str, start: int, most_tokens: int) -> int:
    """Return where a part ends, by bisection: the token count never falls as a text grows."""
    least, most = start + 1, min(len(text), start + _MOST_PER_TOKEN * most_tokens)
    while least < most:
        middle = (least + most + 1) // 2
        if _counter.count(text[start:middle]) <= most_tokens:
            least = middle
        else:
            most = middle - 1
    if least == len(text):
        return least
    for mark in ("\n", " "):
        place = text.rfind(mark, start + (least - start) // 2, least)
        if place >= 0:
            return place + 1
    return least
