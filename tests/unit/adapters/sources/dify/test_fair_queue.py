"""Who is next at a server, and who is told at once that it would be too late."""

from __future__ import annotations

import threading
import time

import pytest

from context_engine.adapters.sources.dify.fair_queue import FairQueue, Flow, Ticket, ask_each, finish_times
from context_engine.core.concurrency.calls import EXECUTOR
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, SourceUnavailable


class Server:
    """A queue with callers in threads; time stands still but while a call ends, and calls end when they are told to."""

    def __init__(self, most: int, **measured: float) -> None:
        self.queue, self.most, self.now = FairQueue(), most, 0.0
        self.running: dict[str, object] = {}
        self.order: list[str] = []
        self.refused: dict[str, SourceBusy] = {}
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        for key, seconds in measured.items():
            self.measure(key, seconds, times=3)

    def measure(self, key: str, seconds: float, *, times: int) -> None:
        for _ in range(times):
            self.queue.measured(key, seconds)

    def flow(self, left: float, *ahead: str, patient: bool = False) -> Flow:
        due = self.now + left
        return Flow(lambda: due - self.now, lambda: ahead, patient=patient)

    def ask(self, name: str, flow: Flow, key: str = "d") -> None:
        """Ask in a thread of its own; return when the call is let in, waits or was refused."""
        with self.queue._lock:
            waited = self.waiting
        thread = threading.Thread(target=self._ask, args=(name, flow, key), daemon=True)
        self.threads.append(thread)
        thread.start()
        until(lambda: name in self.running or name in self.refused or self.waiting > waited)

    def _ask(self, name: str, flow: Flow, key: str) -> None:
        try:
            slot = self.queue.enter(self.most, flow, 30.0, key)
        except SourceBusy as error:
            self.refused[name] = error
            return
        with self.lock:
            self.order.append(name)
            self.running[name] = slot

    @property
    def waiting(self) -> int:
        return sum(map(len, self.queue._waiting.values()))

    def end(self, name: str, after_s: float = 0.0) -> None:
        """End a call after some seconds; return when whoever is let in by that is in."""
        self.now += after_s
        others = len(self.running) - 1
        after = others + min(self.waiting, self.most - others)
        self.running.pop(name).release()
        until(lambda: len(self.running) >= after)

    def drain(self, each_s: float = 0.0) -> list[str]:
        """End the calls in the order in which they were let in, each after some seconds; return that order."""
        for place, name in enumerate(self.order):  # grows while it is gone through
            self.end(name, each_s)
            assert place < 1000
        for thread in self.threads:
            thread.join(30)
        return self.order


def until(reached) -> None:
    due = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < due, "it never came to that"
        time.sleep(0.0005)


def test_calls_that_are_done_one_after_the_other_on_each_connection():
    # two connections: 3 s | 1 + 1 s, then the second search's 2 s begins where one is free first, at 2 s
    assert finish_times([[3.0, 1.0, 1.0], [2.0]], 2) == [3.0, 4.0]
    assert finish_times([[1.0]], 2, busy=[5.0, 0.5]) == [1.5]


def test_searches_take_turns_however_many_calls_each_has():
    server = Server(1, d=0.1)
    many, one = server.flow(100.0), server.flow(100.0)
    for number in range(4):
        server.ask(f"many {number}", many)
    server.ask("one", one)
    assert server.drain() == ["many 0", "many 1", "one", "many 2", "many 3"]


def test_while_nothing_was_measured_nobody_is_refused_and_the_nearest_deadline_goes_first():
    server = Server(1)
    late, soon = server.flow(9.0), server.flow(3.0)
    server.ask("runs", server.flow(9.0))
    for number in range(3):
        server.ask(f"late {number}", late)
    server.ask("soon", soon)
    assert server.drain() == ["runs", "soon", "late 0", "late 1", "late 2"]


