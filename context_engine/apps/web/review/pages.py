"""The addresses of the review pages, and two of them.

`documents`: who saw a document, when, and in which versions. `integrity`: what is known about the integrity of the log
without reading all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, select

from context_engine.apps.server.service import service_of
from context_engine.apps.web.addresses import document_address, search_address
from context_engine.apps.web.charts import funnel_bars
from context_engine.apps.web.rendering import Page, html_response, respond
from context_engine.apps.web.review.case import ReviewCase, case_of, standing_of
from context_engine.apps.web.review.checks import CheckFinding, drift_now, replay_now, why_now
from context_engine.apps.web.review.listing import DECISIONS, DIFFERS, KINDS, Filters, listing
from context_engine.apps.web.review.state import Reviewed, Reviews
from context_engine.apps.web.site_state import site_of
from context_engine.audit.formats.checkpoint import parse_note
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.ledger.look_up import Criteria, MentionCriteria
from context_engine.audit.ledger.newest import WantedRecords, entries_of, mentions_in, newest_rows, uses_newest_first
from context_engine.audit.ledger.schema import erasure
from context_engine.audit.record.entry import read_entry
from context_engine.audit.review.impact import FATES, AffectedAnswer, affected
from context_engine.audit.review.overview import EXCEPTIONS
from context_engine.core.models import Authenticated
from context_engine.errors import AuditOff, NotPermitted, RecordNotFound
from context_engine.insight.subscriptions import listed_subscriptions
from context_engine.service.deployment import Deployment
from context_engine.service.records import OwnedRecord, find_owned, own_pseudonyms, proof_of_record
from context_engine.wiring.audit_report import audit_notices

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.read import StoredCheckpoint
    from context_engine.wiring.setup import Setup


router = APIRouter(prefix="/review", include_in_schema=False)
Check = Callable[[Deployment, Authenticated, OwnedRecord, Reviewed], CheckFinding]
_ACTIVE: Final = {"active": "review"}
_NOT_RECORDED: Final = "Searches are not recorded here: the operator can set audit_mode."
_NOTHING_YET: Final = "Nothing is recorded yet: the first search with recording switched on creates the ledger."
_MOST_SHOWN: Final = 100
_MOST: Final = 50
_KINDS: Final = ("key", "pruning", "loss", "erasure")


@router.get("")
async def review_page(request: Request) -> Response:
    """Show the recorded searches and answers, newest first."""
    query = dict(request.query_params)
    wanted = query.get("id", "").strip()
    if wanted:
        return html_response("", 303, {"Location": f"/review/{quote(wanted[:200], safe='')}"})
    return await respond(request, lambda deployment, caller: _list(_reviews(request), deployment, caller, query))


def _list(reviews: Reviews, deployment: Deployment, caller: Authenticated, query: Mapping[str, str]) -> Page:
    filters = Filters.of(query)
    common = {**_ACTIVE, "filters": filters, "exceptions": {**EXCEPTIONS, DIFFERS: "Replay differs"}}
    common |= {"kinds": KINDS, "decisions": DECISIONS, "domains": deployment.known_to(caller.principal).names}
    if caller.operator:
        common["domains"] = deployment.setup.registry.names
    try:
        ledger = deployment.ledger.opened()
    except AuditOff:
        return Page("review/list.html", {**common, "list": None, "nothing": _NOT_RECORDED})
    if ledger is None:
        return Page("review/list.html", {**common, "list": None, "nothing": _NOTHING_YET})
    mask = deployment.engine.mask if deployment.settings.mask_contexts else None
    reader = None if caller.operator else caller.principal.id or ""
    shown = listing(ledger, reviews.of(ledger), filters, reader=reader, mask=mask)
    return Page("review/list.html", {**common, "list": shown, "nothing": ""})


@router.get("/integrity")
async def integrity_page(request: Request) -> Response:
    """Show whether the log is as it was written; for operators."""
    return await respond(request, lambda deployment, caller: _integrity(_reviews(request), deployment, caller))


@router.post("/integrity/verify")
async def verify_ledger(request: Request) -> Response:
    """Start a verification in the background, and show the page again."""

    def work(deployment: Deployment, caller: Authenticated) -> None:
        ledger = _ledger_for_operator(deployment, caller)
        _reviews(request).of(ledger).verify.start(ledger)

    await service_of(request).call(request, work)
    return html_response("", 303, {"Location": "/review/integrity"})


def _integrity(reviews: Reviews, deployment: Deployment, caller: Authenticated) -> Page:
    ledger = _ledger_for_operator(deployment, caller)
    facts = integrity_of(ledger, deployment.setup)
    return Page("review/integrity.html", {**_ACTIVE, "facts": facts, "run": reviews.of(ledger).verify})


def _ledger_for_operator(deployment: Deployment, caller: Authenticated) -> Ledger:
    if not caller.operator:
        raise NotPermitted("the integrity of the log concerns every caller's records: it is for operators")
    ledger = deployment.ledger.opened()
    if ledger is None:
        raise RecordNotFound(_NOTHING_YET)
    return ledger


@router.get("/subscriptions")
async def subscriptions_page(request: Request) -> Response:
    """Show the subscriptions to changes; for operators."""

    def work(deployment: Deployment, caller: Authenticated) -> Page:
        if not caller.operator:
            raise NotPermitted("subscriptions name questions and documents of every domain: they are for operators")
        listed = listed_subscriptions(deployment.setup.data_dir(deployment.data_dir))
        return Page(
            "review/subscriptions.html", {**_ACTIVE, "subscriptions": listed, "document_address": document_address}
        )

    return await respond(request, work)


@router.get("/documents/{domain}/{source}/{document:path}")
async def document_page(request: Request, domain: str, source: str, document: str) -> Response:
    """Show who saw a document, when, and in which versions."""
    version = request.query_params.get("version", "")

    def work(deployment: Deployment, caller: Authenticated) -> Page:
        ledger = deployment.ledger.opened()
        if ledger is None:
            raise RecordNotFound(_NOTHING_YET)
        reader = None if caller.operator else caller.principal.id or ""
        seen = document_of(ledger, domain, source, document, version, reader=reader)
        return Page("review/document.html", {**_ACTIVE, "seen": seen})

    return await respond(request, work)


@router.get("/{record_id}/proof")
async def proof_file(request: Request, record_id: str) -> Response:
    """Return the proof that a record stands in the log, as a file."""
    text = await service_of(request).call(
        request, lambda deployment, caller: proof_of_record(deployment, caller, record_id)
    )
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(record_id, safe='')}.proof"}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@router.get("/{record_id}")
async def case_page(request: Request, record_id: str) -> Response:
    """Show one case, rebuilt from its record."""
    return await respond(
        request, lambda deployment, caller: _case(_reviews(request), deployment, caller, record_id, None)
    )


@router.post("/{record_id}/replay")
async def replay_case(request: Request, record_id: str) -> Response:
    """Compute the case again from its record alone, and show whether it is the same."""
    return await _checked(request, record_id, replay_now)


@router.post("/{record_id}/drift")
async def drift_of_case(request: Request, record_id: str) -> Response:
    """Compare the chunks that were shown with their sources now."""
    return await _checked(request, record_id, drift_now)


@router.post("/{record_id}/why")
async def why_in_case(request: Request, record_id: str) -> Response:
    """Tell why a chunk was shown or not."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    chunk = fields.get("chunk", [""])[-1].strip()  # a button of a row comes after the field
    return await _checked(
        request,
        record_id,
        lambda deployment, caller, record, _reviewed: why_now(deployment, caller, record, chunk),
    )


