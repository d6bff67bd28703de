"""`audit impact --subscribe`: an ingest tells once what has changed, with the rights of the subscriber."""

from __future__ import annotations

import base64
import hmac
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.apps.cli.context import os_user

pytestmark = pytest.mark.slow
QUESTION = "How are expenses claimed?"
ACCESS = """\
version: 1
principals:
  operator: {{os_users: [{user}], roles: [staff], operator: true, clearance: CONFIDENTIAL}}
  guest: {{roles: [guest], clearance: PUBLIC}}
"""


class Bank:
    """A bank of its own whose events go to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events = folder / "bank", folder / "events.jsonl"
        self.env: dict[str, str] = {}
        self.run("init", str(self.folder))
        self.policy = self.folder / "documents/policies/travel-expenses.md"
        self.ingest()
        self.run("search", QUESTION)

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Result:
        places = (
            [] if arguments[0] == "init" else ["--config-dir", str(self.folder), "--data-dir", str(self.folder / "d")]
        )
        env = {
            "CONTEXT_ENGINE_AUDIT_MODE": "best_effort",
            "CONTEXT_ENGINE_EVENT_SINKS": json.dumps({"file": {"path": str(self.events)}}),
            **self.env,
        }
        result = CliRunner().invoke(main, [*arguments, *places], env=env)
        assert result.exit_code in codes, result.output
        return result

    def ingest(self, *options: str) -> Any:
        return json.loads(self.run("ingest", str(self.folder / "documents"), "--json", *options).stdout)

    def change(self, before: str, after: str) -> None:
        words = self.policy.read_text("utf-8")
        assert before in words
        self.policy.write_text(words.replace(before, after), "utf-8")

    def sent(self) -> list[dict[str, Any]]:
        return (
            [json.loads(line) for line in self.events.read_text("utf-8").splitlines()] if self.events.exists() else []
        )

    def subscribe(self, *options: str) -> str:
        out = self.run("audit", "impact", "--subscribe", *options).stdout
        return out.split()[1].rstrip(":")


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def test_an_ingest_tells_what_changed_and_the_answers_that_showed_it_once(bank: Bank) -> None:
    document, question = bank.subscribe("--document", "MHB-POL-014"), bank.subscribe("--question", QUESTION)
    assert "subscriptions" in bank.ingest() and bank.sent() == []
    bank.change("30 calendar", "21 calendar")
    told = bank.ingest("--dry-run")
    assert "subscriptions" not in told and bank.sent() == []
    told = bank.ingest()["subscriptions"]
    first, second = bank.sent()
    assert (
        [each["event"]["event_id"] for each in told]
        == [first["id"], second["id"]]
        == [f"{document}-1", f"{question}-1"]
    )
    assert len(first["data"]["changed"]) == 1 and first["data"]["answers_that_showed_it"]["count"] == 1
    assert second["data"]["change"] == "lost" and len(second["data"]["gained"]) == 1
    assert "calendar" not in bank.events.read_text("utf-8"), "no text, only names of texts"
    bank.ingest("--force")
    bank.run("audit", "subscriptions", "--check")
    assert len(bank.sent()) == 2

    listed = json.loads(bank.run("audit", "subscriptions", "--json").stdout)["subscriptions"]
    assert [(each["subscription_id"], each["changes"], each["delivered"]) for each in listed] == [
        (document, 1, True),
        (question, 1, True),
    ]
    assert "lost, 1 gained" in bank.run("audit", "subscriptions").stdout
    bank.run("audit", "subscriptions", "--cancel", document)
    bank.run("audit", "subscriptions", "--cancel", document, codes=(2,))
    bank.change("21 calendar", "14 calendar")
    bank.ingest()
    assert [event["subject"] for event in bank.sent()[2:]] == [question]


def test_a_look_that_did_not_come_after_an_ingest_is_made_up_for(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    name = bank.subscribe("--document", "MHB-POL-014")
    bank.change("30 calendar", "21 calendar")
    with monkeypatch.context() as patched:
        patched.setattr("context_engine.apps.cli.ingest.look_after_writing", lambda _context, _ids: [])
        bank.ingest()
    assert bank.sent() == []
    bank.ingest()
    assert [event["id"] for event in bank.sent()] == [f"{name}-1"]


def test_a_subscriber_hears_only_of_what_the_principal_may_read(bank: Bank) -> None:
    (bank.folder / "config/access.yaml").write_text(ACCESS.format(user=os_user()), "utf-8")
    manifest, ruled = bank.folder / "manifests/handbook.yaml", "    classification: internal\n"
    words = manifest.read_text("utf-8")
    assert ruled in words
    manifest.write_text(words.replace(ruled, f"{ruled}    access: {{roles: [staff]}}\n"), "utf-8")
    unplaced = bank.run("audit", "impact", "--subscribe", "--question", QUESTION, codes=(1,))
    assert "cannot be compared: policies: the access rules or the classification have changed" in unplaced.stderr
    bank.run("kb", "repartition")
    refused = bank.run("audit", "impact", "--subscribe", "--document", "MHB-POL-014", "--as", "guest", codes=(2,))
    assert "has no document 'MHB-POL-014'" in refused.stderr
    guest = bank.subscribe("--question", QUESTION, "--as", "guest")
    staff = bank.subscribe("--question", QUESTION)
    bank.change("30 calendar", "21 calendar")
    bank.ingest()
    assert [event["subject"] for event in bank.sent()] == [staff] != [guest]
    listed = json.loads(bank.run("audit", "subscriptions", "--json").stdout)["subscriptions"]
    (of_guest,) = [each for each in listed if each["subscription_id"] == guest]
    assert "policies" not in json.dumps(of_guest)


class Receiver(BaseHTTPRequestHandler):
    """A web hook on this machine."""

    received: ClassVar[list[tuple[dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_web_hook_that_was_down_gets_every_event_later_signed(bank: Bank) -> None:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    connection = {"hook": {"base_url": f"http://127.0.0.1:{server.server_port}/events", "timeout_s": 2}}
    (bank.folder / "config/connections.yaml").write_text(json.dumps(connection), "utf-8")
    key = base64.b64encode(b"fictitious key of a test 4711").decode()
    bank.env = {
        "CONTEXT_ENGINE_EVENT_SINKS": json.dumps({"webhook": {"connection": "hook"}}),
        "CONTEXT_ENGINE_WEBHOOK_KEY": key,
    }
    name = bank.subscribe("--document", "MHB-POL-014")
    server.server_close()
    bank.change("30 calendar", "21 calendar")
    bank.ingest()
    assert len(list((bank.folder / "d/events-outbox").iterdir())) == 1

    server = HTTPServer(("127.0.0.1", server.server_port), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        bank.change("21 calendar", "14 calendar")
        bank.ingest()
    finally:
        server.shutdown()
        server.server_close()
    assert not list((bank.folder / "d/events-outbox").iterdir())
    assert [headers["webhook-id"] for headers, _ in Receiver.received] == [f"{name}-1", f"{name}-2"]
    for headers, body in Receiver.received:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.digest(base64.b64decode(key), signed, "sha256")
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--subscribe",), "--subscribe takes --document ID"),
        (("--subscribe", "--document", "X", "--question", "Y"), "--subscribe takes --document ID"),
        (("--subscribe", "--document", "X", "--content", "Y"), "--subscribe takes --document ID"),
        (("--subscribe", "--document", "X", "--persona", "auditor"), "--persona goes with --question"),
        (("--subscribe", "--document", "X", "--source", "polices"), "Did you mean 'policies'?"),
        (("--question", "Y"), "go with --subscribe"),
        (("--question", "Y", "--subscribe", "--persona", "nobody"), "nobody"),
    ],
)
def test_options_that_do_not_go_together_are_refused(bank: Bank, options: tuple[str, ...], problem: str) -> None:
    assert problem in bank.run("audit", "impact", *options, codes=(2,)).stderr
