"""What calls of a chat model cost, and limits: each call reserves the most that it can cost before it is made, and is
settled with what it has cost.

Money is a Decimal and exact: a number of tokens times a price per million tokens is never rounded.
What was spent stands in one SQLite file of the data folder, shared by the deployment's processes and kept over their
restarts. A reservation that is neither settled nor released, because its process has died, expires.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import ChatUsage, Price, Settings, missing_price, valid_price
from context_engine.core.protocols import Clock
from context_engine.errors import CostLimitReached
from context_engine.settings.shared_database import SharedDatabase

EXACT: Final = Context(prec=60)
"""Arithmetic with more digits than any sum of money has."""

_MILLION: Final = Decimal(1_000_000)
COST_FILE: Final = "costs.sqlite"
_TABLES: Final = (
    "CREATE TABLE spent (account TEXT PRIMARY KEY, amount TEXT NOT NULL, kept_until INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE reserved (
        id TEXT PRIMARY KEY, amount TEXT NOT NULL, accounts TEXT NOT NULL, expires INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)
_DAY_S: Final = 86_400
_LOCK: Final = Lock()
"""The writers of one process take turns here, which is fairer and faster than at the file."""
_MARGIN: Final = 1.5
"""Of an estimate of tokens; scripts other than Latin take up to 1.38 times the estimate."""

_KEPT_DAYS: Final = {"request": 2, "job": 90, "domain_day": 400, "day": 400}
RESERVED_S: Final = 3900
"""An answer takes an hour at most (`total_s` of a chat model), so a reservation that is older is abandoned."""


class Cost(NamedTuple):
    """A sum of money; the currency is an ISO 4217 code."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{money_text(self.amount)} {self.currency}"