async def _checked(request: Request, record_id: str, check: Check) -> Response:
    return await respond(
        request, lambda deployment, caller: _case(_reviews(request), deployment, caller, record_id, check)
    )


def _case(reviews: Reviews, deployment: Deployment, caller: Authenticated, record_id: str, check: Check | None) -> Page:
    record = find_owned(deployment, caller, record_id)
    reviewed = reviews.of(record.ledger)
    finding = None if check is None else check(deployment, caller, record, reviewed)
    case = case_of(record, operator=caller.operator, mask=deployment.engine.mask, demo=deployment.demo)
    replayed = None if record.index is None else reviewed.replays.get(record.index)
    return Page("review/case.html", {**_ACTIVE, **case_values(case, record), "finding": finding, "replayed": replayed})


def case_values(case: ReviewCase, record: OwnedRecord) -> dict[str, Any]:
    """Return what the template of a case reads, without the results of checks."""
    links = {"document_address": document_address, "search_address": search_address}
    return {"case": case, "standing": standing_of(record), "funnel": funnel_bars(case.stages), **links}


def _reviews(request: Request) -> Reviews:
    return site_of(request).reviews


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDocument:
    """The use of a document.

    Attributes:
        version: the only one looked at; "": every version.
        answers: the newest first.
        versions: number of answers that showed each version.
        fates: number of answers by what became of the document.
        people: number of different callers to whom it was shown; those without a name count as one.
        total: number of answers, of which `answers` are the newest.
    """

    domain: str
    source: str
    document: str
    version: str
    answers: tuple[AffectedAnswer, ...]
    versions: dict[str, int]
    fates: dict[str, int]
    people: int
    total: int


