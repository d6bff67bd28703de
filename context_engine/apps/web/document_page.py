"""A document as it was ingested: its text in order, its tag, its versions, and where it was shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import HttpProblem
from context_engine.apps.web.addresses import DOCUMENTS, document_address, search_address, with_query
from context_engine.apps.web.naming import location
from context_engine.apps.web.rendering import Page, respond
from context_engine.core.models import Authenticated, Chunk, TrustClass
from context_engine.errors import AuditOff
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import Deployment
from context_engine.service.fetching import (
    Fetched,
    FetchedPassage,
    VersionKey,
    by_version,
    fetch_passages,
    new_text,
    newest_version,
)

if TYPE_CHECKING:
    from context_engine.audit.review.impact import AffectedAnswer

_MOST_CHARS: Final = 60_000
"""Characters of text on one page."""

_MOST_SHOWN: Final = 20
_UNKNOWN: Final = "there is no document here that you may read: it may have been replaced, or it is not yours to read"
_OF_THE_CHUNK: Final = frozenset({"content_sha256", "next_chunk_id", "token_count", "line", "section_title", "defines"})
router = APIRouter(include_in_schema=False)


class WantedDocument(NamedTuple):
    """What the address asks for.

    Attributes:
        version: "": that of the passage, else the newest in force.
        chunk: the passage to mark; "" for none.
        part: 1-based part of a long text; 0: the part with the passage, else the first.
        shown: list the answers that used the document.
    """

    domain: str
    source: str
    document: str
    version: str
    chunk: str
    quote: str
    part: int
    shown: bool


class DocumentText(NamedTuple):
    """A passage of the text, without the words that the passage before it holds too."""

    chunk_id: str
    text: str
    place: str
    address: str
    is_marked: bool


class ShownVersion(NamedTuple):
    """A version of the document; `replaced_by` is (name, address) of what supersedes it."""

    name: str
    address: str
    is_current: bool
    chunk: Chunk
    replaced_by: tuple[str, str] | None


class IngestNotes(NamedTuple):
    """What the last ingest of its source said of the document: (code, sentence) of each notice."""

    at: str
    lines: list[tuple[str, str]]


class DocumentUse(NamedTuple):
    """A record that names the document."""

    time: str
    kind: str
    record_id: str
    address: str
    fate: str
    caller: str
    chunks: int


@router.get(f"{DOCUMENTS}/{{domain}}/{{source}}/{{document:path}}")
async def document_page(request: Request, domain: str, source: str, document: str) -> Response:
    """Show a document that the caller may read, with a passage marked if the address names one.

    The source of a job's documents is the job's id.
    """
    given = request.query_params
    wanted = WantedDocument(
        domain,
        source,
        document,
        version=given.get("version", ""),
        chunk=given.get("chunk", ""),
        quote=given.get("quote", ""),
        part=int(given["part"]) if given.get("part", "").isdecimal() and len(given["part"]) < 7 else 0,
        shown=given.get("shown") == "1",
    )

    def work(deployment: Deployment, caller: Authenticated) -> Page:
        with OwnedJobs(deployment, caller).having(source) as own:
            return _page(own, caller, wanted)

    return await respond(request, work)


def _page(deployment: Deployment, caller: Authenticated, wanted: WantedDocument) -> Page:
    """Return the page of a document.

    Raises:
        HttpProblem: unknown, or not to be read by the caller; the two are deliberately indistinguishable.
        ContextEngineError: as `fetch_passages`; or the source cannot be read.
    """
    versions = by_version(_fetched(deployment, caller, wanted).passages)
    key = _chosen(versions, wanted)
    passages = versions[key]
    parts = _parts(passages)
    part = _part(parts, wanted)
    first = next((passage for passage in passages if passage.chunk_id == wanted.chunk), passages[0])
    values = {
        "wanted": wanted,
        "title": first.chunk.title or first.chunk.document_id or first.source_title or first.source_id,
        "first": first,
        "untrusted": first.trust_class is TrustClass.UNTRUSTED,
        "texts": list(_texts(parts[part - 1], wanted)),
        "part": part,
        "part_addresses": [_address(wanted, key, part=str(number + 1)) for number in range(len(parts))],
        "versions": [_version(wanted, other, versions, is_current=other == key) for other in _in_time(versions)],
        "fields": _fields(first.chunk),
        "operator": caller.operator,
        "reported": _reported(deployment, caller, first),
        "uses_address": _address(wanted, key, shown="1"),
        "uses": _uses(deployment, wanted) if wanted.shown and caller.operator else None,
    }
    return Page("document.html", values)


def _reported(deployment: Deployment, caller: Authenticated, passage: FetchedPassage) -> IngestNotes | None:
    """Return what the last report of the source says of the document's file; None if no report is kept.

    A file may give documents that the caller may not read: what is said of such a file is for operators.
    """
    from context_engine.ingest.kept_reports import KeptReports
    from context_engine.wiring.embedded_base import base_path

    folder = base_path(deployment.setup.data_dir(deployment.data_dir))
    report, path = KeptReports(folder).last().get(passage.source_id), passage.chunk.path
    if report is None or not path or (report.gave_several(path) and not caller.operator):
        return None
    return IngestNotes(report.at, [(line.code, line.message) for line in report.about(path)])


def _fetched(deployment: Deployment, caller: Authenticated, wanted: WantedDocument) -> Fetched:
    """Return the passages of the document, or the passage alone where the address names no document."""
    if not wanted.document and not wanted.chunk:
        raise HttpProblem("not_found", _UNKNOWN)
    ids = {"document_ids": (wanted.document,)} if wanted.document else {"chunk_ids": (wanted.chunk,)}
    fetched = fetch_passages(deployment, caller.principal, domain=wanted.domain, source=wanted.source, **ids)
    if fetched.passages:
        return fetched
    for error in fetched.unanswered:
        raise error
    raise HttpProblem("not_found", _UNKNOWN)


def _chosen(versions: Mapping[VersionKey, Sequence[FetchedPassage]], wanted: WantedDocument) -> VersionKey:
    """Return the version that the address names, else that of its passage, else the newest in force."""
    if wanted.version:
        named = next((key for key in versions if key[1] == wanted.version), None)
    else:
        holds = (key for key, passages in versions.items() if any(each.chunk_id == wanted.chunk for each in passages))
        named = next(holds, None)
    return named or newest_version(versions)


def _parts(passages: Sequence[FetchedPassage]) -> list[list[FetchedPassage]]:
    """Deal the passages into parts, each with at most `_MOST_CHARS` characters or one passage."""
    parts: list[list[FetchedPassage]] = [[]]
    room = _MOST_CHARS
    for passage in passages:
        if parts[-1] and len(passage.content) > room:
            parts.append([])
            room = _MOST_CHARS
        parts[-1].append(passage)
        room -= len(passage.content)
    return parts


def _part(parts: Sequence[Sequence[FetchedPassage]], wanted: WantedDocument) -> int:
    if wanted.part:
        return min(wanted.part, len(parts))
    holds = (
        number for number, passages in enumerate(parts, 1) if any(each.chunk_id == wanted.chunk for each in passages)
    )
    return next(holds, 1)


def _texts(passages: Sequence[FetchedPassage], wanted: WantedDocument) -> Iterator[DocumentText]:
    before: Chunk | None = None
    for passage in passages:
        chunk = passage.chunk
        yield DocumentText(
            chunk_id=chunk.chunk_id,
            text=new_text(before, chunk)[:_MOST_CHARS],
            place=location(chunk),
            address=document_address(
                wanted.domain, passage.source_id, chunk.document_id, chunk_id=chunk.chunk_id,
                version=chunk.document_version or "",
            ),
            is_marked=chunk.chunk_id == wanted.chunk,
        )  # fmt: skip
        before = chunk


def _in_time(versions: Mapping[VersionKey, Sequence[FetchedPassage]]) -> list[VersionKey]:
    """Return the versions, the newest first."""

    def time(key: VersionKey) -> tuple[str, str]:
        chunk = versions[key][0].chunk
        return str(chunk.effective_from or ""), chunk.document_version or ""

    return sorted(versions, key=time, reverse=True)


def _version(
    wanted: WantedDocument,
    key: VersionKey,
    versions: Mapping[VersionKey, Sequence[FetchedPassage]],
    *,
    is_current: bool,
) -> ShownVersion:
    chunk, replaced = versions[key][0].chunk, versions[key][0].chunk.superseded_by
    of_this_document = replaced is None or (key[0], replaced) in versions
    document, version = (wanted.document, replaced or "") if of_this_document else (replaced or "", "")
    address = document_address(wanted.domain, key[0], document, version=version)
    return ShownVersion(
        name=key[1] or "without a version",
        address=_address(wanted, key),
        is_current=is_current,
        chunk=chunk,
        replaced_by=None if replaced is None else (replaced, address),
    )


def _address(wanted: WantedDocument, key: VersionKey, **values: str) -> str:
    plain = document_address(wanted.domain, key[0], wanted.document)
    return with_query(plain, {"version": key[1] or "", **values})


def _fields(chunk: Chunk) -> list[tuple[str, Any]]:
    """Return the document's own fields that tell a reader something."""
    return [(name, value) for name, value in sorted(chunk.metadata.items()) if name not in _OF_THE_CHUNK]


def _uses(deployment: Deployment, wanted: WantedDocument) -> tuple[int, list[DocumentUse]]:
    """Return how many records name the document, and the newest of them, newest first.

    Raises:
        AuditError: the ledger cannot be read.
    """
    from context_engine.audit.ledger.look_up import MentionCriteria
    from context_engine.audit.review.impact import impact

    try:
        ledger = deployment.ledger.opened()
    except AuditOff:
        ledger = None
    if ledger is None:
        return 0, []
    ledger.integrate()
    criteria = MentionCriteria(document_id=wanted.document, source_id=wanted.source)
    count = 0
    newest: deque[AffectedAnswer] = deque(maxlen=_MOST_SHOWN)
    for answer in impact(ledger, criteria):
        count += 1
        newest.appendleft(answer)
    return count, list(map(_use, newest))


def _use(answer: AffectedAnswer) -> DocumentUse:
    record = answer.record
    return DocumentUse(
        time=record.time[:16].replace("T", " "),
        kind=record.kind,
        record_id=record.record_id,
        address=search_address(record.record_id),
        fate="fetched" if record.kind == "fetch" else answer.fate,
        caller=(record.caller or "")[:12],
        chunks=len(answer.chunks),
    )
