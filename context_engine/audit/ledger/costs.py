"""What the chat models of recorded answers used and cost, by day, domain and model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal
from typing import Any, Final

from sqlalchemy import select

from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.look_up import Criteria, conditions
from context_engine.audit.ledger.schema import log, record

_AT_ONCE: Final = 1000
_EXACT: Final = Context(prec=60)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The calls of one model for one domain on one day, in one currency.

    Attributes:
        day: UTC, as 2026-03-02.
        calls: calls that wrote an answer, or rewrote its question.
        input_tokens, output_tokens: of the calls whose tokens are known.
        amount: what they cost, as a decimal number; "" without a price.
        currency: ISO 4217 code; "" without a price.
    """

    day: str
    domain: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    amount: str
    currency: str


def model_uses(database: Database, *, since: datetime | None = None, until: datetime | None = None) -> list[ModelUse]:
    """Return what the models of the answers with since <= time < until used, by day, domain, model and currency.

    Answers whose entries were pruned are not counted.

    Raises:
        AuditError: the ledger cannot be read.
    """
    wanted = conditions(Criteria(kind="answer", since=since, until=until))
    entries = select(log.c.entry).join(record, record.c.idx == log.c.idx).where(log.c.entry.is_not(None), *wanted)
    with database.connect(patient=True) as connection:
        rows = connection.execute(entries, execution_options={"yield_per": _AT_ONCE})
        return together(use for (entry,) in rows for use in _uses(json.loads(entry)))


def together(uses: Iterable[ModelUse]) -> list[ModelUse]:
    """Return one use for each day, domain, model and currency, in their order; the sums of money are exact."""
    groups: dict[tuple[str, str, str, str], list[ModelUse]] = {}
    for use in uses:
        groups.setdefault((use.day, use.domain, use.model, use.currency), []).append(use)
    return [
        ModelUse(
            day,
            domain,
            model,
            sum(use.calls for use in group),
            sum(use.input_tokens for use in group),
            sum(use.output_tokens for use in group),
            _sum(use.amount for use in group),
            currency,
        )
        for (day, domain, model, currency), group in sorted(groups.items())
    ]


def _uses(entry: dict[str, Any]) -> Iterator[ModelUse]:
    for call in (entry.get("rewriting"), *entry.get("deciding", ()), entry.get("model")):
        if call is not None:
            usage, cost = call["usage"] or {}, call["cost"] or {}
            yield ModelUse(
                entry["time"][:10],
                entry["domain"],
                call["name"],
                1,
                usage.get("input_tokens", 0),
                usage.get("output_tokens", 0),
                cost.get("amount", ""),
                cost.get("currency", ""),
            )


def _sum(amounts: Iterable[str]) -> str:
    total = Decimal(0)
    known = [Decimal(amount) for amount in amounts if amount]
    for amount in known:
        total = _EXACT.add(total, amount)
    return f"{total:f}" if known else ""
