"""The calls of one search to Dify: what hangs gives its connection back, and each result says what happened."""

from __future__ import annotations

import threading
import time

from context_engine.adapters.sources.dify.fair_queue import FairQueue
from context_engine.adapters.sources.dify.fanout import Ticket, ask_each
from context_engine.core.concurrency.executor import EXECUTOR
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, SourceUnavailable


def left_of(seconds):
    due = time.monotonic() + seconds
    return lambda: due - time.monotonic()


def until(reached):
    """Who waits has half a minute, and a moment of it left once something is reached; for others there is time."""
    who_waits, at_first = threading.current_thread(), [30.0]

    def left():
        if at_first:
            return at_first.pop()
        if threading.current_thread() is not who_waits:
            return 30.0
        assert reached.wait(30)
        return 0.01

    return left


def test_results_and_errors_come_in_the_order_of_the_jobs():
    def fail(_ticket):
        raise SourceUnavailable("down")

    def crash(_ticket):
        raise ValueError("secret")

    found = ask_each([lambda _: 1, fail, crash, lambda _: 4], width=2, left=left_of(30))
    assert (found[0], found[3]) == (1, 4)
    assert [type(one) for one in found[1:3]] == [SourceUnavailable, SourceUnavailable]
    assert "secret" not in str(found[2])


def test_where_no_thread_can_be_started_every_call_is_busy(monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(EXECUTOR, "_idle", [])
    found = ask_each([lambda _: 1] * 2, width=2, left=left_of(30))
    assert [(type(one), str(one)) for one in found] == [(SourceBusy, "no thread could be started")] * 2


def test_what_hangs_gives_its_connection_back_and_the_rest_is_told_apart():
    queue, held, hold = FairQueue(), threading.Event(), threading.Event()

    def hang(ticket):
        ticket.hold(queue.enter(1, ticket.flow, 1.0))
        held.set()
        hold.wait(30)

    found = ask_each([hang, lambda _: 2], width=1, left=until(held))
    assert [type(one) for one in found] == [SourceTimeout, SourceTimeout]
    assert str(found[0]) == "no answer within 30 s"
    assert str(found[1]) == "not asked within 30 s: other datasets took all of it"
    queue.enter(1, Ticket(left_of(1)).flow, 0.0).release()  # the place is free though the call still hangs
    hold.set()


def test_a_slot_taken_after_nobody_waits_is_given_back_at_once():
    queue, asked, late, done = FairQueue(), threading.Event(), threading.Event(), threading.Event()

    def slow(ticket):
        asked.set()
        late.wait(30)
        ticket.hold(queue.enter(1, ticket.flow, 1.0))
        done.set()

    (found,) = ask_each([slow], width=1, left=until(asked))
    assert isinstance(found, SourceError)
    late.set()
    assert done.wait(30)
    queue.enter(1, Ticket(left_of(1)).flow, 0.0).release()
