"""`context-engine token`: given out, listed, replaced and taken back, by an operator alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.errors import NotAuthenticated
from context_engine.wiring.callers import open_authenticator
from context_engine.wiring.setup import load_setup

MANIFEST = "version: 1\ndomain: HANDBOOK\ntitle: Staff handbook\nsources: [{id: policies, type: bank_sop}]\n"
ACCESS = (
    "version: 1\nprincipals:\n  desk: {roles: [analyst]}\n  platform: {os_users: [kb-admin], operator: true}\n"
    "  dify: {gateway: true}\n"
)
TOKEN = re.compile(r"ce_([0-9a-f]{10})_[A-Za-z0-9_-]{43}")

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/handbook.yaml").write_text(MANIFEST, "utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/access.yaml").write_text(ACCESS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "CONTEXT_ENGINE_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: str, user: str = "kb-admin") -> Result:
        monkeypatch.setattr("context_engine.apps.cli.context.os_user", lambda: user)
        return CliRunner().invoke(main, list(args))

    return run


def added(run: Run, *args: str) -> str:
    result = run("token", "add", "search", *args, "--json")
    assert result.exit_code == 0, result.output
    found: str = json.loads(result.stdout)["token"]
    return found


def listed(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("token", "list", "--json").stdout)["tokens"]
    return found


def principal(token: str) -> str | None:
    callers = open_authenticator(load_setup(), None, no_auth=False, host="127.0.0.1")
    try:
        return callers.authenticate(f"Bearer {token}").principal.id
    except NotAuthenticated:
        return None
    finally:
        callers.close()


def test_a_token_is_shown_once_and_opens_the_service(run: Run, tmp_path: Path) -> None:
    shown = run("token", "add", "intranet search", "--principal", "desk", "--expires", "90d")
    token = TOKEN.search(shown.stdout)
    assert token is not None and principal(token[0]) == "desk"
    (row,) = listed(run)
    assert (row["id"], row["name"], row["principal"], row["state"]) == (token[1], "intranet search", "desk", "open")
    ends = datetime.fromisoformat(row["expires"]) - datetime.fromisoformat(row["created"])
    assert ends == timedelta(days=90)
    assert token[1] in run("token", "list").stdout
    assert TOKEN.search(run("token", "list").output) is None
    if os.name == "posix":
        assert (tmp_path / "data/tokens.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("expires", "end"), [("2099-06-30", "2099-06-30T00:00:00Z"), ("2099-06-30T12:00:00+02:00", "2099-06-30T10:00:00Z")]
)
def test_it_ends_at_a_day_or_a_moment(run: Run, expires: str, end: str) -> None:
    added(run, "--expires", expires)
    assert listed(run)[0]["expires"] == end


def test_revoked_it_opens_nothing(run: Run) -> None:
    token, other = added(run), added(run)
    assert principal(token) == "api"
    assert run("token", "revoke", token[3:13]).exit_code == 0
    assert (principal(token), principal(other)) == (None, "api")
    assert sorted(one["state"] for one in listed(run)) == ["open", "revoked"]


def test_rotated_there_is_a_new_one_as_long_as_the_old_and_the_old_one_as_long_as_it_is_kept(run: Run) -> None:
    old = added(run, "--principal", "desk", "--expires", "12h")
    kept = json.loads(run("token", "rotate", old[3:13], "--keep", "2h", "--json").stdout)["token"]
    assert (principal(old), principal(kept)) == ("desk", "desk")
    new = json.loads(run("token", "rotate", kept[3:13], "--json").stdout)["token"]
    assert (principal(kept), principal(new)) == (None, "desk")
    row = next(one for one in listed(run) if one["id"] == new[3:13])
    assert datetime.fromisoformat(row["expires"]) - datetime.fromisoformat(row["created"]) == timedelta(hours=12)


def test_the_list_says_when_a_token_ends_that_another_took_the_place_of(run: Run) -> None:
    old = added(run)
    run("token", "rotate", old[3:13], "--keep", "2d")
    ends = next(one["revoked"] for one in listed(run) if one["id"] == old[3:13])
    (row,) = (line for line in run("token", "list").stdout.splitlines() if line.startswith(old[3:13]))
    assert ends[:10] in row


@pytest.mark.parametrize(
    "args",
    [
        ("add", "x", "--principal", "dsk"),
        ("add", "x", "--expires", "2020-01-01"),
        ("add", "x", "--expires", "soon"),
        ("add", "x", "--expires", "0d"),
        ("add", " "),
        ("add", "a\nb"),
        ("revoke", "0123456789"),
        ("rotate", "0123456789"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(run: Run, args: tuple[str, ...]) -> None:
    assert run("token", *args).exit_code == 2
    assert listed(run) == []


@pytest.mark.parametrize("args", [("add", "x"), ("list",), ("revoke", "x"), ("rotate", "x")])
def test_it_is_an_operators(run: Run, args: tuple[str, ...]) -> None:
    assert run("token", *args, user="guest").exit_code == 2
    assert listed(run) == []


def test_without_a_file_everybody_gives_them_out_for_the_principal_api(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config/access.yaml").unlink()
    assert principal(added(run)) == "api"
    assert run("token", "add", "x", "--principal", "desk").exit_code == 2


def test_a_principal_that_is_taken_away_takes_its_tokens_along(run: Run, tmp_path: Path) -> None:
    token, other = added(run, "--principal", "desk"), added(run)
    (tmp_path / "config/access.yaml").write_text(ACCESS.replace("desk:", "desk2:"), "utf-8")
    assert (principal(token), principal(other)) == (None, "api")
    assert {one["principal"]: one["state"] for one in listed(run)} == {"desk": "unknown principal", "api": "open"}


def test_doctor_says_what_opens_the_service(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    added(run)
    report = json.loads(run("doctor", "--no-query", "--json").stdout)["service"]
    assert report["opened_by"] == {"api_token": False, "stored": 1, "in_file": 0, "expired": 0, "issuer": None}
    monkeypatch.setenv("CONTEXT_ENGINE_API_TOKEN", "short")
    found = run("doctor", "--no-query", "--json")
    assert found.exit_code == 1 and "API_TOKEN" in json.loads(found.stdout)["service"]["problem"]
    assert run("config", "check").exit_code == 2


def test_last_use_is_shown(run: Run) -> None:
    token = added(run)
    from context_engine.settings.token_store import TokenStore

    TokenStore(Path("data")).note_used(token[3:13], datetime(2099, 1, 2, 3, 4, tzinfo=UTC))
    assert "2099-01-02 03:04" in run("token", "list").stdout
