"""The pages for operators: what is served, how it does, who may read it, and quality over time; they change nothing."""

from __future__ import annotations

from concurrent.futures import TimeoutError as NotDone
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from context_engine import __version__
from context_engine.apps.server.quality import QualityCheck
from context_engine.apps.server.service import Service, service_of
from context_engine.apps.web.admin_figures import last_ingests, matrix_of, searches_of, source_lines, today
from context_engine.apps.web.charts import ChartBar, Column, SharePoint, bars_chart, columns, share_line
from context_engine.apps.web.rendering import Page, respond
from context_engine.apps.web.result_words import TIERS
from context_engine.apps.web.site_state import SiteState, site_of
from context_engine.core.models import Authenticated
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import AuditError, AuditOff, NotPermitted
from context_engine.insight.quality import Count
from context_engine.insight.quality_watch import FIGURES, QualityLine
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_report import audit_in_force

if TYPE_CHECKING:
    from context_engine.apps.web.admin_figures import SearchFigures
    from context_engine.audit.review.overview import Overview

router = APIRouter(include_in_schema=False)
_ACTIVE: Final = {"active": "admin"}


@router.get("/admin")
async def admin_page(request: Request) -> Response:
    """Show the state of the service to an operator."""
    service, site = service_of(request), site_of(request)
    service.readiness.look()
    return await respond(request, lambda deployment, caller: _page(service, site, deployment, caller))


def _page(service: Service, site: SiteState, deployment: Deployment, caller: Authenticated) -> Page:
    if not caller.operator:
        raise NotPermitted("this page names the sources and rules of every domain: it is for operators")
    readiness, registry = service.readiness, deployment.setup.registry
    overview, ledger = _overview(site, deployment)
    base = site.base.of(deployment)
    sources = source_lines(deployment, readiness.problems, overview, base)
    figures = None if overview is None else searches_of(overview, today())
    values: dict[str, Any] = {
        "version": __version__,
        "state": readiness.state,
        "reload_problem": readiness.reload_problem,
        "broken": {name: str(problem) for name, problem in registry.broken.items()},
        "unread": [str(problem) for problem in registry.unread],
        "titles": {name: domain.title for name, domain in registry.domains.items()},
        "sources": sources,
        "ingests": last_ingests(sources),
        "examined": bool(readiness.problems),
        "audit": audit_in_force(deployment.setup, deployment.data_dir),
        "ledger": ledger,
        "since_start": deployment.engine.tally.read(),
        "base": base,
        "signal": SIGNAL_VERSION,
        "matrix": matrix_of(deployment),
        "figures": figures,
        "charts": {} if figures is None else _charts(figures),
    }
    return Page("admin.html", {**_ACTIVE, **values})


def _overview(site: SiteState, deployment: Deployment) -> tuple[Overview | None, dict[str, int]]:
    """Return the overview of the ledger with its size; None if nothing is recorded or it cannot be read."""
    try:
        ledger = deployment.ledger.opened()
        if ledger is None:
            return None, {}
        overview = site.reviews.of(ledger).overview
        return overview, {"size": ledger.size, "pending": ledger.pending_count(), "counted": overview.size}
    except (AuditOff, AuditError):
        return None, {}


def _charts(figures: SearchFigures) -> dict[str, Any]:
    by_day = [Column(day, each.searches, each.degraded) for day, each in figures.days]
    shown = sum(figures.tiers.values()) or 1
    tiers = [
        ChartBar(f"{tier} {TIERS[tier]}", count, f"{count / shown:.0%}", f"t{tier}")
        for tier, count in figures.tiers.items()
    ]
    return {
        "days": columns(by_day, "Searches a day", "degraded"),
        "tiers": bars_chart(tiers, "Chunks shown, by authority tier"),
    }


_WAITS_S: Final = 2.0


class FigureCard(NamedTuple):
    """One figure as the page shows it."""

    line: QualityLine
    title: str
    recent: str
    past: str
    chart: Markup


@router.get("/admin/quality")
async def quality_page(request: Request) -> Response:
    """Show the figures of every domain over time to an operator."""
    check = service_of(request).quality
    return await respond(request, lambda deployment, caller: _quality_page(check, deployment, caller))


def _quality_page(check: QualityCheck, deployment: Deployment, caller: Authenticated) -> Page:
    if not caller.operator:
        raise NotPermitted("this page shows figures of every domain: it is for operators")
    unfinished = False
    try:
        check.look().result(_WAITS_S)
    except NotDone:
        unfinished = True
    cards = [figure_card(line) for line in check.lines()]
    registry = deployment.setup.registry
    values = {
        "active": "admin",
        "cards": cards,
        "alarmed": any(card.line.alarmed for card in cards),
        "unfinished": unfinished,
        "recorded": deployment.ledger.recording,
        "checks": bool(deployment.settings.quality_check_s),
        "titles": {
            line.domain: registry.domains[line.domain].title if line.domain in registry.domains else ""
            for line, *_ in cards
        },
    }
    return Page("quality.html", values)


def figure_card(line: QualityLine) -> FigureCard:
    """Return a figure with its chart."""
    title = FIGURES[line.figure][0].upper() + FIGURES[line.figure][1:]
    alarms = {excursion.alarmed[:10] for excursion in line.excursions}
    points = [
        SharePoint(
            label=day,
            share=count.share,
            text=f"{_share(count)} of {count.total}",
            marked=day in alarms,
            raised=any(excursion.since[:10] <= day <= (excursion.ended or day)[:10] for excursion in line.excursions),
        )
        for day, count in line.days
    ]
    return FigureCard(line, title, _share(line.recent), _share(line.past), share_line(points, line.past.share, title))


def _share(count: Count) -> str:
    return f"{100 * count.share:.1f} %" if count.total else "–"
