"""How many connections a source's datasets want, and how many searches at a time are served."""

from __future__ import annotations

import pytest

from context_engine.adapters.sources.dify.examine import Burst, calls_per_s, connections_advice

FIVE = (0.2, 0.4, 0.6, 0.8, 1.0)


def test_what_a_number_of_connections_does_and_which_would_serve() -> None:
    """1.0 | 0.8 + 0.2 | 0.6 + 0.4: three connections take as long as the slowest."""
    (advice,) = connections_advice(FIVE, 4, 10.0)
    assert "0.2 to 1 s a dataset (3 s for all 5)" in advice
    assert "max_connections 4 one search takes about 1 s, and 3 would do for one search" in advice


def test_how_many_searches_at_a_time_are_served_is_what_the_server_did_under_load() -> None:
    """13 calls a second for 10 s are 130, or 26 searches of five datasets; for 21.5 s 279, or 55."""
    _, served = connections_advice(FIVE, 4, 10.0, 13.0)
    assert "13 calls a second, 4 at once: 26 searches at a time are served within 10 s" in served
    assert "and 55 within the 21.5 s of External Knowledge" in served


def test_too_few_for_one_search() -> None:
    (advice,) = connections_advice([1.0] * 20, 4, 10.0)
    assert "max_connections 4 one search takes about 5 s, and 20 would do" in advice


def test_more_connections_than_dify_serves_by_default() -> None:
    _, starves = connections_advice([0.5], 11, 10.0)
    assert "SERVER_WORKER_CONNECTIONS" in starves
    assert len(connections_advice([0.5], 10, 10.0)) == 1


def test_the_throughput_of_bursts_that_overlap_or_not() -> None:
    """10 calls from 0 to 2 s and 10 from 1 to 3 s: 20 in 3 s; 6 more from 5 to 6 s: 26 in 4 s."""
    both = [Burst(10, 1.0, 3.0), Burst(10, 0.0, 2.0)]
    assert calls_per_s(both) == pytest.approx(20 / 3)
    assert calls_per_s([*both, Burst(6, 5.0, 6.0)]) == 26 / 4
    assert calls_per_s([Burst(10, 0.0, 4.0), Burst(2, 1.0, 2.0)]) == 12 / 4
    assert calls_per_s([]) is None