def test_slow_first_calls_after_a_start_refuse_nobody():
    # 5 s a call would mean 15 s for three calls and 4.5 s left; the third call is quick, and so is the median: 0.2 s
    server = Server(1)
    server.measure("d", 5.0, times=2)
    server.ask("runs", server.flow(9.0))
    for number in range(2):
        server.ask(f"early {number}", server.flow(4.5))
    assert server.refused == {}
    server.measure("d", 0.2, times=3)
    server.ask("late", server.flow(4.5))
    assert server.refused == {}
    assert server.queue.expected("d") == 0.2
    assert server.drain() == ["runs", "early 0", "early 1", "late"]


def test_the_nearest_deadline_goes_first_as_soon_as_it_is_only_just_in_time():
    # one connection, 1 s a call: after the one that runs, "late" would be done at 4 s of 9 and "soon" at 2 s of 2.5
    server = Server(1, d=1.0)
    late, soon = server.flow(9.0), server.flow(2.5)
    server.ask("runs", server.flow(9.0))
    for number in range(3):
        server.ask(f"late {number}", late)
    server.ask("soon", soon)
    assert server.drain(1.0) == ["runs", "soon", "late 0", "late 1", "late 2"]


def test_a_search_that_would_be_late_is_refused_at_once_and_told_when_to_come_again():
    # 1 s runs, 3 s wait: the next would be done at 5 s, and has 4.5 s
    server = Server(1, d=1.0)
    first = server.flow(4.2)
    server.ask("runs", server.flow(9.0))
    for number in range(3):
        server.ask(f"first {number}", first)
    server.ask("second", server.flow(4.5))
    error = server.refused["second"]
    assert error.retryable
    assert error.retry_after_s == 0.5
    assert "max_connections" in str(error) and "done in 5.0 s, and 4.5 s are left" in str(error)
    assert server.drain() == ["runs", "first 0", "first 1", "first 2"]


def test_what_a_search_has_yet_to_ask_counts():
    # alone, and after the 1 s that runs: 1 + 2 s ahead would be done at 4 s of 3.9; with one ahead at 3 s of 3.9
    server = Server(1, d=1.0)
    server.ask("runs", server.flow(9.0))
    server.ask("three", server.flow(3.9, "d", "d"))
    server.ask("two", server.flow(3.9, "d"))
    assert set(server.refused) == {"three"}
    assert server.drain() == ["runs", "two"]


def test_datasets_count_with_the_time_each_of_them_takes_and_an_unknown_one_with_the_mean():
    server = Server(1, fast=0.5, slow=3.5)
    server.ask("runs", server.flow(9.0), "fast")
    server.ask("slow", server.flow(3.9), "slow")  # 0.5 + 3.5 s
    server.ask("fast", server.flow(3.9), "fast")  # 0.5 + 0.5 s
    server.ask("unknown", server.flow(2.4), "new")  # 0.5 + 2.0 s
    assert set(server.refused) == {"slow", "unknown"}
    assert server.drain() == ["runs", "fast"]


def test_a_newcomer_that_would_make_an_admitted_search_late_is_refused():
    # 1 s runs, "first" is done at 4 s of 4.5; with "near" (2 s of 3.2) before it, at 5 s
    server = Server(1, d=1.0)
    first = server.flow(4.5)
    server.ask("runs", server.flow(9.0))
    for number in range(3):
        server.ask(f"first {number}", first)
    server.ask("near", server.flow(3.2))
    assert set(server.refused) == {"near"}
    assert server.drain() == ["runs", "first 0", "first 1", "first 2"]


def test_a_search_that_is_too_long_even_alone_is_not_refused_and_gets_what_the_others_leave():
    server = Server(1, d=1.0)
    server.ask("runs", server.flow(9.0))
    server.ask("endless", server.flow(2.5, "d", "d", "d"))  # 4 s of work, 2.5 s to do it in
    server.ask("soon", server.flow(2.5))  # done at 2 s of 2.5: it has a claim, and nothing to spare
    assert server.refused == {}
    assert server.drain(1.0) == ["runs", "soon", "endless"]


def test_what_waits_patiently_is_never_refused():
    server = Server(1, d=1.0)
    server.ask("runs", server.flow(9.0))
    server.ask("write", server.flow(0.5, patient=True))
    assert server.refused == {}
    assert server.drain() == ["runs", "write"]


