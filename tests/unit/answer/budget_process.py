"""A process that makes model calls within a budget: it reserves, waits for nothing and settles, and says what it paid.

Called with the folder, the number of threads and of calls of each.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path

from context_engine.answer.budget import Budget, CostLimits, PriceTable, Spender, total
from context_engine.core.models import ChatUsage, Price
from context_engine.errors import CostLimitReached
from context_engine.testing import FixedClock

PRICE = Price(
    model="small",
    valid_from=date(2026, 1, 1),
    currency="USD",
    input_per_million=Decimal(1),
    output_per_million=Decimal(2),
)


def main(folder: str, threads: str, calls: str) -> None:
    """Do it; a call costs at most (1000 * 1 + 500 * 2) / 1,000,000 = 0.002 and in the end 0.0015."""
    budget = Budget(Path(folder), PriceTable([PRICE]), FixedClock())
    limits = CostLimits(day=Decimal("0.1"))

    def call(number: int) -> Decimal:
        try:
            reserved = budget.reserve(
                Spender(f"r-{number}", "NPA"), "small", input_tokens=1000, max_output=500, limits=limits
            )
        except CostLimitReached:
            return Decimal(0)
        cost = budget.settle(reserved, ChatUsage(1000, 250))
        assert cost is not None
        return cost.amount

    with ThreadPoolExecutor(int(threads)) as pool:
        sys.stdout.write(str(total(pool.map(call, range(int(threads) * int(calls))))))


if __name__ == "__main__":
    main(*sys.argv[1:])
