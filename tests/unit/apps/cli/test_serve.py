"""A service is not started for everybody, for nothing, or for the demo bank unasked."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.apps.cli.serve import _hold_reloads
from context_engine.apps.server.running import ConfiguredLoader, listening_socket
from context_engine.errors import ConfigError
from context_engine.service.deployment import DeploymentEvents

MANIFEST = {"version": 1, "domain": "ORM", "sources": [{"id": "sops", "type": "bank_sop"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONTEXT_ENGINE_API_TOKEN", "CONTEXT_ENGINE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def configured(folder: Path, **settings: object) -> None:
    for name in ("config", "manifests"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "manifests/orm.yaml").write_text(json.dumps(MANIFEST))
    (folder / "config/rag-pipeline.json").write_text(json.dumps(settings))


def test_the_demo_bank_is_not_served_unasked(folder: Path) -> None:
    ran = CliRunner().invoke(main, ["serve", "--no-auth", "--port", "0"], prog_name="context-engine")
    assert ran.exit_code == 2
    assert "--demo" in ran.stderr


@pytest.mark.parametrize("options", [[], ["--no-auth", "--host", "0.0.0.0"]])
def test_who_may_call_must_be_said(folder: Path, options: list[str]) -> None:
    configured(folder)
    ran = CliRunner().invoke(
        main, ["serve", "--port", "0", "--config-dir", str(folder), *options], prog_name="context-engine"
    )
    assert ran.exit_code == 2
    assert "token" in ran.stderr


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with listening_socket("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(ConfigError):
            listening_socket("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ConfigError):
        listening_socket("no-such-host.invalid", 0)


def test_a_connection_sends_what_it_has_at_once() -> None:
    with listening_socket("127.0.0.1", 0) as bound:
        # asyncio turns Nagle's algorithm off where the socket says that it is TCP's
        assert bound.proto == socket.IPPROTO_TCP


def test_what_is_set_aside_at_the_start_refuses_a_reload(folder: Path) -> None:
    configured(folder)
    load = ConfiguredLoader(str(folder), None, str(folder / "data"))
    (folder / "manifests/bad.yaml").write_text("version: 1\ndomain: BAD\nsources: 7\n")
    load().close()
    with pytest.raises(ConfigError):
        load()
    (folder / "manifests/bad.yaml").unlink()
    load().close()
    configured(folder, stage2_top_kk=1)
    with pytest.raises(ConfigError):
        load()


def test_a_service_delivers_the_events_that_wait_from_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(folder, event_sinks={"file": {"path": str(folder / "events.jsonl")}})
    opened: list[DeploymentEvents] = []
    monkeypatch.setattr(DeploymentEvents, "opened", lambda events: opened.append(events))
    ConfiguredLoader(str(folder), None, str(folder / "data"))().close()
    assert len(opened) == 1


def test_a_receiver_of_events_that_cannot_be_used_refuses_the_start(folder: Path) -> None:
    configured(folder, event_sinks={"nowhere": {}})
    with pytest.raises(ConfigError, match="nowhere"):
        ConfiguredLoader(str(folder), None, str(folder / "data"))()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_a_reload_that_comes_during_the_start_waits() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        held = _hold_reloads()
        signal.raise_signal(signal.SIGHUP)
        assert held == [signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)
