"""How many connections the datasets of a domain want, by the time that Dify took to answer."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from context_engine.adapters.sources.dify.schedule import finish_times

_MANY: Final = 20
_STARVES: Final = 10
"""Calls at a time that Dify serves as delivered, its SERVER_WORKER_CONNECTIONS."""


def connections_advice(times: Sequence[float], connections: int, timeout_s: float) -> tuple[str, ...]:
    """Return what a number of connections does to one search and to many, and which numbers would serve.

    Args:
        times: seconds that Dify takes for each dataset.
        connections: the `max_connections` that are set.
        timeout_s: seconds that a search may take.
    """
    calls = sorted(times, reverse=True)
    slowest, total = calls[0], sum(calls)
    enough = next(n for n in range(1, len(calls) + 1) if finish_times([calls], n)[0] <= 1.1 * slowest)
    (alone,) = finish_times([calls], connections)
    many = ceil(_MANY * total / (2 * slowest))
    served = max(int(connections * timeout_s / total), 1)
    said = (
        f"Dify took {calls[-1]:.2g} to {slowest:.2g} s a dataset ({total:.2g} s for all {len(calls)}): with "
        f"max_connections {connections} one search takes about {alone:.2g} s, and {served} at a time are served within "
        f"{timeout_s:g} s; {enough} would do for one search, about {many} for {_MANY} at a time in twice its time"
    )
    starves = (
        f"Dify as delivered serves {_STARVES} calls at a time (SERVER_WORKER_CONNECTIONS) and starves above that: "
        "raise it there before max_connections"
    )
    return (said, starves) if max(many, connections) > _STARVES else (said,)