class PriceTable:
    """Prices of models by day.

    Args:
        prices: all in one currency; of a model, the newest that is valid on a day counts.
    """

    def __init__(self, prices: Iterable[Price]) -> None:
        self._prices = tuple(prices)

    @property
    def currency(self) -> str:
        """The currency of all prices; empty without prices."""
        return self._prices[0].currency if self._prices else ""

    def estimate(self, model: str, input_tokens: int, max_output: int, day: date) -> Cost | None:
        """Return the most that a call can cost: nothing cached, and the longest answer. None: the price is unknown.

        Args:
            input_tokens: of the messages, >= 0; where they are estimated, with a margin.
            max_output: most tokens of the answer, >= 0.
        """
        return self.of_usage(model, ChatUsage(input_tokens, max_output), day)

    def of_usage(self, model: str, usage: ChatUsage, day: date) -> Cost | None:
        """Return what a call has cost; None if the price is unknown.

        cost = (uncached * input price + cached * cached price + output * output price) / 1,000,000
        """
        price = valid_price(self._prices, model, day)
        if price is None:
            return None
        cached_price = price.input_per_million if price.cached_per_million is None else price.cached_per_million
        parts = (
            (usage.input_tokens - usage.cached_tokens, price.input_per_million),
            (usage.cached_tokens, cached_price),
            (usage.output_tokens, price.output_per_million),
        )
        amount = total(EXACT.multiply(Decimal(tokens), per_million) for tokens, per_million in parts)
        return Cost(EXACT.divide(amount, _MILLION), price.currency)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts."""
    result = Decimal(0)
    for amount in amounts:
        result = EXACT.add(result, amount)
    return result


def money_text(amount: Decimal) -> str:
    """Return an amount with all its digits and at least two after the point.

    >>> money_text(Decimal("0.0001250")), money_text(Decimal("12.5"))
    ('0.000125', '12.50')
    """
    whole, _, fraction = f"{amount:f}".partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"


class CostLimits(NamedTuple):
    """Most money in the currency of the prices; None: no limit.

    Attributes:
        request: for the calls of one request.
        job: for the calls of one job.
        domain_day: for the calls of one domain on a day of its time zone.
        day: for the calls of all domains on a day of UTC.
    """

    request: Decimal | None = None
    job: Decimal | None = None
    domain_day: Decimal | None = None
    day: Decimal | None = None

    @classmethod
    def of(cls, settings: Settings) -> CostLimits:
        """Return the limits that settings name."""
        return cls(
            settings.cost_limit_request,
            settings.cost_limit_job,
            settings.cost_limit_domain_day,
            settings.cost_limit_day,
        )

    def for_job(self, limit: Decimal | None, elsewhere: Decimal = Decimal(0)) -> CostLimits:
        """Return the limits with that of a job, where it is lower than the one of the settings.

        Args:
            elsewhere: what other machines have spent on the job, which the account of this one does not know.
        """
        lower = min((each for each in (self.job, limit) if each is not None), default=None)
        return self._replace(job=lower and max(EXACT.subtract(lower, elsewhere), Decimal(0)))


class Spender(NamedTuple):
    """What a call is made for.

    Attributes:
        request_id: of the request.
        domain: of the request.
        timezone: of the domain, an IANA name.
        job_id: of the job that the request belongs to; None: of none.
    """

    request_id: str
    domain: str
    timezone: str = "UTC"
    job_id: str | None = None


class Reservation(NamedTuple):
    """A call that may be made.

    Attributes:
        cost: the most that it can cost; None if the price is unknown.
        accounts: the accounts that it is booked on, each with the moment until which it is kept (Unix seconds).
    """

    id: str
    model: str
    day: date
    cost: Cost | None
    accounts: dict[str, int]


class Budget:
    """Keeps the calls of a deployment within its limits. Safe for threads and processes.

    Args:
        folder: the deployment's data folder; the first priced call creates the file.
    """

    def __init__(self, folder: Path, prices: PriceTable, clock: Clock) -> None:
        self.prices = prices
        self._file = SharedDatabase(folder / COST_FILE, _TABLES, version=1, holds="the costs of the chat model")
        self._clock = clock

    def reserve(
        self, spender: Spender, model: str, *, input_tokens: int, max_output: int, limits: CostLimits
    ) -> Reservation:
        """Reserve the most that a call can cost.

        Args:
            model: its name in the prices.
            input_tokens: of the messages; where they are estimated, with a margin.
            max_output: most tokens of the answer.

        Raises:
            CostLimitReached: a limit does not allow it; nothing is reserved.
            ConfigError: a limit is set and the model has no price, or the file cannot be used.
        """
        now = self._clock.now()
        day = now.astimezone(UTC).date()
        cost = self.prices.estimate(model, input_tokens, max_output, day)
        if cost is None:
            if any(limit is not None for limit in limits):
                raise missing_price(model, day)
            return Reservation("", model, day, None, {})
        reservation = Reservation(uuid.uuid4().hex, model, day, cost, _accounts(spender, now))
        with _LOCK, self._file.written() as connection:
            _forget_expired(connection, int(now.timestamp()))
            _check(connection, reservation, cost, limits)
            row = (reservation.id, str(cost.amount), json.dumps(list(reservation.accounts)))
            connection.execute("INSERT INTO reserved VALUES (?, ?, ?, ?)", (*row, int(now.timestamp()) + RESERVED_S))
        return reservation

    def settle(self, reservation: Reservation, usage: ChatUsage) -> Cost | None:
        """Book what a call has cost in place of its reservation, once, and return it; None if the price is unknown.

        A cost above the reserved one is booked in full, and counts for the next calls.

        Raises:
            ConfigError: the file cannot be used.
        """
        cost = self.prices.of_usage(reservation.model, usage, reservation.day)
        if reservation.cost is None or cost is None:
            return None
        with _LOCK, self._file.written() as connection:
            connection.execute("DELETE FROM reserved WHERE id = ?", (reservation.id,))
            for account, kept_until in reservation.accounts.items():
                amount = EXACT.add(_spent(connection, account), cost.amount)
                row = (account, str(amount), kept_until)
                connection.execute("INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", row)
        return cost

    def release(self, reservation: Reservation) -> None:
        """Drop the reservation of a call that has cost nothing.

        Raises:
            ConfigError: the file cannot be used.
        """
        if reservation.cost is not None:
            with _LOCK, self._file.written() as connection:
                connection.execute("DELETE FROM reserved WHERE id = ?", (reservation.id,))

    def spent(self, spender: Spender) -> dict[str, Cost]:
        """Return what was spent so far, without reservations: {"request", "job", "domain_day", "day": its cost}.

        Raises:
            ConfigError: the file cannot be used.
        """
        if not self.prices.currency:
            return {}
        accounts = _accounts(spender, self._clock.now())
        with _LOCK, self._file.written() as connection:
            return {_limit_of(account): Cost(_spent(connection, account), self.prices.currency) for account in accounts}


class Spending(NamedTuple):
    """The budget for the calls of one request.

    Attributes:
        limits: those of its domain.
    """

    budget: Budget
    spender: Spender
    limits: CostLimits

    def reserve(self, model: str, input_tokens: int, max_output: int) -> Reservation:
        """Reserve the most that a call can cost; see `Budget.reserve`.

        Args:
            input_tokens: an estimate, which gets a margin here.
        """
        most = ceil(input_tokens * _MARGIN)
        return self.budget.reserve(self.spender, model, input_tokens=most, max_output=max_output, limits=self.limits)

    def settle(self, reservation: Reservation, usage: ChatUsage | None) -> Cost | None:
        """Book what a call has cost; without usage it has cost nothing."""
        if usage is None:
            self.budget.release(reservation)
            return None
        return self.budget.settle(reservation, usage)


def _accounts(spender: Spender, now: datetime) -> dict[str, int]:
    """Return the accounts of a call, each with the moment until which it is kept."""
    names = {
        "request": spender.request_id,
        "job": spender.job_id,
        "domain_day": f"{now.astimezone(ZoneInfo(spender.timezone)).date()} {spender.domain}",
        "day": str(now.astimezone(UTC).date()),
    }
    seconds = int(now.timestamp())
    return {
        f"{limit} {name}": seconds + _KEPT_DAYS[limit] * _DAY_S for limit, name in names.items() if name is not None
    }


def _limit_of(account: str) -> str:
    return account.partition(" ")[0]


def _check(connection: sqlite3.Connection, reservation: Reservation, cost: Cost, limits: CostLimits) -> None:
    """Refuse a call that could exceed a limit together with what is spent and reserved."""
    by_name = limits._asdict()
    for account in reservation.accounts:
        limit = by_name[_limit_of(account)]
        if limit is None:
            continue
        used = total([_spent(connection, account), *_reserved(connection, account)])
        if EXACT.add(used, cost.amount) > limit:
            raise _limit_reached(f"cost_limit_{_limit_of(account)}", limit, used, cost)


def _limit_reached(setting: str, limit: Decimal, used: Decimal, cost: Cost) -> CostLimitReached:
    sums = {"limit": money_text(limit), "used": money_text(used), "cost": money_text(cost.amount)}
    message = (
        f"the call could cost {cost}, and {sums['used']} of {setting} {sums['limit']} are used: ask for a shorter "
        "answer, ask again when the limit is free, or have it raised"
    )
    return CostLimitReached(message, setting=setting, currency=cost.currency, **sums)


def _spent(connection: sqlite3.Connection, account: str) -> Decimal:
    row = connection.execute("SELECT amount FROM spent WHERE account = ?", (account,)).fetchone()
    return Decimal(0) if row is None else Decimal(row[0])


def _reserved(connection: sqlite3.Connection, account: str) -> Iterator[Decimal]:
    for amount, accounts in connection.execute("SELECT amount, accounts FROM reserved"):
        if account in json.loads(accounts):
            yield Decimal(amount)


def _forget_expired(connection: sqlite3.Connection, now_s: int) -> None:
    connection.execute("DELETE FROM reserved WHERE expires <= ?", (now_s,))
    connection.execute("DELETE FROM spent WHERE kept_until <= ?", (now_s,))
