"""The figures of the operator's page."""

from __future__ import annotations

from datetime import date

import pytest

from context_engine.apps.web.admin_figures import percentile, searches_of
from context_engine.audit.review.overview import DayFigures, Overview


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([7.0], 0.95, 7.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0), ([float(n) for n in range(1, 101)], 0.95, 95.0)],
)
def test_a_percentile_is_one_of_the_values(values, share, expected):
    assert percentile(values, share) == expected


class Recorded(Overview):
    """An overview with figures that were written here."""

    def __init__(self, **days: DayFigures) -> None:
        super().__init__()
        self._days = {day.replace("d", "").replace("_", "-"): each for day, each in days.items()}


def test_the_last_thirty_days_without_a_gap():
    overview = Recorded(
        d2026_01_01=DayFigures(searches=99),
        d2026_03_01=DayFigures(searches=4, degraded=1, stale=2),
        d2026_03_03=DayFigures(searches=6, degraded=1),
    )
    overview._days["2026-03-03"].tiers.update({1: 3, 5: 1})
    overview._days["2026-03-03"].notices.update({"source_failed": 1})
    figures = searches_of(overview, date(2026, 3, 4))

    assert [(day, each.searches) for day, each in figures.days] == [
        ("2026-03-01", 4),
        ("2026-03-02", 0),
        ("2026-03-03", 6),
        ("2026-03-04", 0),
    ]
    assert (figures.total, figures.degraded, figures.stale) == (10, 2, 2)
    assert (figures.tiers, figures.notices) == ({1: 3, 5: 1}, (("source_failed", 1),))


def test_without_a_search_there_is_today():
    assert [day for day, _ in searches_of(Overview(), date(2026, 3, 4)).days] == ["2026-03-04"]
