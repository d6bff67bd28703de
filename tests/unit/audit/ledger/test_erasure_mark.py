"""The mark of a ledger is new after every erasure, and after nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.erasure_mark import ErasureMark
from context_engine.audit.ledger.ledger import Ledger
from context_engine.errors import AuditError, LedgerNotFound
from context_engine.testing.fakes import FixedClock

Searches = Callable[..., Any]


def erase_question(ledger: Ledger, record_id: str, *, dry_run: bool = False) -> None:
    wanted = Wanted(record_ids=(record_id,))
    erase(ledger, wanted, reason="request of the person", by="data protection", clock=FixedClock(), dry_run=dry_run)


def test_only_an_erasure_makes_a_new_mark(ledger: Ledger, searched: Searches) -> None:
    mark = ErasureMark(lambda: ledger, FixedClock())
    first, second = searched(ledger, "Who approves?", "Which limit applies?")
    erase_question(ledger, first.search_id, dry_run=True)
    assert mark.read() == ""
    marks = []
    for record_id in (first.search_id, first.search_id, second.search_id):
        erase_question(ledger, record_id)
        marks.append(mark.read())
    assert all(marks) and len({*marks}) == 3
    searched(ledger, "Who approves?")
    assert mark.read() == marks[-1]


def test_without_a_ledger_nothing_was_erased(tmp_path: Path) -> None:
    def missing() -> Ledger:
        raise LedgerNotFound("there is none")

    mark = ErasureMark(missing, FixedClock())
    assert (mark.read(), mark.read()) == ("", "")
    mark.close()


def test_a_ledger_that_cannot_be_read_tells_nothing_and_is_left_alone() -> None:
    calls = []

    def failing() -> Ledger:
        calls.append(1)
        raise AuditError("no answer")

    mark = ErasureMark(failing, FixedClock())
    assert [mark.read() for _ in range(5)] == [None] * 5
    assert len(calls) == 3
