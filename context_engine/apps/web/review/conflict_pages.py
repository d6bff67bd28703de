"""The page of contradictions between documents, for operators: they read every source, and settle what they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.service import service_of
from context_engine.apps.web.rendering import Page, html_response, respond
from context_engine.apps.web.review.conflict_view import (
    CONFLICTS,
    KINDS,
    MOST_SHOWN,
    ConflictFilters,
    kind_counts,
    shown_findings,
)
from context_engine.apps.web.review.state import ConflictRuns
from context_engine.apps.web.site_state import site_of
from context_engine.core.models import Authenticated
from context_engine.errors import AuditError, AuditOff, InvalidRequest, NotPermitted
from context_engine.service.deployment import Deployment

if TYPE_CHECKING:
    from context_engine.insight.domain_conflicts import SideAnswers
    from context_engine.insight.radar import RadarFinding

router = APIRouter(prefix=CONFLICTS, include_in_schema=False)
_LONGEST_REASON: Final = 500


@router.get("")
async def conflicts_page(request: Request) -> Response:
    """Show the contradictions of a domain."""
    query, runs = dict(request.query_params), site_of(request).conflicts
    return await respond(request, lambda deployment, caller: _page(runs, deployment, caller, query))


@router.post("/compare")
async def compare_again(request: Request) -> Response:
    """Compare the documents of a domain again, in the background, and show the page."""
    fields, runs = await _fields(request), site_of(request).conflicts

    def work(deployment: Deployment, caller: Authenticated) -> str:
        filters = _filters(deployment, caller, fields)
        runs.of(deployment, filters.domain).start(deployment, filters.domain)
        return filters.address()

    return html_response("", 303, {"Location": await service_of(request).call(request, work)})


@router.post("/settle")
async def settle_conflict(request: Request) -> Response:
    """Keep a decision with its reason and the name of the caller, and show the page."""
    fields, runs = await _fields(request), site_of(request).conflicts
    address = await service_of(request).call(
        request, lambda deployment, caller: _settled(runs, deployment, caller, fields)
    )
    return html_response("", 303, {"Location": f"{address}#settled"})


async def _fields(request: Request) -> Mapping[str, str]:
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[0].strip() for name, values in parse_qs(body).items()}


def _filters(deployment: Deployment, caller: Authenticated, query: Mapping[str, str]) -> ConflictFilters:
    """Return the filters of an operator.

    Raises:
        NotPermitted: the caller is none.
        InvalidRequest: a value is not of its kind.
    """
    if not caller.operator:
        raise NotPermitted("contradictions are looked for in every source of a domain: the page is for operators")
    return ConflictFilters.of(query, deployment.setup.registry.names)


def _page(runs: ConflictRuns, deployment: Deployment, caller: Authenticated, query: Mapping[str, str]) -> Page:
    from context_engine.insight.settled import settled_conflicts

    filters = _filters(deployment, caller, query)
    run = runs.of(deployment, filters.domain)
    run.wait()
    settled = settled_conflicts(_file(deployment))
    report = None if run.result is None else run.result.report
    listed = () if report is None else [each for each in report.findings if filters.admit(each)]
    open_, closed = ([each for each in listed if (each.finding_id in settled) is known] for known in (False, True))
    shown = [*open_[:MOST_SHOWN], *closed[:MOST_SHOWN]]
    findings = list(shown_findings(filters.domain, shown, _answers(deployment, shown), settled))
    every = () if report is None else [each for each in report.findings if filters.parallel or not each.parallel]
    values = {
        "active": "review",
        "filters": filters,
        "domains": deployment.setup.registry.names,
        "kinds": KINDS,
        "counts": kind_counts(each for each in every if each.finding_id not in settled),
        "run": run,
        "open": [each for each in findings if each.settled is None],
        "closed": [each for each in findings if each.settled is not None],
        "more": max(len(open_) - MOST_SHOWN, 0),
        "hidden": 0 if report is None else sum(each.parallel for each in report.findings) * (not filters.parallel),
    }
    return Page("review/conflicts.html", values)


def _settled(runs: ConflictRuns, deployment: Deployment, caller: Authenticated, fields: Mapping[str, str]) -> str:
    """Keep a decision; return the address of the page.

    Raises:
        NotPermitted: the caller is no operator.
        InvalidRequest: there is no reason, or no such contradiction.
    """
    from context_engine.insight.settled import settle

    filters = _filters(deployment, caller, fields)
    finding_id, reason = fields.get("id", ""), " ".join(fields.get("reason", "").split())
    result = runs.of(deployment, filters.domain).result
    if result is None or finding_id not in {each.finding_id for each in result.report.findings}:
        raise InvalidRequest(f"there is no contradiction {finding_id[:40]!r} now: load the page again")
    if not 0 < len(reason) <= _LONGEST_REASON:
        raise InvalidRequest(f"a decision needs a reason of at most {_LONGEST_REASON} characters")
    by = caller.principal.id or "anybody on this machine"
    settle(_file(deployment), finding_id, reason=reason, by=by, now=datetime.now(UTC))
    return filters.address()


def _answers(deployment: Deployment, findings: Sequence[RadarFinding]) -> Mapping[str, SideAnswers] | None:
    """Return the records that showed each side, by finding id; None if nothing is recorded."""
    from context_engine.insight.domain_conflicts import answers_that_showed

    try:
        ledger = deployment.ledger.opened()
        if ledger is None:
            return None
        ledger.integrate()
        return answers_that_showed(ledger, findings)
    except (AuditOff, AuditError):
        return None


def _file(deployment: Deployment) -> Path:
    from context_engine.insight.settled import FILE

    return deployment.setup.data_dir(deployment.data_dir) / FILE
