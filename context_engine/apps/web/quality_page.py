"""The page for operators that compares the quality of each domain with its own past."""

from __future__ import annotations

from concurrent.futures import TimeoutError as NotDone
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from context_engine.apps.server.quality import QualityCheck
from context_engine.apps.server.service import service_of
from context_engine.apps.web.charts import SharePoint, share_line
from context_engine.apps.web.rendering import Page, respond
from context_engine.errors import NotPermitted
from context_engine.insight.quality import Count
from context_engine.insight.quality_watch import FIGURES, QualityLine
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment

router = APIRouter(include_in_schema=False)
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
    return await respond(request, lambda deployment, caller: _page(check, deployment, caller))


def _page(check: QualityCheck, deployment: Deployment, caller: Authenticated) -> Page:
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
