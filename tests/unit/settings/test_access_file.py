"""access.yaml: its form, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from context_engine.core.models import Classification
from context_engine.errors import ConfigError, MissingVariable
from context_engine.settings.access_file import AccessFile, read_access

DIGEST = "ab" * 32


def read(tmp_path: Path, principals: Any, env: dict[str, str] | None = None, **more: Any) -> AccessFile:
    path = tmp_path / "access.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "principals": principals, **more}, sort_keys=False), "utf-8")
    return read_access(path, "config/access.yaml", env or {})


def test_an_entry_has_what_it_says_and_is_cleared_for_what_is_internal(tmp_path: Path) -> None:
    desk = read(tmp_path, {"desk": {"roles": "analyst", "os_users": ["a.tan", "b.iyer"]}}).principals["desk"]
    assert (desk.roles, desk.os_users) == (("analyst",), ("a.tan", "b.iyer"))
    assert desk.clearance is Classification.INTERNAL
    assert not desk.operator


def test_a_date_is_its_first_moment_in_utc(tmp_path: Path) -> None:
    rows = {"job": {"tokens": [{"sha256": DIGEST, "expires": datetime(2027, 1, 2).date()}]}}
    assert read(tmp_path, rows).principals["job"].tokens[0].expires == datetime(2027, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "identity"),
    [
        ("os_users", "a.tan"),
        ("dify", {"app": "app-1"}),
        ("dify", {"app": "app-1", "user": "u-1"}),
        ("tokens", {"sha256": DIGEST}),
    ],
)
def test_two_entries_with_one_identity_are_both_named(tmp_path: Path, key: str, identity: Any) -> None:
    with pytest.raises(ConfigError, match="'desk'") as raised:
        read(tmp_path, {"desk": {key: [identity]}, "audit": {key: [identity]}})
    assert raised.value.key == f"principals.audit.{key}"


def test_a_user_of_an_app_is_another_identity_than_the_app(tmp_path: Path) -> None:
    rows = {"desk": {"dify": [{"app": "app-1"}]}, "lead": {"dify": [{"app": "app-1", "user": "u-1"}]}}
    assert list(read(tmp_path, rows).principals) == ["desk", "lead"]


def test_one_entry_may_name_an_identity_twice(tmp_path: Path) -> None:
    assert read(tmp_path, {"desk": {"os_users": ["a.tan", "a.tan"]}})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"role": ["x"]}, r"principals\.desk\.role: unknown key\. Did you mean 'roles'\?"),
        ({"may_act_as": ["auditr"]}, r"may_act_as: unknown principal 'auditr'\. Did you mean 'auditor'\?"),
        ({"clearance": "secret"}, r"clearance: must be one of public, internal, confidential, restricted"),
        ({"os_users": [1000]}, r"os_users\.0: must be text"),
        ({"dify": [{"user": "u-1"}]}, r"dify\.0\.app: is required"),
        ({"roles": ["${ROLE}"]}, r"roles\.0: takes no variable"),
        ({"operator": "${YES}"}, r"operator: takes no variable"),
        ({"os_users": ["${USER}"]}, r"os_users\.0: takes no variable"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    env = {"ROLE": "auditor", "YES": "true", "USER": "a.tan"}
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, {"desk": row, "auditor": {}}, env)


def test_a_token_written_out_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never write the token itself") as raised:
        read(tmp_path, {"job": {"tokens": [{"sha256": "ce_open-sesame-open-sesame"}]}})
    assert "sesame" not in str(raised.value)


def test_ids_of_a_server_may_be_variables(tmp_path: Path) -> None:
    rows = {"desk": {"dify": [{"app": "${DESK_APP}"}], "tokens": [{"sha256": "${DESK_TOKEN}"}]}}
    desk = read(tmp_path, rows, {"DESK_APP": "app-1", "DESK_TOKEN": DIGEST}).principals["desk"]
    assert (desk.dify[0].app, desk.tokens[0].sha256) == ("app-1", DIGEST)
    with pytest.raises(MissingVariable, match="DESK_APP"):
        read(tmp_path, rows, {"DESK_TOKEN": DIGEST})


def test_a_version_is_required(tmp_path: Path) -> None:
    (tmp_path / "access.yaml").write_text("principals: {}\n", "utf-8")
    with pytest.raises(ConfigError, match="version: is required"):
        read_access(tmp_path / "access.yaml", "access.yaml", {})
