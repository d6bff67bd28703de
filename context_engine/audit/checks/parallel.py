"""Stretches of a log checked by several processes; their results come in the order of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from sqlalchemy import Connection

from context_engine.audit.checks.stretch import Plan, Stretch, check_stretch
from context_engine.audit.ledger.database import Database, open_database

_LEAST_STRETCHES: Final = 3
"""Fewer are done by the time that another process has started."""

_opened: list[Database] = []
"""The ledger of a process of the pool."""


def are_several(plan: Plan, workers: int) -> bool:
    """Return whether several processes read the stretches of the plan, each at a moment of its own."""
    return workers > 1 and len(plan.extent.stretches) >= _LEAST_STRETCHES


def check_stretches(database: Database, connection: Connection, plan: Plan, workers: int) -> Iterator[Stretch]:
    """Yield what each stretch of the plan holds.

    Args:
        connection: reads it, where one process does.
        workers: processes at most.
    """
    stretches = plan.extent.stretches
    if not are_several(plan, workers):
        for tiles in stretches:
            yield check_stretch(connection, tiles, plan)
        return
    # Not forked: threads of this process may hold locks.
    with ProcessPoolExecutor(
        min(workers, len(stretches)), get_context("spawn"), initializer=_open, initargs=(_address(database), plan)
    ) as pool:
        waiting: deque[Future[Stretch]] = deque()
        for tiles in stretches:
            waiting.append(pool.submit(_check, tiles))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


_plans: list[Plan] = []


def _open(address: str, plan: Plan) -> None:
    _opened.append(open_database(address, origin="", create=False))
    _plans.append(plan)


def _check(tiles: range) -> Stretch:
    with _opened[0].connect() as connection:
        return check_stretch(connection, tiles, _plans[0])


def _address(database: Database) -> str:
    """Return what the ledger is opened by, its password included."""
    url = database.engine.url
    return database.place if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)
