"""What a plugin records: in a server or not at all, and it says which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from context_engine.apps.dify import audit
from context_engine.apps.dify.audit import plugin_audit, plugin_recorder
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.embedded import open_engine
from context_engine.apps.dify.failure import ToolFailure, guarded
from context_engine.apps.dify.plugin_settings import PluginSetup, load_plugin
from context_engine.core.models import Caller, SearchRequest
from context_engine.errors import ConfigError, MissingExtra

MANIFEST = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop"}]}
DSN = "postgresql://ana:s3cret-s3cret@127.0.0.1:1/records"


def plugin(folder: Path, **variables: str) -> PluginSetup:
    form = {"domains": json.dumps(MANIFEST), "variables": json.dumps(variables)}
    env = {"HOME": str(folder), "CONTEXT_ENGINE_DATA_DIR": str(folder / "data")}
    return load_plugin(Credentials.read(form), root=folder, env=env)


def told(opened_plugin: PluginSetup) -> tuple[str, Any]:
    """Return the last line of what the tool `domains` says, and its JSON."""
    opened = open_engine(opened_plugin)
    with opened.engine:
        answer = opened.call("domains", {"check_health": False}, Caller(), lambda *_: ())
    return answer.text.splitlines()[-1], answer.json["audit"]


def test_without_a_server_nothing_is_recorded_and_it_says_so(tmp_path: Path) -> None:
    made = plugin(tmp_path)
    assert plugin_recorder(made.setup) is None
    assert told(made) == ("audit: off", "off")
    assert not (tmp_path / "data").exists()


def test_best_effort_without_a_server_is_off_and_says_what_to_do(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_MODE="best_effort")
    line, mode = told(made)
    assert mode == "off"
    assert line.startswith("audit: off (")
    assert "CONTEXT_ENGINE_AUDIT_LEDGER" in line


def test_records_that_are_required_need_a_server(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_MODE="required")
    with pytest.raises(ConfigError, match="replaced on upgrade") as error:
        open_engine(made)
    assert error.value.key == "audit_mode"


def test_a_file_is_refused(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=str(tmp_path / "ledger.db"))
    with pytest.raises(ConfigError, match="names a file") as error:
        open_engine(made)
    assert error.value.key == "CONTEXT_ENGINE_AUDIT_LEDGER"


def test_a_server_is_used_and_not_named_to_callers(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=DSN)
    assert plugin_audit(made.setup).mode == "best_effort"
    assert plugin_recorder(made.setup) is not None
    assert told(made) == ("audit: best_effort", "best_effort")


def test_a_package_without_the_extra_says_how_to_pack_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("the audit ledger", "audit")

    monkeypatch.setattr(audit, "open_recorder", missing)
    with pytest.raises(ConfigError, match="plugin pack --audit"):
        open_engine(plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=DSN))


def test_an_answer_that_cannot_be_recorded_fails_without_naming_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=DSN, CONTEXT_ENGINE_AUDIT_MODE="required")

    def search(_: Credentials) -> None:
        opened = open_engine(made)
        with opened.engine:
            opened.engine.search(SearchRequest(query="limit", domain="NPA"))

    with pytest.raises(ToolFailure, match="none is given unrecorded") as error:
        guarded({}, search)
    assert type(error.value).__name__ == "AuditUnavailable"
    assert "127.0.0.1" not in str(error.value)
    assert "127.0.0.1" in caplog.text
    assert "s3cret" not in caplog.text
