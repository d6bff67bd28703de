"""Who runs a command, as the operating system says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from context_engine.apps.cli.context import ConfigLocation, acting_principal, open_context, os_user, require_operator
from context_engine.core.models import NOBODY
from context_engine.errors import InvalidRequest
from context_engine.settings.access_file import AccessFile
from context_engine.settings.principals import NO_PRINCIPALS, Principals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="users have numbers elsewhere")


def test_the_user_is_that_of_the_process_whatever_its_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    for name in ("USER", "LOGNAME", "USERNAME", "LNAME"):
        monkeypatch.setenv(name, "kb-admin")
    assert os_user() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert os_user() == "3999999999"


def test_who_called_a_program_that_runs_as_another_is_who_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999)
    assert os_user() != "3999999999"


def test_nobody_is_asked_for_where_there_is_no_file() -> None:
    assert acting_principal(NO_PRINCIPALS, None) == NOBODY
    require_operator(NO_PRINCIPALS)


def test_an_operator_is_asked_for_where_there_is_one() -> None:
    own = os_user()
    principals = Principals(AccessFile.model_validate({"version": 1, "principals": {"me": {"os_users": [own]}}}))
    assert acting_principal(principals, None).id == "me"
    with pytest.raises(InvalidRequest, match="operator: true"):
        require_operator(principals)


def test_a_mistyped_data_folder_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifests").mkdir()
    source = "sources: [{id: notes, type: bank_sop, adapter: local}]"
    (tmp_path / "manifests/ops.yaml").write_text(f"version: 1\ndomain: OPS\n{source}\n")
    for name in ("data", "dtaa"):
        (tmp_path / "data").mkdir(exist_ok=True)
        open_context(ConfigLocation(str(tmp_path), str(tmp_path / name), None))
    noted = capsys.readouterr().err.replace("\n", " ")
    assert noted.count("does not exist yet") == 1
    assert f"{tmp_path / 'dtaa'} does not exist yet" in noted
