"""Limits of cost: reserved before a call, settled after it, and never exceeded."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from context_engine.answer.budget import COST_FILE, RESERVED_S, Budget, Cost, CostLimits, PriceTable, Spender, total
from context_engine.core.models import ChatUsage, Price, Settings
from context_engine.errors import ConfigError, CostLimitReached
from context_engine.testing import FixedClock

PRICE = Price(
    model="small",
    valid_from=date(2026, 1, 1),
    currency="USD",
    input_per_million=Decimal(1),
    output_per_million=Decimal(2),
)
ASKED = {"input_tokens": 1000, "max_output": 500}
"""A call that costs at most (1000 * 1 + 500 * 2) / 1,000,000 = 0.002."""

SPENDER = Spender("r-1", "NPA")


class SetClock(FixedClock):
    """Shows the time that it is set to."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = datetime(2026, 3, 2, 10, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def open_budget(tmp_path: Path, clock: SetClock) -> Callable[[], Budget]:
    """A budget over the same file each time, as another process has it."""
    return lambda: Budget(tmp_path / "data", PriceTable([PRICE]), clock)


def reserve(budget: Budget, spender: Spender = SPENDER, **limits: Any) -> Any:
    named = CostLimits(**{name: Decimal(limit) for name, limit in limits.items()})
    return budget.reserve(spender, "small", **ASKED, limits=named)


def test_a_call_is_reserved_at_its_most_and_settled_at_its_cost(open_budget: Any) -> None:
    budget = open_budget()
    reserved = reserve(budget, day="0.0035")
    assert reserved.cost == Cost(Decimal("0.002"), "USD")
    with pytest.raises(CostLimitReached) as refused:
        reserve(budget, day="0.0035")
    assert refused.value.to_dict() == {
        "code": "cost_limit",
        "message": str(refused.value),
        "setting": "cost_limit_day",
        "limit": "0.0035",
        "used": "0.002",
        "cost": "0.002",
        "currency": "USD",
    }
    assert "could cost 0.002 USD, and 0.002 of cost_limit_day 0.0035 are used" in str(refused.value)
    assert budget.settle(reserved, ChatUsage(1000, 250)) == Cost(Decimal("0.0015"), "USD")
    reserve(budget, day="0.0035")  # 0.0015 + 0.002
    assert budget.spent(SPENDER)["day"] == Cost(Decimal("0.0015"), "USD")


def test_a_call_that_was_not_made_costs_nothing(open_budget: Any) -> None:
    budget = open_budget()
    budget.release(reserve(budget, request="0.002"))
    reserve(budget, request="0.002")
    assert budget.spent(SPENDER)["request"].amount == 0


@pytest.mark.parametrize(
    ("limit", "same", "other"),
    [
        ("request", Spender("r-1", "ORM"), Spender("r-2", "NPA")),
        ("job", Spender("r-2", "ORM", job_id="j-1"), Spender("r-2", "NPA", job_id="j-2")),
        ("domain_day", Spender("r-2", "NPA", job_id="j-2"), Spender("r-1", "ORM", job_id="j-1")),
    ],
)
def test_each_limit_counts_what_it_is_for(open_budget: Any, limit: str, same: Spender, other: Spender) -> None:
    budget = open_budget()
    reserve(budget, SPENDER._replace(job_id="j-1"), **{limit: "0.003"})
    reserve(budget, other, **{limit: "0.003"})
    with pytest.raises(CostLimitReached, match=f"cost_limit_{limit}"):
        reserve(budget, same, **{limit: "0.003"})


def test_the_day_of_a_domain_is_that_of_its_time_zone(open_budget: Any, clock: SetClock) -> None:
    """At 15:59 UTC Singapore still has the same day, at 16:00 the next; the day of all domains goes on until 24:00."""
    budget, singapore = open_budget(), Spender("r-1", "NPA", "Asia/Singapore")
    clock.moment = datetime(2026, 3, 2, 15, 59, tzinfo=UTC)
    reserve(budget, singapore, domain_day="0.003")
    with pytest.raises(CostLimitReached):
        reserve(budget, singapore, domain_day="0.003")
    clock.moment += timedelta(minutes=1)
    budget.settle(reserve(budget, singapore, domain_day="0.003"), ChatUsage(1000, 500))
    with pytest.raises(CostLimitReached):
        reserve(budget, singapore, day="0.005")
    clock.moment = datetime(2026, 3, 3, 0, 0, tzinfo=UTC)
    reserve(budget, singapore, day="0.003")


def test_what_was_spent_outlives_the_process(open_budget: Any, tmp_path: Path) -> None:
    first = open_budget()
    first.settle(reserve(first), ChatUsage(1000, 500))
    with pytest.raises(CostLimitReached):
        reserve(open_budget(), day="0.003")
    file = tmp_path / "data" / COST_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_reservation_of_a_dead_process_expires_and_a_late_settlement_still_counts(
    open_budget: Any, clock: SetClock
) -> None:
    budget = open_budget()
    late = reserve(budget, day="0.003")
    clock.moment += timedelta(seconds=RESERVED_S - 1)
    with pytest.raises(CostLimitReached):
        reserve(open_budget(), day="0.003")
    clock.moment += timedelta(seconds=1)
    budget.release(reserve(open_budget(), day="0.003"))
    budget.settle(late, ChatUsage(1000, 500))
    assert budget.spent(SPENDER)["day"].amount == Decimal("0.002")


