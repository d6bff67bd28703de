"""A fork waits for the calls of a library that has locks of its own."""

from __future__ import annotations

import os
import threading

import pytest

from context_engine.core.concurrency.forking import UNFORKED

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def forked(child: int = 0) -> int:
    """Fork, have the child go through a block, and return its exit status."""
    pid = os.fork()
    if pid == 0:
        with UNFORKED:
            os._exit(child)
    return os.waitpid(pid, 0)[1]


def test_a_fork_comes_after_the_calls_at_work():
    inside, leave, order = threading.Event(), threading.Event(), []

    def call() -> None:
        with UNFORKED:
            inside.set()
            leave.wait(5)
            order.append("left")

    thread = threading.Thread(target=call)
    thread.start()
    inside.wait(5)
    threading.Timer(0.05, leave.set).start()
    assert forked() == 0
    order.append("forked")
    thread.join()
    assert order == ["left", "forked"]


@pytest.mark.slow
def test_a_call_that_forks_itself_is_not_waited_for_for_ever():
    with UNFORKED:
        assert forked() == 0
    assert forked() == 0
    with UNFORKED:
        pass