def document_of(
    ledger: Ledger, domain: str, source: str, document: str, version: str, *, reader: str | None
) -> SeenDocument:
    """Return how a document was used.

    Args:
        domain: of the answers.
        reader: the name of a caller who sees their own records alone; None: an operator.

    Raises:
        AuditError: the ledger cannot be read.
    """
    ledger.integrate()
    chunks = MentionCriteria(document_id=document, document_version=version or None, source_id=source)
    callers = None if reader is None else tuple(own_pseudonyms(ledger, reader))
    wanted = WantedRecords(criteria=Criteria(domain=domain), callers=callers)
    fates: dict[int, str] = {}
    versions: dict[str, set[int]] = {}
    people: set[str | None] = set()
    for use in uses_newest_first(ledger, chunks, wanted):
        fates[use.record] = min(fates.get(use.record, use.fate), use.fate, key=_visible)
        if use.fate == "returned":
            versions.setdefault(use.version or "", set()).add(use.record)
            people.add(use.caller)
    newest = set(islice(fates, _MOST_SHOWN))
    answers = sorted(affected(ledger, mentions_in(ledger, chunks, newest)), key=lambda answer: -answer.record.index)
    return SeenDocument(
        domain=domain,
        source=source,
        document=document,
        version=version,
        answers=tuple(answers),
        versions={name: len(shown) for name, shown in sorted(versions.items())},
        fates=dict(Counter(fates.values())),
        people=len(people),
        total=len(fates),
    )


def _visible(fate: str) -> int:
    return FATES.index(fate) if fate in FATES else len(FATES)


class ShownCheckpoint(NamedTuple):
    """A checkpoint: size, time in seconds since 1970, names of its signatures."""

    size: int
    written: float
    signers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """The state of the log.

    Attributes:
        checkpoints: the newest, newest first.
        uncovered: number of records that no checkpoint covers yet.
        key: name and id of the current key; None: nothing is signed.
        keys, prunings, losses, erasures: the entries of the log about itself, newest first.
        erased: number of addenda that were erased.
        notices: sentences about unwise settings.
    """

    origin: str
    size: int
    pending: int
    minimum_index: int
    checkpoints: tuple[ShownCheckpoint, ...]
    uncovered: int
    key: str | None
    keys: tuple[dict[str, Any], ...]
    prunings: tuple[dict[str, Any], ...]
    losses: tuple[dict[str, Any], ...]
    erasures: tuple[dict[str, Any], ...]
    erased: int
    notices: tuple[str, ...]


def integrity_of(ledger: Ledger, setup: Setup) -> Integrity:
    """Return what is known about the log.

    Raises:
        AuditError: the ledger cannot be read.
    """
    ledger.integrate()
    checkpoints = tuple(_shown(each) for each in reversed(ledger.checkpoints(newest=_MOST)))
    size, keyring, about = ledger.size, ledger.keyring, _about_the_log(ledger)
    with ledger.database.connect() as connection:
        erased = int(connection.scalar(select(func.count()).select_from(erasure)) or 0)
    return Integrity(
        origin=ledger.origin,
        size=size,
        pending=ledger.pending_count(),
        minimum_index=ledger.minimum_index,
        checkpoints=checkpoints,
        uncovered=size - (checkpoints[0].size if checkpoints else 0),
        key=None if keyring is None else f"{keyring.current.name} {keyring.key_id}",
        keys=about["key"],
        prunings=about["pruning"],
        losses=about["loss"],
        erasures=about["erasure"],
        erased=erased,
        notices=tuple(notice.message for notice in audit_notices(setup)),
    )


def _shown(checkpoint: StoredCheckpoint) -> ShownCheckpoint:
    try:
        signers = tuple(dict.fromkeys(sign.name for sign in parse_note(checkpoint.note).signatures))
    except FormatError:  # `audit verify` reports it
        signers = ()
    return ShownCheckpoint(checkpoint.size, checkpoint.written, signers)


def _about_the_log(ledger: Ledger) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the newest entries of the log about itself, by kind."""
    rows = newest_rows(ledger, WantedRecords(criteria=Criteria(), kinds=_KINDS), _MOST)
    with ledger.database.connect() as connection:
        stored = entries_of(connection, [row.index for row in rows])
    read = [read_entry(stored[row.index]) for row in rows if row.index in stored]
    return {kind: tuple(entry for entry in read if entry["kind"] == kind) for kind in _KINDS}