def test_searches_that_were_let_in_by_a_wrong_guess_are_refused_before_anything_is_done_for_them():
    # three calls took 0.1 s, so five searches of two calls are let in; then four take 1.1 s, the median of all seven:
    # the search that was begun and three others are done at 1.1, 3.3, 5.5, 7.7 s; what is left is 7 s, and a tenth is
    # forgiven
    server = Server(1, d=0.1)
    searches = [server.flow(7.0) for _ in range(5)]
    server.ask("0 first", searches[0])
    server.ask("0 second", searches[0])
    for number, one in enumerate(searches[1:], 1):
        server.ask(f"{number} first", one)
        server.ask(f"{number} second", one)
    assert server.refused == {}
    server.measure("d", 1.1, times=4)
    server.end("0 first")
    until(lambda: len(server.refused) == 2)
    assert set(server.refused) == {"4 first", "4 second"}
    server.order.remove("0 first")
    assert len(server.drain()) == 7


def test_no_more_than_allowed_run_and_a_slot_is_given_back_once():
    server, queue = Server(2), FairQueue()
    first, second = (queue.enter(2, server.flow(1.0), 0.0) for _ in range(2))
    with pytest.raises(SourceBusy, match="all 2 connections"):
        queue.enter(2, server.flow(1.0), 0.0)
    first.release()
    first.release()
    third = queue.enter(2, server.flow(1.0), 0.0)
    with pytest.raises(SourceBusy):
        queue.enter(2, server.flow(1.0), 0.0)
    second.release()
    third.release()
    assert not queue._running and not queue._waiting


def test_a_place_is_not_lost_on_a_caller_who_may_not_take_it():
    server = Server(2)
    server.ask("a", server.flow(9.0))
    server.ask("b", server.flow(9.0))
    server.most = 1
    server.ask("alone", server.flow(9.0))
    server.most = 2
    server.ask("beside", server.flow(9.0))
    server.running.pop("a").release()
    until(lambda: "beside" in server.running)  # at once, though the one who wants to be alone came before
    assert "alone" not in server.running
    for name in ("b", "beside"):
        server.running.pop(name).release()
    until(lambda: "alone" in server.running)
    server.running.pop("alone").release()


def left_of(seconds):
    due = time.monotonic() + seconds
    return lambda: due - time.monotonic()


def time_left_until(reached):
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

    found = ask_each([hang, lambda _: 2], width=1, left=time_left_until(held))
    assert [type(one) for one in found] == [SourceTimeout, SourceTimeout]
    assert str(found[0]) == "no answer within 30 s"
    assert str(found[1]) == "not asked within 30 s: other datasets used up the time"
    queue.enter(1, Ticket(left_of(1)).flow, 0.0).release()  # the place is free though the call still hangs
    hold.set()


def test_a_call_whose_turn_came_late_was_not_slow_but_the_server_busy():
    """Of 30 s only 0.01 were left when the turn came: less than half."""
    queue, asked, over = FairQueue(), threading.Event(), threading.Event()

    def queued(ticket):
        asked.set()
        over.wait(30)

    (found,) = ask_each([queued], width=1, left=time_left_until(asked))
    over.set()
    assert isinstance(found, SourceBusy)
    assert str(found) == "its turn came too late, no answer within 30 s (max_connections)"
    ticket = Ticket(lambda: 14.0, allowed_s=30.0)
    ticket.hold(queue.enter(1, ticket.flow, 0.0))
    assert ticket.waited_long
    early = Ticket(lambda: 15.0, allowed_s=30.0)
    early.hold(queue.enter(2, early.flow, 0.0))
    assert not early.waited_long


def test_a_slot_taken_after_nobody_waits_is_given_back_at_once():
    queue, asked, late, done = FairQueue(), threading.Event(), threading.Event(), threading.Event()

    def slow(ticket):
        asked.set()
        late.wait(30)
        ticket.hold(queue.enter(1, ticket.flow, 1.0))
        done.set()

    (found,) = ask_each([slow], width=1, left=time_left_until(asked))
    assert isinstance(found, SourceError)
    late.set()
    assert done.wait(30)
    queue.enter(1, Ticket(left_of(1)).flow, 0.0).release()
