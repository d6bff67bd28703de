"""When calls would be done: a list schedule of calls on parallel connections (Graham 1966)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace


def finish_times(searches: Iterable[Sequence[float]], connections: int, busy: Iterable[float] = ()) -> list[float]:
    """Return the second at which each search is done, where the searches are served in the order given.

    Args:
        searches: seconds that each call of each search takes.
        connections: calls that run at once, at least 1.
        busy: seconds that the calls which run now still take.
    """
    free = sorted(busy)[:connections]
    free += [0.0] * (connections - len(free))
    heapify(free)
    done = []
    for calls in searches:
        last = 0.0
        for seconds in calls:
            end = free[0] + seconds
            heapreplace(free, end)
            last = max(last, end)
        done.append(last)
    return done
