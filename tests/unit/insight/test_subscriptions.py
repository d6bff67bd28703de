"""Subscriptions in their file: the last line counts, a cancelled one is gone, and nobody else reads it."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from context_engine.core.models import Event
from context_engine.errors import ConfigError, StoreLocked
from context_engine.insight.rehearsal import AnswerState, AnswerText
from context_engine.insight.subscriptions import (
    KeptSubscription,
    Subscription,
    cancel,
    keep,
    kept_subscriptions,
    locked,
    new_id,
)

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
SHOWN = AnswerState(
    "answered", (AnswerText("sops", "SOP-1#2", "SOP-1", "2", "aa"), AnswerText("web", "x", None, None, "bb"))
)
QUESTION = Subscription(
    "q1", "NPA", "analyst", "ana", "2026-03-01T00:00:00Z", query="Wer genehmigt?", persona="auditor"
)
DOCUMENT = Subscription("d1", "NPA", "", "ana", "2026-03-01T00:00:00Z", source_id="sops", document_id="SOP-1")


def test_what_was_kept_comes_back_and_the_last_line_counts(tmp_path: Path) -> None:
    file = tmp_path / "d" / "subscriptions.jsonl"
    assert kept_subscriptions(file) == {}
    event = Event("q1-1", "answer_changed", "q1", NOW, {"lost": []})
    first, last = KeptSubscription(QUESTION, SHOWN), KeptSubscription(QUESTION, SHOWN, 1, event, delivered=False)
    document = KeptSubscription(DOCUMENT, SHOWN._replace(decision=""))
    for kept in (first, document, last):
        keep(file, kept)
    assert kept_subscriptions(file) == {"q1": last, "d1": document}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    cancel(file, "q1")
    assert kept_subscriptions(file) == {"d1": document}
    assert "genehmigt" not in file.read_text("utf-8"), "the words of the question are gone"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and [*file.parent.iterdir()] == [file]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "new" / "subscriptions.jsonl"
    with locked(file), pytest.raises(StoreLocked, match="is being written to"):
        locked(file)
    locked(file).release()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        locked(tmp_path / "file" / "subscriptions.jsonl")


def test_it_is_named_by_its_question_or_its_document() -> None:
    assert (QUESTION.subject, DOCUMENT.subject) == ("Wer genehmigt?", "sops/SOP-1")
    assert new_id() != new_id()


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    for line in ("{", '{"subscription_id": "a"}', "[]"):
        file.write_text(f"{line}\n")
        with pytest.raises(ConfigError, match="line 1 is no subscription: remove it"):
            kept_subscriptions(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        kept_subscriptions(tmp_path)
