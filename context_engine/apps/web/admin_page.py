"""The page for operators: what is served, how it does, and who may read it; it changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response

from context_engine import __version__
from context_engine.apps.server.service import Service, service_of
from context_engine.apps.web.admin_figures import last_ingests, matrix_of, searches_of, source_lines, today
from context_engine.apps.web.charts import ChartBar, Column, bars_chart, columns
from context_engine.apps.web.rendering import Page, respond
from context_engine.apps.web.result_words import TIERS
from context_engine.apps.web.site_state import SiteState, site_of
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import AuditError, AuditOff, NotPermitted
from context_engine.service.callers import Authenticated
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
