"""The receivers of events that a configuration names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.events.webhook import OUTBOX, Outbox
from context_engine.core.models import Event
from context_engine.errors import ConfigError
from context_engine.secrecy import hide
from context_engine.service.deployment import DeploymentEvents
from context_engine.settings import find_config
from context_engine.settings.environment_secrets import WEBHOOK_KEY, read_webhook_key
from context_engine.wiring.check import check
from context_engine.wiring.events import EventSinks, open_events, waiting_events
from context_engine.wiring.setup import Setup, load_setup

EVENT = Event("e1", "answer_changed", "s1", datetime(2026, 3, 2, tzinfo=UTC), {})
KEY = "ZmljdGl0aW91cyBrZXkgb2YgYSB0ZXN0IDQ3MTE="


def setup_in(folder: Path, sinks: dict[str, Any], **env: str) -> Setup:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config/rag-pipeline.json").write_text(json.dumps({"events": {"event_sinks": sinks}}))
    (folder / "config/connections.yaml").write_text(json.dumps({"hooks": {"base_url": "https://hooks.bank.example/e"}}))
    return load_setup(config_dir=folder, env={"HOME": str(folder), **env}, cwd=folder)


def test_the_sinks_of_the_setting_get_each_event(tmp_path: Path) -> None:
    setup = setup_in(tmp_path, {"file": {"path": str(tmp_path / "a.jsonl")}}, CONTEXT_ENGINE_EVENT_SOURCE="bank-1")
    events = open_events(setup)
    assert events
    events.send(EVENT)
    events.close()
    assert json.loads((tmp_path / "a.jsonl").read_text())["source"] == "bank-1"
    assert not open_events(setup_in(tmp_path, {}))


@pytest.mark.parametrize(
    ("sinks", "problem"),
    [
        ({"pager": {}}, "event_sinks.pager: unknown event sink 'pager'. Installed: file, webhook"),
        ({"file": {"path": "events.jsonl"}}, "event_sinks.file.path: 'events.jsonl' is relative"),
        ({"webhook": {"connection": "hooks"}}, f"{WEBHOOK_KEY}: events are signed, and there is no key"),
    ],
)
def test_a_sink_that_cannot_be_opened_is_named_and_config_check_finds_it(
    tmp_path: Path, sinks: dict[str, Any], problem: str
) -> None:
    setup = setup_in(tmp_path, sinks)
    with pytest.raises(ConfigError, match=problem.replace(".", r"\.")):
        open_events(setup)
    env = {"HOME": str(tmp_path)}
    report = check(find_config(tmp_path, env=env, cwd=tmp_path), env=env)
    assert any(problem in str(each) for each in report.problems)
    assert not any("is used by nothing" in notice.message for notice in report.notices if "webhook" in sinks)


def test_a_deployment_opens_its_receivers_once_and_anew_after_a_close(tmp_path: Path) -> None:
    events = DeploymentEvents(setup_in(tmp_path, {"file": {"path": str(tmp_path / "a.jsonl")}}), tmp_path / "d")
    opened = events.opened()
    assert events.opened() is opened
    opened.send(EVENT)
    events.close()
    events.close()
    assert events.opened() is not opened
    assert (tmp_path / "a.jsonl").read_text().count("\n") == 1


def test_events_that_wait_are_counted(tmp_path: Path) -> None:
    setup = setup_in(tmp_path, {})
    assert waiting_events(setup, tmp_path / "d") == 0
    Outbox(tmp_path / "d" / OUTBOX).put(EVENT, "{}")
    assert waiting_events(setup, tmp_path / "d") == 1


class Failing:
    """A bank's own sink that fails."""

    def send(self, event: Event) -> None:
        raise RuntimeError("with a secret in its text")

    def close(self) -> None: ...


class Keeping:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def send(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None: ...


def test_a_sink_that_fails_does_not_keep_the_event_from_the_others() -> None:
    keeping = Keeping()
    with pytest.raises(ConfigError, match="event e1 was not taken by own: failed with RuntimeError") as refused:
        EventSinks({"own": Failing(), "other": keeping}).send(EVENT)
    assert keeping.events == [EVENT]
    assert "secret" not in str(refused.value)


def test_the_key_is_base64_with_or_without_the_prefix_of_the_standard_and_is_never_shown(tmp_path: Path) -> None:
    assert read_webhook_key({}, tmp_path) is None
    for written in (KEY, f"whsec_{KEY}"):
        assert read_webhook_key({WEBHOOK_KEY: written}, tmp_path) == b"fictitious key of a test 4711"
    assert KEY not in hide(f"a log line with {KEY}")
    for wrong in ("c2hvcnQ=", "not base64 at all", KEY[1:]):
        with pytest.raises(ConfigError, match="24 to 64 random bytes in base64"):
            read_webhook_key({WEBHOOK_KEY: wrong}, tmp_path)
