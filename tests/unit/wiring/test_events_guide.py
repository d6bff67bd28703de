"""The guide to events: its settings are valid, its receiver checks what is sent, its own sink works."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from context_engine.adapters.events import EventContext
from context_engine.adapters.events.webhook import signature
from context_engine.core.engine import SystemClock
from context_engine.core.models import Event
from context_engine.insight.rehearsal import AnswerState, AnswerText
from context_engine.insight.subscriptions import KeptSubscription, Subscription
from context_engine.insight.watching import event_of
from context_engine.settings.connections import Connection
from context_engine.settings.environment_secrets import read_webhook_key
from context_engine.wiring.setup import load_setup

GUIDE = Path(__file__).parents[3].joinpath("docs/guides/events.md").read_text(encoding="utf-8")
BLOCKS: dict[str, str] = dict(re.findall(r"^<!-- ([\w-]+) -->\n```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S))
KEY = "whsec_ZmljdGl0aW91cyBrZXkgb2YgYSB0ZXN0IDQ3MTE="
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_the_event_of_the_guide_is_what_a_change_sends() -> None:
    published = json.loads(BLOCKS["event"])
    data = published["data"]
    lost = tuple(AnswerText(**text) for text in data["lost"])
    subscription = Subscription(data["subscription"], "NPA", "analyst", "ana", "t", query=data["query"])
    kept = KeptSubscription(subscription, AnswerState("answered", lost))
    event = event_of(kept, AnswerState("answered", ()), lambda _source_id, _texts: None, NOW)
    assert event is not None and event.envelope(published["source"]) == published


def test_the_settings_of_the_guide_are_valid(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text(BLOCKS["sinks"])
    (tmp_path / "config/connections.yaml").write_text(BLOCKS["connection"])
    setup = load_setup(config_dir=tmp_path, env={"HOME": str(tmp_path)}, cwd=tmp_path)
    values = setup.resolver.base().values
    named = values.event_sinks["webhook"]["connection"]
    assert list(yaml.safe_load(BLOCKS["connection"])) == [named]
    assert isinstance(setup.config.connections.get(named), Connection)


def test_the_receiver_of_the_guide_takes_what_is_signed_and_nothing_else(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS["receiver"], names)
    key, body = read_webhook_key({"CONTEXT_ENGINE_WEBHOOK_KEY": KEY}, tmp_path), '{"id": "é"}'
    assert key is not None

    def is_genuine(at: int, **changed: str) -> bool:
        headers = {
            "webhook-id": "e1",
            "webhook-timestamp": str(at),
            "webhook-signature": signature(key, "e1", at, body),
        }
        received = changed.pop("body", body)
        return bool(names["is_genuine"](KEY, {**headers, **changed}, received.encode()))

    now = int(datetime.now(UTC).timestamp())
    assert is_genuine(now)
    assert not is_genuine(now - 3600), "too old"
    assert not is_genuine(now, body=body.replace("é", "è"))
    assert not is_genuine(now, **{"webhook-id": "e2"})
    assert not is_genuine(now, **{"webhook-timestamp": str(now - 1)})


def test_the_sink_of_the_guide_takes_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS["own-sink"], names)

    def no_connection(name: str) -> Connection:
        raise AssertionError(name)

    context = EventContext(
        connection=no_connection, webhook_key=lambda: None, data_dir=tmp_path, source="bank", clock=SystemClock()
    )
    sink = names["BusSink"]({"topic": "knowledge"}, context)
    sink.send(Event("e1", "answer_changed", "s1", NOW, {}))
    assert capsys.readouterr().out.startswith("knowledge {'specversion': '1.0', 'id': 'e1', 'source': 'bank'")
