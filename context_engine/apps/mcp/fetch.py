"""`fetch`: a passage or a document as it is now, in parts where it is long."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from context_engine.apps.mcp.answers import FetchAnswer, FetchedPlace
from context_engine.apps.mcp.arguments import LEAST_TOKENS, FetchArguments
from context_engine.apps.mcp.document import FetchedDocument, fetched_document
from context_engine.apps.mcp.long_text import part_of
from context_engine.apps.mcp.reply import Call, Reply
from context_engine.errors import InvalidRequest
from context_engine.service.fetching import Fetched, fetch_passages

_ONE_OF: Final = "send one of id, chunk_id and document_id"


class _Wanted(NamedTuple):
    """Where to look, and for what."""

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
        InvalidRequest: arguments that cannot be used, or nothing there that the caller may read.
        SourceError: a source that may have it could not be looked in.
        CursorExpired: the text has changed since the part before.
    """
    wanted = _wanted(asked)
    found = fetch_passages(
        call.deployment,
        call.caller.principal,
        domain=wanted.domain,
        source=wanted.source,
        chunk_ids=() if wanted.chunk_id is None else (wanted.chunk_id,),
        document_ids=() if wanted.document_id is None else (wanted.document_id,),
    )
    _check_found(found, wanted)
    document = fetched_document(found, asked.version, whole=wanted.document_id is not None)
    budget = asked.max_tokens
    while True:
        answer = _answer(document, asked.cursor, budget, demo=call.deployment.demo)
        reply = Reply(answer, _text(answer) if asked.id is None else _json(answer))
        if reply.fits or budget <= LEAST_TOKENS:
            return reply
        budget = max(LEAST_TOKENS, budget // 2)


def _wanted(asked: FetchArguments) -> _Wanted:
    if sum(one is not None for one in (asked.id, asked.chunk_id, asked.document_id)) != 1:
        raise InvalidRequest(f"{_ONE_OF}; each comes from a result of search")
    if asked.id is None:
        return _Wanted(asked.domain, asked.source, asked.chunk_id, asked.document_id)
    domain, _, rest = asked.id.partition("/")
    source, _, chunk_id = rest.partition("/")
    if not (domain and source and chunk_id):
        raise InvalidRequest("id is none of a result: send it as search gave it, DOMAIN/SOURCE/PASSAGE")
    return _Wanted(domain, source, chunk_id, None)


def _check_found(found: Fetched, wanted: _Wanted) -> None:
    if found.passages:
        return
    for error in found.unanswered:
        raise error
    raise InvalidRequest(
        f"there is no {'passage' if wanted.chunk_id else 'document'} {wanted.name!r} that you may read: ids come from "
        "results of search, and what has been replaced since is found by searching again"
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
            FetchedPlace(chunk_id=one.chunk_id, section=one.section, page=one.page)
            for one in document.within(part.start, part.end)
        ],
        begins=part.start,
        ends=part.end,
        of=len(document.text),
        cursor=part.cursor,
        demo=demo,
    )


def _json(answer: FetchAnswer) -> str:
    """Return the answer as JSON for clients that fetch by `id`: they look for `text`."""
    named = {"text" if name == "content" else name: value for name, value in answer.model_dump(mode="json").items()}
    return json.dumps(named, ensure_ascii=False, separators=(",", ":"))


def _text(answer: FetchAnswer) -> str:
    said = " · ".join(
        f"{name} {value}" for name, value in answer.metadata.items() if not isinstance(value, dict | list)
    )
    lines = ["This is a fictitious demo bank."] if answer.demo else []
    lines += [f"{answer.title} (id {' '.join(answer.id.split())})", said, answer.url, "", answer.content, ""]
    lines.append(f"Characters {answer.begins} to {answer.ends} of {answer.of}.")
    if answer.cursor is not None:
        lines.append(f"It goes on: call fetch with the same arguments and cursor {answer.cursor!r}.")
    return "\n".join(lines)
