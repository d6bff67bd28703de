"""Events sent to a web hook: signed, kept until they are taken, never waited for."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

from context_engine.adapters.events import EventContext, webhook
from context_engine.adapters.events.webhook import OUTBOX, Outbox, WebHook, open_webhook, signature
from context_engine.adapters.http import Backoff
from context_engine.core.engine import SystemClock
from context_engine.core.models import Event
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection

HOOK = "https://hooks.bank.example/context-engine/events"
KEY = b"fictitious key of a test" * 2
AT = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_BACKOFF", Backoff(first_s=0.001, most_s=0.001))


def event(number: int = 1) -> Event:
    return Event(f"e{number}", "answer_changed", "s1", AT + timedelta(seconds=number), {"lost": number})


def hook(folder: Path, *, key: bytes | None = KEY, url: str = HOOK, **options: Any) -> WebHook:
    connection = Connection.model_validate({"base_url": url})
    context = EventContext(
        connection=lambda name: connection,
        webhook_key=lambda: key,
        data_dir=folder,
        source="bank",
        clock=SystemClock(),
    )
    return open_webhook({"connection": "hooks", **options}, context)


def ids(route: respx.Route) -> list[str]:
    return [json.loads(call.request.content)["id"] for call in route.calls]


def is_genuine(key: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    """Check a message as Standard Webhooks say, without the code under test."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(expected, headers["webhook-signature"])


def test_an_event_is_posted_to_the_address_of_the_connection_and_signed(
    tmp_path: Path, respx_mock: respx.MockRouter
) -> None:
    route = respx_mock.post(HOOK).mock(return_value=httpx.Response(204))
    sink = hook(tmp_path)
    sink.send(event())
    sink.close()
    request = route.calls.last.request
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert request.headers["webhook-id"] == "e1" == json.loads(request.content)["id"]
    assert is_genuine(KEY, request.headers, request.content)
    assert not is_genuine(KEY, request.headers, request.content.replace(b"1", b"2"))
    assert not is_genuine(KEY[1:], request.headers, request.content)
    assert sink.counts == (1, 0, 0, 0, "")


def test_the_signature_of_a_published_example() -> None:
    """The example of the reference libraries of Standard Webhooks."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_an_outage_keeps_the_event_and_the_next_process_sends_it_first(
    tmp_path: Path, respx_mock: respx.MockRouter
) -> None:
    route = respx_mock.post(HOOK).mock(return_value=httpx.Response(503))
    sink = hook(tmp_path)
    sink.send(event(1))
    sink.close()
    assert len(route.calls) == 3, "three tries"
    assert sink.counts[:4] == (0, 1, 0, 1) and "failed inside (503)" in sink.counts.problem
    (kept,) = (tmp_path / OUTBOX).iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700

    route.mock(return_value=httpx.Response(200))
    later = hook(tmp_path)
    later.send(event(2))
    later.close()
    assert ids(route)[3:] == ["e1", "e2"]
    assert not list((tmp_path / OUTBOX).iterdir())


def test_what_waits_is_sent_when_the_sink_is_opened(tmp_path: Path, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(HOOK).mock(return_value=httpx.Response(202))
    Outbox(tmp_path / OUTBOX, 5).put(event(), '{"id": "e1"}')
    hook(tmp_path).close()
    assert ids(route) == ["e1"]


def test_an_event_that_is_refused_does_not_stop_the_next(tmp_path: Path, respx_mock: respx.MockRouter) -> None:
    outbox = Outbox(tmp_path / OUTBOX, 5)
    for number in (1, 2):
        outbox.put(event(number), f'{{"id": "e{number}"}}')
    route = respx_mock.post(HOOK).mock(side_effect=[httpx.Response(400), httpx.Response(200)])
    sink = hook(tmp_path)
    sink.close()
    assert ids(route) == ["e1", "e2"]
    assert [waiting.event_id for waiting in outbox.waiting()] == ["e1"]


def test_beyond_its_bound_the_outbox_drops_the_oldest_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(tmp_path, 2)
    assert [outbox.put(event(number), "{}") for number in (1, 2, 3)] == [0, 0, 1]
    assert [waiting.event_id for waiting in outbox.waiting()] == ["e2", "e3"]
    assert outbox.put(event(3), "{}") == 0 and len(outbox) == 2, "the same event waits once"
    assert "1 events were dropped" in caplog.text


def test_a_forked_child_delivers_with_a_thread_of_its_own(tmp_path: Path, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(HOOK).mock(return_value=httpx.Response(200))
    sink = hook(tmp_path)
    sink.forget()
    sink.send(event())
    sink.close()
    assert ids(route) == ["e1"]


def test_without_a_key_and_over_plain_http_nothing_is_sent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="CONTEXT_ENGINE_WEBHOOK_KEY: events are signed"):
        hook(tmp_path, key=None)
    with pytest.raises(ConfigError, match="plain http: use https"):
        hook(tmp_path, url="http://hooks.bank.example/events")
    with pytest.raises(ConfigError, match="most_waiting"):
        hook(tmp_path, most_waiting=0)
    hook(tmp_path, url="http://127.0.0.1:9/events").close()


def test_a_body_that_repeats_the_key_is_not_logged(
    tmp_path: Path, respx_mock: respx.MockRouter, caplog: pytest.LogCaptureFixture
) -> None:
    respx_mock.post(HOOK).mock(return_value=httpx.Response(500, text=base64.b64encode(KEY).decode()))
    sink = hook(tmp_path)
    with caplog.at_level("WARNING"):
        sink.send(event())
        sink.close()
    assert "did not take an event" in caplog.text and base64.b64encode(KEY).decode() not in caplog.text
