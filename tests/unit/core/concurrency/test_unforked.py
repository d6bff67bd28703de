"""What another thread held at a fork does not block the child."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from context_engine.core.concurrency.forking import UNFORKED, cached_property
from context_engine.secrecy import hide, keep_secret

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


def test_calls_that_begin_while_a_fork_waits_come_after_it():
    order: list[str] = []

    def call() -> None:
        with UNFORKED:
            order.append("entered")

    thread = threading.Thread(target=call)
    UNFORKED.before_fork()
    try:
        thread.start()
        thread.join(0.05)
        order.append("forked")
    finally:
        UNFORKED.after_fork()
    thread.join(5)
    assert order == ["forked", "entered"]


def test_the_fork_of_a_call_does_not_wait_for_that_call():
    with UNFORKED:
        UNFORKED.before_fork()
        try:
            with UNFORKED:  # nor does a call within it wait for the fork
                pass
        finally:
            UNFORKED.after_fork()
        assert forked() == 0
    assert forked() == 0
    with UNFORKED:
        pass


def child_ends_well(check: Callable[[], bool]) -> bool:
    """Fork, and return whether the child's check is true within ten seconds."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1] == 0


def test_a_child_computes_a_property_that_another_thread_was_computing():
    begun, end = threading.Event(), threading.Event()

    class Text:
        def __init__(self, waits: bool) -> None:
            self._waits, self.computed = waits, 0

        @cached_property
        def length(self) -> int:
            """The length of the text."""
            self.computed += 1
            if self._waits:
                begun.set()
                end.wait(5)
            return 3

    thread = threading.Thread(target=lambda: Text(True).length)
    thread.start()
    begun.wait(5)
    assert child_ends_well(lambda: Text(False).length == 3)
    end.set()
    thread.join()
    text = Text(False)
    assert (text.length, text.length, text.computed) == (3, 3, 1)
    assert Text.length.__doc__ == "The length of the text."


@pytest.mark.slow
def test_children_register_and_hide_keys_though_threads_were_registering_others():
    stop = threading.Event()

    def register() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            keep_secret(f"a-key-of-the-parent-{number}")

    def hides() -> bool:
        keep_secret("the-key-of-the-child")
        return "child" not in hide("with the-key-of-the-child")

    threads = [threading.Thread(target=register) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert all(child_ends_well(hides) for _ in range(40))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
