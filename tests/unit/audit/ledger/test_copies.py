"""Copies of a ledger: what they hold, what was erased since, and erasing it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.audit.checks.verify import Outside, verify
from context_engine.audit.ledger.copies import (
    copy_ledger,
    erased_digests,
    exported_erasures,
    opened_copy,
    read_contents,
)
from context_engine.audit.ledger.erase import Wanted, erase, erase_again
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.values import Addendum, Draft
from context_engine.errors import AuditError
from context_engine.testing.fakes import FixedClock

CLOCK = FixedClock()
QUESTION = Addendum("question", b"0123456789abcdef", b"a fictitious question")


@pytest.fixture
def live(open_at: Callable[..., Ledger], draft: Callable[..., Draft], tmp_path: Path) -> Ledger:
    """A signed log of two records, one with a question, and a checkpoint."""
    ledger = open_at(tmp_path / "live.db")
    enter_key(ledger, ledger.keyring, CLOCK)
    ledger.append([draft("a", addenda=(QUESTION,)), draft("b")])
    ledger.checkpoint()
    return ledger


@pytest.fixture
def copy(live: Ledger, tmp_path: Path) -> Path:
    copy_ledger(tmp_path / "live.db", tmp_path / "copy.db")
    return tmp_path / "copy.db"


def test_a_copy_holds_the_head_of_its_moment(live: Ledger, draft: Callable[..., Draft], copy: Path) -> None:
    size, root = live.size, live.root().hex()
    live.append([draft("c")])
    live.integrate()
    copied = opened_copy(copy, CLOCK)
    contents = read_contents(copied)
    copied.close()
    assert (contents.size, contents.root, contents.pending) == (size, root, 0) and live.size == size + 1
    assert contents.checkpoint == live.checkpoints(newest=1)[0].note
    assert [file.name for file in copy.parent.glob("copy.db*")] == ["copy.db"], "reading writes nothing"


def test_what_was_erased_since_is_erased_again_and_stays_sound(
    live: Ledger, copy: Path, open_at: Callable[..., Ledger]
) -> None:
    erase(live, Wanted(record_ids=("a",)), reason="requested", by="dpo", clock=CLOCK)
    since = erased_digests(live)
    assert since == {QUESTION.digest}
    restored = open_at(copy)
    head = Outside("head", read_contents(restored).checkpoint or "")
    assert restored.addendum(QUESTION.digest) == QUESTION
    done = erase_again(restored, since, reason="restored", by="ops", clock=CLOCK)
    assert (done.questions, done.texts, done.records, len(done.record_ids)) == (1, 0, 0, 1)
    assert restored.addendum(QUESTION.digest) is None and QUESTION.data not in copy.read_bytes()
    assert verify(restored, outside=[head]).consistent
    assert erase_again(restored, since, reason="restored", by="ops", clock=CLOCK).record_ids == ()


def test_a_signed_copy_is_not_erased_in_without_its_key(copy: Path, open_at: Callable[..., Ledger]) -> None:
    with pytest.raises(AuditError, match="CONTEXT_ENGINE_AUDIT_KEY"):
        erase_again(open_at(copy, None), [QUESTION.digest], reason="restored", by="ops", clock=CLOCK)


def test_an_export_names_what_was_erased(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    lines = [
        {"index": 0, "leaf": "00", "entry": {"kind": "search", "id": "a"}},
        {"index": 1, "leaf": "00", "entry": None},
        {"index": 2, "leaf": "00", "entry": {"kind": "erasure", "digests": ["ab" * 32, "cd" * 32]}},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert exported_erasures(file) == {b"\xab" * 32, b"\xcd" * 32}
    file.write_text('{"another": "file"}\n')
    with pytest.raises(ValueError, match="export"):
        exported_erasures(file)


def test_a_ledger_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"none\.db cannot be copied"):
        copy_ledger(tmp_path / "none.db", tmp_path / "copy.db")