def test_a_cost_above_the_reserved_one_counts_in_full(open_budget: Any) -> None:
    budget = open_budget()
    assert budget.settle(reserve(budget, day="0.002"), ChatUsage(5000, 500)) == Cost(Decimal("0.006"), "USD")
    with pytest.raises(CostLimitReached, match=r"0\.006 of cost_limit_day 0\.007"):
        reserve(budget, day="0.007")


def test_a_model_without_a_price_is_refused_under_a_limit_and_unknown_without_one(
    open_budget: Any, tmp_path: Path
) -> None:
    budget = open_budget()
    reserved = budget.reserve(SPENDER, "large", **ASKED, limits=CostLimits())
    assert reserved.cost is budget.settle(reserved, ChatUsage(1, 1)) is None
    budget.release(reserved)
    assert not (tmp_path / "data").exists()
    with pytest.raises(ConfigError, match="no price of 'large' for 2026-03-02, and a cost limit is set"):
        budget.reserve(SPENDER, "large", **ASKED, limits=CostLimits(job=Decimal(1)))
    assert Budget(tmp_path, PriceTable([]), FixedClock()).spent(SPENDER) == {}


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, clock: SetClock) -> None:
    (tmp_path / COST_FILE).mkdir(mode=0o700)
    with pytest.raises(ConfigError, match="the costs of the chat model cannot be read or written"):
        reserve(Budget(tmp_path, PriceTable([PRICE]), clock))


def test_the_limits_are_those_of_the_settings() -> None:
    settings = Settings.model_validate({"cost_limit_day": 5, "cost_limit_request": 0.1})
    assert CostLimits.of(settings) == CostLimits(request=Decimal("0.1"), day=Decimal(5))


@pytest.mark.parametrize(
    ("own", "configured", "lower"), [(2, 5, 2), (5, 2, 2), (None, 5, 5), (2, None, 2), (None, None, None)]
)
def test_a_job_has_the_lower_of_two_limits(own: int | None, configured: int | None, lower: int | None) -> None:
    def money(amount: int | None) -> Decimal | None:
        return None if amount is None else Decimal(amount)

    assert CostLimits(job=money(configured), day=Decimal(9)).for_job(money(own)) == CostLimits(
        job=money(lower), day=Decimal(9)
    )


@pytest.mark.parametrize(("limit", "elsewhere", "left"), [(5, 3, 2), (5, 7, 0), (None, 3, None)])
def test_what_other_machines_spent_on_a_job_is_not_left(limit: int | None, elsewhere: int, left: int | None) -> None:
    given = None if limit is None else Decimal(limit)
    expected = CostLimits(job=None if left is None else Decimal(left))
    assert CostLimits().for_job(given, Decimal(elsewhere)) == expected


def test_sixty_four_callers_at_once_never_exceed_the_limit(open_budget: Any) -> None:
    """Half of the callers settle at 0.0015, the others are still waiting for their answers with 0.002 reserved.

    Where a call was refused, more than 0.098 was in use, of which three quarters stay at least.
    """
    limits, barrier = CostLimits(day=Decimal("0.1")), threading.Barrier(64)

    def call(number: int) -> tuple[Decimal, Decimal]:
        budget = open_budget()  # each request has its own
        barrier.wait()
        try:
            reserved = budget.reserve(Spender(f"r-{number}", "NPA"), "small", **ASKED, limits=limits)
        except CostLimitReached:
            return Decimal(0), Decimal(0)
        if number % 2:
            return Decimal(0), reserved.cost.amount
        return budget.settle(reserved, ChatUsage(1000, 250)).amount, Decimal(0)

    with ThreadPoolExecutor(64) as pool:
        settled, still_reserved = map(total, zip(*pool.map(call, range(64)), strict=True))
    assert open_budget().spent(SPENDER)["day"].amount == settled
    assert Decimal("0.0735") < settled + still_reserved <= Decimal("0.1")


@pytest.mark.slow
def test_processes_share_the_limit(tmp_path: Path) -> None:
    """Each of the 100 calls of four processes is refused or paid.

    Where one was refused, more than 0.098 was in use, and each of at most 20 calls under way gave 0.0005 back.
    """
    command = [sys.executable, str(Path(__file__).with_name("budget_process.py")), str(tmp_path), "5", "5"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    paid = total(Decimal(process.communicate()[0]) for process in processes)
    assert [process.returncode for process in processes] == [0] * 4
    assert Decimal("0.088") < paid <= Decimal("0.1")
    spent = Budget(tmp_path, PriceTable([PRICE]), FixedClock()).spent(SPENDER)
    assert spent["day"].amount == spent["domain_day"].amount == paid
