"""The clock of a search is read once: which day it is depends on the domain's time zone, whether it is past too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from context_engine.core.engine.search_plan import ClockReading

EVENING = datetime(2026, 3, 2, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "as_of", "expected"),
    [
        ("UTC", None, (date(2026, 3, 2), True)),
        ("Asia/Singapore", None, (date(2026, 3, 3), True)),  # 20:00 UTC is 04:00 of the next day there
        ("Asia/Singapore", date(2026, 3, 2), (date(2026, 3, 2), False)),
        ("UTC", date(2026, 3, 2), (date(2026, 3, 2), True)),
        ("UTC", date(2027, 1, 1), (date(2027, 1, 1), True)),
    ],
)
def test_the_day_of_the_search(zone: str, as_of: date | None, expected: tuple[date, bool]) -> None:
    assert ClockReading.at(EVENING, ZoneInfo(zone), as_of) == (EVENING, *expected)
