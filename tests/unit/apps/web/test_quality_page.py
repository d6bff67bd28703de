"""The page of quality over time: what a card says, and who may see it."""

from __future__ import annotations

import pytest

from context_engine.apps.web.admin_page import figure_card
from context_engine.apps.web.rendering import Page, rendered_page
from context_engine.insight.quality import Count, Excursion
from context_engine.insight.quality_watch import QualityLine
from tests.unit.service.small_bank import AUDITOR, caller

EXCURSION = Excursion(
    alarmed="2026-03-03T09:00:00Z",
    since="2026-03-02T10:00:00Z",
    first_id="s-1",
    last_id="s/9",
    outcomes=Count(12, 30),
    past=Count(10, 1000),
)
DAYS = (("2026-03-01", Count(1, 100)), ("2026-03-02", Count(4, 20)), ("2026-03-03", Count(8, 10)))


def line(*excursions: Excursion) -> QualityLine:
    return QualityLine("NPA", "degraded", Count(12, 100), Count(10, 1000), True, 300.0, DAYS, excursions)


def html(*lines: QualityLine) -> str:
    values = {
        "active": "admin",
        "cards": [figure_card(each) for each in lines],
        "alarmed": any(each.alarmed for each in lines),
        "unfinished": False,
        "recorded": True,
        "checks": False,
        "titles": {"NPA": "New Product Approval"},
    }
    return rendered_page(Page("quality.html", values), caller=caller(AUDITOR))


@pytest.mark.wording
def test_an_alarm_says_how_much_since_when_and_links_its_searches() -> None:
    page = html(line(EXCURSION))
    assert "40.0 % instead of 1.0 % since 2026-03-02: 12 of 30 outcomes." in page
    assert 'href="/review/s-1"' in page and 'href="/review/s%2F9"' in page
    assert "above its past" in page


def test_days_of_an_excursion_are_shaded_and_its_alarm_is_marked() -> None:
    chart = figure_card(line(EXCURSION)).chart
    assert chart.count('class="raised"') == chart.count('class="alarm"') == 1
    ended = EXCURSION._replace(ended="2026-03-02T12:00:00Z", alarmed="2026-03-02T11:00:00Z")
    assert 'width="33.33%"' in figure_card(line(ended)).chart


def test_a_quiet_figure_and_no_figure_at_all() -> None:
    assert "raised" not in figure_card(line()).chart
    assert '<section class="card figure"' in html(line())
    assert "<section" not in html()
