"""What an operator is told of the audit: mode, ledger, key, what it holds, what was lost, what is unwise."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.apps.cli.doctor.checks import audit_lines, audit_summary
from context_engine.audit.formats.keys import SigningKey
from context_engine.audit.ledger.publish import publish
from context_engine.audit.record.drafts import loss_draft
from context_engine.core.engine import SystemClock
from context_engine.core.models import NoticeCode
from context_engine.settings import find_config
from context_engine.wiring.audit import checkpoint_rhythm, open_ledger
from context_engine.wiring.audit_report import audit_in_force, audit_report
from context_engine.wiring.check import check
from context_engine.wiring.setup import Setup, load_setup

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def setup_of(folder: Path, audit: dict[str, Any], **env: str) -> Setup:
    for name in ("config", "manifests"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "config/rag-pipeline.json").write_text(json.dumps({"audit": audit}))
    manifest = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop"}]}
    (folder / "manifests/npa.yaml").write_text(json.dumps(manifest))
    env = {"HOME": str(folder), "CONTEXT_ENGINE_DATA_DIR": str(folder / "data"), **env}
    return load_setup(config_dir=folder, env=env, cwd=folder)


def test_off_says_so_and_opens_nothing(tmp_path: Path) -> None:
    report = audit_report(setup_of(tmp_path, {}))
    assert (report.mode, report.ledger, report.problem) == ("off", None, None)
    assert audit_summary(report) == "off"
    assert [line.plain for line in audit_lines(report)] == ["searches are not recorded (setting audit_mode)"]


def test_before_the_first_record_there_is_no_file_and_none_is_made(tmp_path: Path) -> None:
    report = audit_report(setup_of(tmp_path, {"audit_mode": "best_effort"}))
    assert (report.state, report.problem) == (None, None)
    assert not (tmp_path / "data").exists()


def test_what_the_ledger_holds_and_lost_is_counted(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, {"audit_mode": "best_effort"})
    with open_ledger(setup) as ledger:
        for number, count in enumerate((3, 4)):
            record_id = f"loss-{number}"
            ledger.append([loss_draft(count, NOW, NOW, record_id=record_id, now=NOW, code_version="1")])
        ledger.integrate()
        ledger.append([loss_draft(9, NOW, NOW, record_id="waiting", now=NOW, code_version="1")])
    report = audit_report(setup)
    assert report.state is not None
    assert (report.state.records, report.state.pending, report.state.lost) == (2, 1, 3 + 4)
    assert [notice.code for notice in report.notices] == [NoticeCode.AUDIT_RECORDS_LOST]
    assert report.notices[0].detail == {"count": 7}


@pytest.mark.wording
@pytest.mark.parametrize("broken", ["full", "read-only"])
def test_a_ledger_that_takes_no_record_now_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    setup = setup_of(tmp_path, {"audit_mode": "required"})
    open_ledger(setup).close()
    assert audit_report(setup).problem is None
    if broken == "full":
        monkeypatch.setattr(f"{audit_report.__module__}.disk_usage", lambda _: SimpleNamespace(free=2048))
        expected = "2 kB are free where"
    else:
        monkeypatch.setattr(os, "access", lambda *_: False)
        expected = "may only read the ledger"
    problem = audit_report(setup).problem
    assert problem is not None and expected in problem and str(tmp_path) in problem


def test_required_without_a_key_is_unwise(tmp_path: Path) -> None:
    codes = [notice.code for notice in audit_in_force(setup_of(tmp_path, {"audit_mode": "required"})).notices]
    assert codes == [NoticeCode.AUDIT_KEY_MISSING]
    key = SigningKey.generate("audit.bank.example")
    report = audit_in_force(setup_of(tmp_path, {"audit_mode": "required"}, CONTEXT_ENGINE_AUDIT_KEY=key.text))
    assert (report.notices, report.key) == ((), f"audit.bank.example {key.key_id}")


def test_a_checkpoint_that_could_not_be_handed_out_is_told_until_it_is(tmp_path: Path) -> None:
    file = tmp_path / "outside" / "checkpoints"
    setup = setup_of(tmp_path, {"audit_mode": "best_effort", "audit_checkpoint_file": str(file)})
    with open_ledger(setup) as ledger:
        ledger.append([loss_draft(0, NOW, NOW, record_id="one", now=NOW, code_version="1")])
        assert audit_report(setup).notices == ()  # none is due yet
        publish(ledger, checkpoint_rhythm(setup), SystemClock(), at_once=True)
        (stuck,) = audit_report(setup).notices
        assert (stuck.code, stuck.detail) == (NoticeCode.AUDIT_CHECKPOINT_STUCK, {"ways": ["file"]})
        file.parent.mkdir()
        publish(ledger, checkpoint_rhythm(setup), SystemClock(), at_once=True)
    assert audit_report(setup).notices == ()


def test_a_ledger_that_all_may_write_to_is_unwise(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, {"audit_mode": "best_effort"})
    open_ledger(setup).close()
    (tmp_path / "data/audit/ledger.db").chmod(0o666)
    assert [one.code for one in audit_report(setup).notices] == [NoticeCode.AUDIT_LEDGER_WRITABLE]


def test_a_ledger_in_a_folder_that_may_not_be_entered_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    stat, seen = Path.stat, setup_of(tmp_path, {}, CONTEXT_ENGINE_AUDIT_LEDGER=str(closed / "ledger.db"))

    def refused(self: Path, **options: Any) -> os.stat_result:
        if closed in self.parents:
            raise PermissionError(13, "Permission denied")
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", refused)  # root may enter every folder
    report = audit_report(seen)
    assert report.problem is not None and "cannot be reached (Permission denied)" in report.problem


def test_a_ledger_that_is_down_is_a_problem_and_shows_no_password(tmp_path: Path) -> None:
    url = "postgresql://ana:s3cret-s3cret@127.0.0.1:1/records"
    setup = setup_of(tmp_path, {"audit_mode": "required"}, CONTEXT_ENGINE_AUDIT_LEDGER=url)
    report = audit_report(setup)
    assert report.problem is not None
    text = json.dumps(report.to_dict()) + "".join(line.plain for line in audit_lines(report))
    assert "searches are refused" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("audit", "env", "key"),
    [
        ({"audit_mode": "required"}, {"CONTEXT_ENGINE_AUDIT_KEY": "nonsense"}, "CONTEXT_ENGINE_AUDIT_KEY"),
        ({}, {"CONTEXT_ENGINE_AUDIT_LEDGER": "relative.db"}, "CONTEXT_ENGINE_AUDIT_LEDGER"),
        ({"audit_mode": "best_effort", "audit_checkpoint_file": "x"}, {}, "audit_checkpoint_file"),
    ],
)
def test_config_check_names_what_cannot_be_used(
    tmp_path: Path, audit: dict[str, Any], env: dict[str, str], key: str
) -> None:
    setup = setup_of(tmp_path, audit, **env)
    report = check(find_config(tmp_path, env=setup.env, cwd=tmp_path), env=setup.env)
    assert [problem.key for problem in report.problems] == [key]
    assert report.domains == (), "no engine can be built"


def test_config_check_warns_of_what_is_unwise(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, {"audit_mode": "required"})
    report = check(find_config(tmp_path, env=setup.env, cwd=tmp_path), env=setup.env)
    assert report.ok
    assert NoticeCode.AUDIT_KEY_MISSING in [notice.code for notice in report.notices]


def test_config_show_publishes_it(tmp_path: Path) -> None:
    setup_of(tmp_path, {"audit_mode": "best_effort"})
    env = {"HOME": str(tmp_path), "CONTEXT_ENGINE_DATA_DIR": str(tmp_path / "data")}
    shown = CliRunner().invoke(main, ["config", "show", "--config-dir", str(tmp_path), "--json"], env=env)
    assert json.loads(shown.stdout)["audit"] == {
        "mode": "best_effort",
        "ledger": str(tmp_path / "data/audit/ledger.db"),
        "key": None,
        "state": None,
        "problem": None,
        "notices": [],
    }
