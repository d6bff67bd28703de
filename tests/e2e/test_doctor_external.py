"""`doctor --external` against real HTTP on the loopback interface: the plugin's endpoint, and others that go wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.apps.dify.backend import Engines, answer_retrieval
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.tools import open_engine

TOKEN = "endpoint-token-0123456789abcdefghij"
Answer = tuple[int, bytes]
Handler = Callable[[dict[str, str], bytes], Answer]


@contextmanager
def served(handle: Handler) -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    """Serve POST with a function; yield the address and what was asked: (path, headers, body)."""
    asked: list[tuple[str, dict[str, str], bytes]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked.append((self.path, headers, body))
            status, answer = handle(headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture(scope="module")
def endpoint(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The plugin's endpoint over the demo bank."""
    home = tmp_path_factory.mktemp("home")
    env = {"HOME": str(home), "CONTEXT_ENGINE_DATA_DIR": str(demo_data)}
    engines = Engines(lambda given: open_engine(load_plugin(given, root=home, env=env)))
    settings: dict[str, Any] = {"demo_bank": True, "access_token": TOKEN}

    def handle(headers: dict[str, str], body: bytes) -> Answer:
        answer = answer_retrieval(settings, headers.get("authorization"), body, engines.use)
        return answer.status, answer.encoded()

    with served(handle) as (address, asked):
        yield address, asked, settings


@pytest.fixture
def doctor(tmp_path: Path) -> Any:
    def run(address: str, *more: str, token: str = TOKEN) -> Result:
        (tmp_path / "token.txt").write_text(token + "\n")
        file = () if "--token-env" in more else ("--token-file", str(tmp_path / "token.txt"))
        result = CliRunner().invoke(main, ["doctor", "--external", address, *file, *more])
        assert token not in result.output
        return result

    return run


def test_a_sound_endpoint(doctor: Any, endpoint: Any) -> None:
    address, asked, _ = endpoint
    before = len(asked)
    result = doctor(address, "--domain", "NPA", "--query", "What are the NPA classification criteria?", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["ok"] is True and told["external"]["notes"] == []
    steps = told["external"]["steps"]
    assert [(one["step"], one["status"], one["verdict"]) for one in steps] == [
        ("registration", 200, "Dify registers it"),
        ("newer registration", 200, "Dify registers it"),
        ("retrieval", 200, "the node gets 4 records"),
    ]
    bare, newer, search = asked[before:]
    assert {path for path, _, _ in asked[before:]} == {"/retrieval"}
    assert bare[2] == b"" and "content-type" not in bare[1] and bare[1]["content-length"] == "0"
    assert json.loads(newer[2]) == {
        "knowledge_id": "",
        "query": "",
        "retrieval_setting": {"top_k": 1, "score_threshold": 0.0},
    }
    assert json.loads(search[2])["metadata_condition"] is None and json.loads(search[2])["knowledge_id"] == "NPA"


def test_a_wrong_token_is_refused_as_dify_sees_it(doctor: Any, endpoint: Any) -> None:
    result = doctor(endpoint[0], "--domain", "NPA", token="x" * 40)
    assert result.exit_code == 1
    assert result.output.count("Dify refuses the registration: the access token was refused") == 2
    assert "Dify's node says 'succeeded, nothing found'" in result.output


def test_an_unknown_domain_comes_back_as_a_notice(doctor: Any, endpoint: Any) -> None:
    result = doctor(endpoint[0], "--domain", "NPX")
    assert result.exit_code == 1 and "the node gets a notice: Knowledge incomplete" in result.output
    assert "unknown domain 'NPX'" in " ".join(result.output.split())


def test_without_notice_records_it_would_be_nothing_found(doctor: Any, endpoint: Any) -> None:
    address, _, settings = endpoint
    settings["notice_records"] = False
    try:
        result = doctor(address, "--domain", "NPX")
    finally:
        del settings["notice_records"]
    assert result.exit_code == 1 and "succeeded, nothing found" in result.output and "(400" in result.output


def test_the_registration_alone(doctor: Any, endpoint: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("THE_TOKEN", TOKEN)
    result = doctor(endpoint[0], "--no-query", "--token-env", "THE_TOKEN")
    assert result.exit_code == 0 and "retrieval (" not in result.output


RECORD = {"content": "text", "score": 0.5, "title": "T", "metadata": {}}


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b"", "Dify registers it, though the token was refused"),
        (404, b"", "there is no endpoint at this address"),
        (502, b"", "a gateway in between cannot reach it"),
        (503, b"", "Dify retries three times, then refuses the registration"),
        (503, b"", "after asking three times more"),
        (201, b"{}", "succeeded, nothing found"),
        (200, b"<html>", "the answer is not a JSON object: <html>"),
        (200, b"[]", "the answer is not a JSON object"),
        (200, b'{"records": 5}', "has no list of 'records'"),
        (200, json.dumps({"records": [RECORD, {**RECORD, "metadata": None}]}).encode(), "drops 1 of 2 records"),
        (200, json.dumps({"records": [{**RECORD, "score": None}]}).encode(), "lacks 'content' or 'score'"),
    ],
)
def test_what_dify_makes_of_other_endpoints(doctor: Any, status: int, body: bytes, told: str) -> None:
    with served(lambda _headers, _body: (status, body)) as (address, _):
        result = doctor(address, "--domain", "NPA")
    assert result.exit_code == 1 and told in " ".join(result.output.split())


def test_an_endpoint_that_repeats_the_token(doctor: Any) -> None:
    with served(lambda headers, _body: (500, headers["authorization"].encode())) as (address, _):
        assert "********" in doctor(address, "--domain", "NPA").output


def test_nobody_there(doctor: Any) -> None:
    result = doctor("http://127.0.0.1:9", "--domain", "NPA")
    assert result.exit_code == 1 and "it cannot be reached (ConnectError)" in result.output


def test_an_address_that_dify_would_lengthen(doctor: Any, endpoint: Any) -> None:
    assert "register it without" in doctor(f"{endpoint[0]}/retrieval", "--no-query").output
    assert "register it without" in doctor(f"{endpoint[0]}/", "--no-query").output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--external", "http://h", "--domain", "NPA"], "--token-env NAME or --token-file FILE"),
        (
            ["--external", "http://h", "--token-env", "NOT_SET_ANYWHERE", "--no-query"],
            "variable NOT_SET_ANYWHERE holds no",
        ),
        (["--external", "http://h", "--token-file", "none.txt", "--no-query"], "none.txt cannot be read"),
        (["--external", "http://h", "--token-env", "X"], "needs --domain, the External Knowledge ID"),
        (["--external", "ftp://h", "--token-env", "X", "--no-query"], "must be an http or https URL"),
        (["--external", "http://u:pw@h", "--token-env", "X", "--no-query"], "holds a password"),
        (["--token-env", "X"], "belong to --external"),
    ],
)
def test_options_that_cannot_be_used(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code == 2 and told in " ".join(result.output.split())
