"""A server that repeats the key wherever HTTP has room, and every command and error that could pass it on."""

from __future__ import annotations

import base64
import json
import logging
import socketserver
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from context_engine import SearchRequest, build_engine
from context_engine.apps.cli import main
from context_engine.errors import ContextEngineError
from context_engine.wiring.setup import load_setup

pytestmark = pytest.mark.slow

KEY = "dataset-Hq6Zt8Wm2Xv4Lr9Kp3Yc"
BODY = KEY.removeprefix("dataset-")
DATASET = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

MANIFEST = f"""
version: 1
domain: NPA
title: Product approval
sources:
  - id: sops
    type: bank_sop
    adapter: dify
    connection: dify
    dataset_ids: ["{DATASET}"]
    settings: {{attempts: 1, indexing_technique: economy}}
    documents: [{{include: "**/*.md"}}]
"""


def answer(status: str, *headers: str, body: bytes = b"{}") -> bytes:
    """Return an HTTP answer, its status line and headers as they are given."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def said(text: str, status: str = "400 Bad Request") -> bytes:
    body = json.dumps({"code": "invalid_param", "message": text, "status": 400}).encode()
    return answer(status, "Content-Type: application/json", body=body)


JSON = "Content-Type: application/json"
PLACES: dict[str, bytes] = {
    "content type": answer("200 OK", f"Content-Type: {KEY}", body=b"no json"),
    "content type of a refusal": answer("400 Bad", f"Content-Type: text/{KEY}", body=b"no json"),
    "reason phrase": answer(f"400 {KEY}", JSON),
    "reason phrase of a success": answer(f"200 {KEY}", JSON, body=b"[]"),
    "location": answer("302 Found", f"Location: https://elsewhere.example/?key={KEY}"),
    "location with a user": answer("307 Moved", f"Location: http://u:{KEY}@elsewhere.example/"),
    "other header": answer("500 Oops", f"X-Echo: Bearer {KEY}", JSON),
    "cookie": answer("403 No", f"Set-Cookie: token={KEY}", JSON),
    "retry after": answer("429 Slow", f"Retry-After: {KEY}", JSON),
    "content encoding": answer("200 OK", f"Content-Encoding: {KEY}", JSON),
    "no header at all": f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n".encode(),
    "no status line": f"{KEY}\r\n\r\n".encode(),
    "json error": said(f"bad token {KEY}"),
    "json error, url encoded": said(f"bad token {quote('Bearer ' + KEY)}"),
    "json error, basic": said("got Basic " + base64.b64encode(f"user:{KEY}".encode()).decode()),
    "json error, cut off": said(f"bad token {KEY[:20]}... (ends in {KEY[-8:]})"),
    "json error, unauthorised": said(f"bad token {KEY}", "401 No"),
    "json error, forbidden": said(f"bad token {KEY}", "403 No"),
    "json error, not found": said(f"bad token {KEY}", "404 No"),
    "json error, inside": said(f"Traceback: Authorization: Bearer {KEY}", "500 No"),
    "a code": answer("400 Bad", JSON, body=json.dumps({"code": KEY, "message": KEY}).encode()),
    "not json": answer("200 OK", JSON, body=f"<html>{KEY}".encode()),
    "the name of the dataset": answer("200 OK", JSON, body=json.dumps({"id": DATASET, "name": KEY}).encode()),
    "records of another form": answer("200 OK", JSON, body=json.dumps({"records": [{"segment": KEY}]}).encode()),
}


FEW = ("content type", "reason phrase", "location", "json error, basic")
PASSING = {"other header", "retry after", "no header at all", "no status line", "json error, inside"}
"""What may pass: writing to Dify waits for that."""


every_place = pytest.mark.parametrize(
    "place", [*FEW, *(pytest.param(one, marks=pytest.mark.slow) for one in PLACES if one not in FEW)]
)


class _Handler(socketserver.StreamRequestHandler):
    """Reads one request and gives the answer of the moment."""

    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            if line.lower().startswith(b"authorization:"):
                self.server.keys.append(line)  # type: ignore[attr-defined]
        self.rfile.read(length)
        self.wfile.write(self.server.answer)  # type: ignore[attr-defined]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    answer = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys: list[bytes] = []


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def bank(server: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "config/connections.yaml": "dify:\n  base_url: ${DIFY_BASE_URL}\n  api_key: ${DIFY_API_KEY}\n",
        "manifests/npa.yaml": MANIFEST,
        "docs/a.md": "# Approval\n\nEvery new product is approved.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    variables = {
        "HOME": tmp_path,
        "CONTEXT_ENGINE_DATA_DIR": tmp_path / "data",
        "DIFY_API_KEY": KEY,
        "DIFY_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parts(key: str) -> list[str]:
    """What must not be read anywhere: the key, its beginning, its end, and what base64 makes of its middle."""
    return [key, key[:8], key[-8:], base64.b64encode(f"user:dataset-{key}".encode()).decode()[18:-4]]


def assert_nowhere(text: str) -> None:
    for part in parts(BODY):
        assert part not in text, text


COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "doctor --json": ("doctor", "--json"),
    "search --json": ("search", "approval", "-d", "NPA", "--json"),
    "search --explain": ("search", "approval", "-d", "NPA", "--explain"),
    "ingest": ("ingest", "docs", "-d", "NPA", "--to", "dify", "--json"),
}


@every_place
def test_no_command_passes_on_what_the_server_echoes(
    place: str, bank: Path, server: _Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer = PLACES[place]
    for name, command in COMMANDS.items():
        if name == "ingest" and place in PASSING:
            continue
        result = CliRunner().invoke(main, [*command])
        assert result.exit_code != 2 or "does not exist" in result.output, result.output  # it asked the server
        assert "Traceback" not in result.output
        assert_nowhere(result.output)
        assert_nowhere("".join(traceback.format_exception(result.exception)) if result.exception else "")
    assert server.keys, "the key was sent"
    assert any(record.name.startswith("httpcore") for record in caplog.records)
    assert_nowhere(caplog.text)
    for record in caplog.records:
        assert_nowhere(repr(vars(record)))


@every_place
def test_no_error_or_result_of_the_library_holds_it(place: str, bank: Path, server: _Server) -> None:
    server.answer = PLACES[place]
    with build_engine(load_setup(config_dir=bank)) as engine:
        try:
            result = engine.search(SearchRequest(query="approval", domain="NPA"))
            assert_nowhere(json.dumps(result.to_dict(), default=str))
        except ContextEngineError as error:
            shown = traceback.TracebackException.from_exception(error, capture_locals=True)
            assert_nowhere("".join(shown.format()))
            assert_nowhere(repr(vars(error)) + repr(error.to_dict()))
    assert server.keys


@pytest.mark.slow
def test_debug_writes_the_transports_log_without_it(bank: Path, server: _Server) -> None:
    server.answer = PLACES["reason phrase"]
    for command in (COMMANDS["search --json"], COMMANDS["doctor"], COMMANDS["ingest"]):
        done = subprocess.run(
            [sys.executable, "-m", "context_engine", *command, "--debug"], capture_output=True, text=True, check=False
        )
        assert "httpcore" in done.stderr, done.stderr
        assert "********" in done.stderr
        assert_nowhere(done.stdout + done.stderr)


WRONG_CONNECTIONS: dict[str, Callable[[Path], str]] = {
    "a variable's name": lambda _: f"api_key: ${{{KEY}}}",
    "a file's path": lambda _: f"api_key: ${{file:{KEY}}}",
    "a file's path with folders": lambda _: f"api_key: ${{file:/run/secrets/{KEY}}}",
    "the name of a key": lambda _: f"api_key_env: {KEY}",
    "a key": lambda _: f"{KEY}: yes",
    "not closed": lambda _: f"api_key: '${{{KEY}'",
    "a number": lambda _: f"timeout_s: {KEY}",
    "the url": lambda _: f"api_key: x12345678\n  base_url: '{KEY}'",
    "a url's user": lambda _: f"api_key: x12345678\n  base_url: 'https://u:{KEY}@kb.example'",
    "a certificate": lambda _: f"api_key: x12345678\n  ca_bundle: {KEY}.pem",
    "a certificate by variable": lambda _: "api_key: x12345678\n  ca_bundle: ${DIFY_API_KEY}",
    "a default": lambda _: f"timeout_s: ${{NONE:-{KEY}}}",
}


@pytest.mark.parametrize("where", WRONG_CONNECTIONS)
def test_a_key_in_the_wrong_place_is_not_repeated(where: str, bank: Path) -> None:
    (bank / "config/connections.yaml").write_text(f"dify:\n  {WRONG_CONNECTIONS[where](bank)}\n")
    if "base_url" not in WRONG_CONNECTIONS[where](bank):
        with (bank / "config/connections.yaml").open("a") as file:
            file.write("  base_url: https://kb.example/v1\n")
    for command in (
        ("config", "show"), ("config", "show", "--json"), ("config", "check"), ("config", "check", "--json"),
        ("domains", "--json"), ("search", "approval", "-d", "NPA", "--json"), ("doctor",), ("plugin", "settings"),
        ("config", "diff", "--json"),
    ):  # fmt: skip
        result = CliRunner().invoke(main, [*command])
        assert_nowhere(result.output)
    result = CliRunner().invoke(main, ["config", "check"])
    assert result.exit_code == 2
    assert "dify" in result.output


def test_config_show_gives_expressions_and_never_values(bank: Path) -> None:
    (bank / "config/connections.yaml").write_text(
        "dify:\n  base_url: ${HIDDEN_URL}\n  api_key: ${DIFY_API_KEY}\n  ca_bundle: ${HIDDEN_CA:-}\n"
    )
    (bank / "config/rag-pipeline.json").write_text(
        json.dumps({"embedder_options": {"path": "${HIDDEN_PATH}"}, "stage2_top_k": "${TOP_K:-7}"})
    )
    env = {"HIDDEN_URL": "https://hidden-host.example/v1", "HIDDEN_PATH": "/srv/hidden-path", "HIDDEN_CA": ""}
    for command in (("config", "show"), ("config", "show", "--json"), ("config", "diff")):
        result = CliRunner(env=env).invoke(main, [*command])
        assert "hidden-" not in result.output
        assert "${HIDDEN_PATH}" in result.output
    shown = json.loads(CliRunner(env=env).invoke(main, ["config", "show", "--json"]).stdout)
    assert shown["connections"]["dify"]["base_url"] == "${HIDDEN_URL}"
    assert shown["settings"]["embedder_options"]["value"] == {"path": "${HIDDEN_PATH}"}
    assert shown["settings"]["stage2_top_k"]["value"] == 7
