"""A look at a subscription: the difference as an event, told once, whatever happens in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Event
from context_engine.errors import ConfigError, InvalidRequest, SourceUnavailable
from context_engine.insight import watching
from context_engine.insight.rehearsal import AnswerState, AnswerText
from context_engine.insight.subscriptions import KeptSubscription, Subscription, keep, kept_subscriptions
from context_engine.insight.watching import Watch, event_of

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
QUESTION = Subscription("q1", "NPA", "analyst", "ana", "t", query="Who approves?")
DOCUMENT = Subscription("d1", "NPA", "analyst", "ana", "t", source_id="sops", document_id="SOP-1")


def text(words: str, place: int = 0) -> AnswerText:
    return AnswerText("sops", f"SOP-1#{place}", "SOP-1", "1", words)


def shown(*words: str, decision: str = "") -> AnswerState:
    return AnswerState(decision, tuple(text(each, place) for place, each in enumerate(words)))


def no_records(source_id: str, texts: Sequence[AnswerText]) -> None:
    return None


def document_event(before: AnswerState, after: AnswerState) -> Event | None:
    return event_of(KeptSubscription(DOCUMENT, before), after, no_records, NOW)


def test_a_document_tells_its_texts_and_the_answers_that_showed_the_old_ones() -> None:
    asked: list[tuple[str, list[str]]] = []

    def showing(source_id: str, texts: Sequence[AnswerText]) -> list[str]:
        asked.append((source_id, [each.sha256 for each in texts]))
        return [f"r{number}" for number in range(150)]

    kept = KeptSubscription(DOCUMENT, shown("a", "b", "c", "d"), changes=2)
    event = event_of(kept, shown("a", "B", "c", "e", "f"), showing, NOW)
    assert event is not None
    assert (event.event_id, event.kind, event.subject, event.time) == ("d1-3", "document_changed", "d1", NOW)
    data = event.data
    assert [(each["before"]["sha256"], each["after"]["sha256"]) for each in data["changed"]] == [("b", "B"), ("d", "e")]
    assert [each["sha256"] for each in data["added"]] == ["f"] and data["removed"] == []
    assert asked == [("sops", ["b", "d"])]
    assert data["answers_that_showed_it"]["count"] == 150 and len(data["answers_that_showed_it"]["record_ids"]) == 100
    assert (data["source_id"], data["document_id"], data["principal"]) == ("sops", "SOP-1", "analyst")


def test_a_document_that_is_gone_loses_every_text() -> None:
    event = document_event(shown("a", "b"), shown())
    assert event is not None and len(event.data["removed"]) == 2
    assert event.data["answers_that_showed_it"] is None, "nothing is recorded"
    assert document_event(shown("a"), AnswerState("", (text("a", 7),))) is None, "the same words under another id"


@given(before=st.lists(st.sampled_from("abcd"), max_size=8), after=st.lists(st.sampled_from("abcd"), max_size=8))
def test_every_text_of_a_document_is_unchanged_or_told(before: list[str], after: list[str]) -> None:
    event = document_event(shown(*before), shown(*after))
    if event is None:
        assert before == after
        return
    data = event.data
    old, new = len(data["removed"]) + len(data["changed"]), len(data["added"]) + len(data["changed"])
    assert before != after and len(before) - old == len(after) - new >= 0
    assert all(pair["before"]["sha256"] != pair["after"]["sha256"] for pair in data["changed"])


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (shown("a", decision="answered"), shown(decision="no_match"), "decision"),
        (shown("a", "b", decision="answered"), shown("a", "c", decision="answered"), "lost"),
        (shown("a", decision="answered"), shown("a", "c", decision="answered"), "gained"),
        (shown("a", "b", decision="answered"), shown("b", "a", decision="answered"), "order"),
        (shown("a", "b", decision="answered"), shown("a", "b", decision="answered"), None),
    ],
)
def test_a_question_tells_the_gravest_change(before: AnswerState, after: AnswerState, change: str | None) -> None:
    event = event_of(KeptSubscription(QUESTION, before), after, no_records, NOW)
    assert (event and event.data["change"]) == change
    if event is not None:
        assert event.kind == "answer_changed" and event.data["query"] == "Who approves?"
        assert event.data["decisions"] == [before.decision, after.decision]


class Sinks:
    """Takes events, or fails."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.broken = False

    def send(self, event: Event) -> None:
        if self.broken:
            raise ConfigError("the disk is full")
        self.sent.append(event.event_id)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    keep(tmp_path / "s.jsonl", KeptSubscription(DOCUMENT, shown("a")))
    return tmp_path / "s.jsonl"


def look(file: Path, sinks: Sinks, *words: str) -> tuple[str | None, str]:
    watch = Watch(file, lambda _subscription: shown(*words), no_records, sinks.send)
    looked = watch.look(kept_subscriptions(file)["d1"])
    return looked.event and looked.event.event_id, looked.problem


def test_the_same_change_is_told_once_and_the_way_back_is_another(file: Path) -> None:
    sinks = Sinks()
    for words in ("a", "b", "b", "a", "b"):
        look(file, sinks, words)
    assert sinks.sent == ["d1-1", "d1-2", "d1-3"]


def test_what_could_not_be_delivered_is_sent_at_the_next_look(file: Path) -> None:
    sinks = Sinks()
    sinks.broken = True
    assert look(file, sinks, "b") == ("d1-1", "the disk is full")
    assert look(file, sinks, "c") == ("d1-1", "the disk is full"), "the first change comes first"
    sinks.broken = False
    assert look(file, sinks, "c") == ("d1-2", "")
    assert sinks.sent == ["d1-1", "d1-2"]


def test_a_look_that_is_killed_before_its_last_line_sends_the_same_event_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks, states = Sinks(), list[bool]()

    def killed(path: Path, kept: KeptSubscription) -> None:
        if kept.delivered:
            raise KeyboardInterrupt
        states.append(kept.delivered)
        keep(path, kept)

    with monkeypatch.context() as patched:
        patched.setattr(watching, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            look(file, sinks, "b")
    assert states == [False]
    assert look(file, sinks, "b") == ("d1-1", "")
    assert sinks.sent == ["d1-1", "d1-1"], "one id, by which the receiver knows it"
    assert look(file, sinks, "b") == (None, "")


def test_what_cannot_be_looked_at_is_a_problem_and_no_event(file: Path) -> None:
    def away(_subscription: Subscription) -> AnswerState:
        raise SourceUnavailable("it did not answer")

    looked = Watch(file, away, no_records, Sinks().send).look(kept_subscriptions(file)["d1"])
    assert (looked.event, looked.problem) == (None, "it did not answer")
    assert looked.to_dict() == {"subscription": "d1", "event": None, "problem": "it did not answer"}
    assert kept_subscriptions(file)["d1"].shown == shown("a")


def test_a_principal_who_is_gone_sees_nothing() -> None:
    from context_engine.settings.principals import NO_PRINCIPALS

    with pytest.raises(InvalidRequest, match="principal 'analyst' is no longer in"):
        watching.shown_now(None, NO_PRINCIPALS, DOCUMENT)  # type: ignore[arg-type]
