"""The writer of a ledger: what it has acknowledged is there, and what is not there is accounted for."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from context_engine.audit.recorder import LedgerWriter
from context_engine.audit.recorder.jobs import Drafts
from context_engine.audit.values import Draft
from context_engine.core.engine import SystemClock
from context_engine.errors import AuditUnavailable
from tests.unit.audit.recorder.doubles import FakeLedger, draft_of


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
def writer(ledger: FakeLedger) -> Iterator[LedgerWriter]:
    made = LedgerWriter(ledger.open, clock=SystemClock(), place="test ledger")
    yield made
    ledger.down = False
    ledger.open_gate.set()
    made.close(5)


def named(record_id: str) -> Callable[[Drafts], Draft]:
    return lambda _: draft_of(record_id)


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def unfit(_: Drafts) -> Draft:
    raise ValueError("secret words of a question")


class TestRequired:
    def test_what_write_returns_from_is_in_the_ledger(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        writer.write(named("a"), 5)
        assert ledger.kept == ["a"]

    def test_what_waits_together_becomes_one_transaction(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.open_gate.clear()
        with ThreadPoolExecutor(20) as pool:
            calls = [pool.submit(writer.write, named(str(number)), 5) for number in range(20)]
            time.sleep(0.1)
            ledger.open_gate.set()
            for call in calls:
                call.result()
        assert sorted(ledger.kept, key=int) == [str(number) for number in range(20)]
        assert len(ledger.transactions) <= 4, "the first one, and the nineteen that came meanwhile"
        assert ledger.threads == {"context-engine-audit"}

    def test_a_ledger_that_is_down_refuses_at_once_and_says_why(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.down = True
        started = time.monotonic()
        with pytest.raises(AuditUnavailable, match="the ledger is down"):
            writer.write(named("a"), 5)
        assert time.monotonic() - started < 2
        ledger.down = False
        writer.write(named("b"), 5)
        assert ledger.kept == ["b"], "a record of what was not given out is not written later"

    def test_a_ledger_that_hangs_refuses_when_the_time_is_over(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.open_gate.clear()
        with ThreadPoolExecutor(1) as pool:
            stuck = pool.submit(writer.write, named("a"), 5)
            until(lambda: ledger.opened == 1)
            with pytest.raises(AuditUnavailable, match=r"within 0\.05 s"):
                writer.write(named("b"), 0.05)
            ledger.open_gate.set()
            stuck.result()
        assert ledger.kept == ["a"]

    def test_a_record_that_cannot_be_made_fails_alone(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.open_gate.clear()
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(writer.write, named("a"), 5)
            until(lambda: ledger.opened == 1)
            bad, good = pool.submit(writer.write, unfit, 5), pool.submit(writer.write, named("b"), 5)
            ledger.open_gate.set()
            first.result()
            good.result()
            with pytest.raises(AuditUnavailable) as error:
                bad.result()
        assert "secret words" not in str(error.value)
        assert sorted(ledger.kept) == ["a", "b"]

    def test_a_record_that_the_ledger_refuses_fails_alone(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.unfit = {"b"}
        ledger.open_gate.clear()
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(writer.write, named("a"), 5)
            until(lambda: ledger.opened == 1)
            others = [pool.submit(writer.write, named(name), 5) for name in "bc"]
            until(lambda: len(writer._awaited) == 2)
            ledger.open_gate.set()
            first.result()
            others[1].result()
            with pytest.raises(AuditUnavailable, match="ValueError"):
                others[0].result()
        assert ledger.kept == ["a", "c"]


class TestBestEffort:
    def test_an_offer_is_written_soon_and_nobody_waits(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.open_gate.clear()
        started = time.monotonic()
        for number in range(100):
            writer.offer(named(str(number)), 1000)
        assert time.monotonic() - started < 0.5
        ledger.open_gate.set()
        until(lambda: len(ledger.kept) == 100)
        assert len(ledger.transactions) <= 3

    def test_what_finds_the_buffer_full_is_lost_and_the_ledger_says_so(
        self, ledger: FakeLedger, writer: LedgerWriter, caplog: pytest.LogCaptureFixture
    ) -> None:
        ledger.down = True
        with caplog.at_level(logging.WARNING):
            for number in range(10):
                writer.offer(named(str(number)), 4)
        assert writer.lost == 6, "ten came, four wait"
        assert len([one for one in caplog.records if "not recorded" in one.getMessage()]) == 1, "once a burst"
        ledger.down = False
        until(lambda: "loss of 6" in ledger.kept)
        assert ledger.kept == ["0", "1", "2", "3", "loss of 6"]

    def test_a_ledger_that_is_down_at_the_start_is_tried_again(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.down = True
        writer.offer(named("a"), 10)
        time.sleep(0.1)
        assert ledger.kept == []
        ledger.down = False
        until(lambda: ledger.kept == ["a"])

    def test_the_order_outlives_a_failure(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        writer.offer(named("0"), 10)
        until(lambda: ledger.kept == ["0"])
        ledger.down = True
        for number in range(1, 6):
            writer.offer(named(str(number)), 10)
        time.sleep(0.1)
        ledger.down = False
        until(lambda: len(ledger.kept) == 6)
        assert ledger.kept == ["0", "1", "2", "3", "4", "5"]

    def test_a_record_that_cannot_be_made_is_a_loss(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        writer.offer(unfit, 10)
        until(lambda: ledger.kept == ["loss of 1"])
        assert writer.lost == 1

    def test_a_record_that_is_awaited_does_not_wait_for_a_pause(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        ledger.down = True
        writer.offer(named("a"), 10)
        until(lambda: writer._problem != "")
        ledger.down = False
        started = time.monotonic()
        writer.write(named("b"), 5)
        assert time.monotonic() - started < 0.2
        until(lambda: set(ledger.kept) == {"a", "b"})


class TestClosing:
    def test_what_waits_is_written_then_integrated_then_closed(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        writer.offer(named("a"), 10)
        writer.close(5)
        assert ledger.kept == ["a"]
        assert ledger.calls == ["append", "added 1", "integrate", "last checkpoint", "close"]

    def test_a_later_record_opens_the_ledger_again(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        writer.write(named("a"), 5)
        writer.close(5)
        writer.write(named("b"), 5)
        assert ledger.kept == ["a", "b"]
        assert ledger.opened == 2

    def test_a_ledger_that_is_down_does_not_hold_the_end_up(
        self, ledger: FakeLedger, writer: LedgerWriter, caplog: pytest.LogCaptureFixture
    ) -> None:
        ledger.down = True
        writer.offer(named("a"), 10)
        started = time.monotonic()
        writer.close(5)
        assert time.monotonic() - started < 2
        assert "1 search is not recorded" in caplog.text

    def test_a_ledger_that_hangs_holds_it_up_no_longer_than_said(
        self, ledger: FakeLedger, writer: LedgerWriter
    ) -> None:
        ledger.open_gate.clear()
        writer.offer(named("a"), 10)
        started = time.monotonic()
        writer.close(0.1)
        assert time.monotonic() - started < 1

    def test_closing_what_was_never_used_does_nothing(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        writer.close(5)
        assert ledger.opened == 0

    def test_a_record_offered_while_the_ledger_closes_is_written(
        self, ledger: FakeLedger, writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        close, late = ledger.close, ["late"]

        def closing() -> None:
            close()
            if late:
                writer.offer(named(late.pop()), 10)

        monkeypatch.setattr(ledger, "close", closing)
        writer.offer(named("early"), 10)
        assert writer.close(5) == ""
        assert sorted(ledger.kept) == ["early", "late"]

    def test_nothing_is_lost_between_writing_and_closing(self, ledger: FakeLedger, writer: LedgerWriter) -> None:
        def search(number: int) -> None:
            writer.write(named(f"w{number}"), 5)
            writer.offer(named(f"o{number}"), 1000)

        with ThreadPoolExecutor(8) as pool:
            done = [pool.submit(search, number) for number in range(60)]
            for _ in range(5):
                writer.close(5)
            for one in done:
                one.result()
        writer.close(5)
        assert sorted(ledger.kept) == sorted([f"w{n}" for n in range(60)] + [f"o{n}" for n in range(60)])


def test_pending_records_get_their_place_when_nothing_comes(ledger: FakeLedger, writer: LedgerWriter) -> None:
    writer.write(named("a"), 5)
    until(lambda: "integrate" in ledger.calls)
    assert sorted(ledger.kept) == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_its_own_records_and_none_of_its_parents(
    ledger: FakeLedger, writer: LedgerWriter
) -> None:
    ledger.open_gate.clear()
    writer.offer(named("parent's"), 10)
    until(lambda: ledger.opened == 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ledger.open_gate = threading.Event()
            ledger.open_gate.set()
            writer.write(named("child's"), 5)
            writer.close(5)
            code = 0 if ledger.kept == ["child's"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.open_gate.set()
    writer.close(5)
    assert ledger.kept == ["parent's"]


def test_a_hundred_threads_lose_nothing(ledger: FakeLedger, writer: LedgerWriter) -> None:
    with ThreadPoolExecutor(100) as pool:
        list(pool.map(lambda number: partial(writer.write, named(str(number)), 5)(), range(500)))
    assert sorted(map(int, ledger.kept)) == list(range(500))
