"""Who is who: users, Dify's callers, tokens and claims as principals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.models import NOBODY, Classification
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import find_config, load_config
from context_engine.settings.access_file import AccessFile
from context_engine.settings.principals import NO_PRINCIPALS, Principals, token_hash

NOW = datetime(2026, 11, 23, 2, tzinfo=UTC)


def principals(claims: Any = None, **entries: Any) -> Principals:
    return Principals(AccessFile.model_validate({"version": 1, "principals": entries, "claims": claims}))


class TestOfTheSystem:
    WHO = principals(
        desk={"roles": ["analyst"], "groups": ["sg"], "os_users": ["a.tan"], "may_act_as": ["auditor"]},
        auditor={"roles": ["auditor"], "clearance": "restricted"},
        platform={"os_users": ["kb-admin"], "operator": True},
    )

    def test_a_user_is_the_principal_that_names_it(self) -> None:
        found = self.WHO.for_os_user("a.tan")
        assert (found.id, found.roles, found.groups) == ("desk", {"analyst"}, {"sg"})
        assert found.clearance is Classification.INTERNAL

    @pytest.mark.parametrize("user", ["A.Tan", "a.tan ", "desk", "auditor", ""])
    def test_any_other_is_nobody(self, user: str) -> None:
        assert self.WHO.for_os_user(user) == NOBODY

    def test_who_is_allowed_to_acts_as_another(self) -> None:
        assert self.WHO.acting_as("a.tan", "auditor").clearance is Classification.RESTRICTED
        assert self.WHO.acting_as("a.tan", "desk") == self.WHO.for_os_user("a.tan")
        assert self.WHO.acting_as("kb-admin", "auditor").id == "auditor"

    @pytest.mark.parametrize("user", ["a.tan", "guest"])
    def test_who_is_not_does_not_learn_whether_there_is_such_a_principal(self, user: str) -> None:
        with pytest.raises(InvalidRequest) as real:
            self.WHO.acting_as(user, "platform")
        with pytest.raises(InvalidRequest) as made_up:
            self.WHO.acting_as(user, "platfurm")
        assert str(real.value).replace("platform", "platfurm") == str(made_up.value)

    def test_an_operator_learns_it(self) -> None:
        with pytest.raises(InvalidRequest, match="Did you mean 'auditor'"):
            self.WHO.acting_as("kb-admin", "auditer")

    def test_an_operator_is_who_the_file_says(self) -> None:
        assert [self.WHO.is_operator(user) for user in ("kb-admin", "a.tan", "root")] == [True, False, False]

    def test_without_a_file_everybody_operates_and_nobody_is_named(self) -> None:
        assert NO_PRINCIPALS.is_operator("guest")
        assert NO_PRINCIPALS.for_os_user("a.tan") == NOBODY
        with pytest.raises(InvalidRequest, match=r"access\.yaml"):
            NO_PRINCIPALS.acting_as("guest", "auditor")


class TestOfDify:
    WHO = principals(
        app={"roles": ["reader"], "dify": [{"app": "app-1"}]},
        lead={"roles": ["lead"], "dify": [{"app": "app-1", "user": "u-7"}, {"app": "app-2", "user": "u-7"}]},
    )

    @pytest.mark.parametrize(
        ("app", "user", "name"),
        [
            ("app-1", None, "app"),
            ("app-1", "u-1", "app"),
            ("app-1", "u-7", "lead"),
            ("app-2", "u-7", "lead"),
            ("app-2", "u-1", ""),
            ("app-2", None, ""),
            (None, "u-7", ""),
            ("", "u-7", ""),
        ],
    )
    def test_the_user_of_the_app_counts_before_the_app(self, app: str | None, user: str | None, name: str) -> None:
        assert self.WHO.for_dify(app, user).id == name


class TestOfAToken:
    WHO = principals(
        job={
            "roles": ["reader"],
            "tokens": [
                {"sha256": token_hash("ce_old"), "expires": NOW},
                {"sha256": token_hash("ce_new"), "expires": NOW + timedelta(seconds=1)},
                {"sha256": token_hash("ce_ever")},
            ],
        },
    )

    def test_a_token_opens_until_the_moment_it_expires(self) -> None:
        found = {token: self.WHO.for_token(token, now=NOW) for token in ("ce_old", "ce_new", "ce_ever", "ce_none", "")}
        assert {token for token, one in found.items() if one is not None} == {"ce_new", "ce_ever"}

    def test_a_hash_is_no_token(self) -> None:
        assert self.WHO.for_token(token_hash("ce_ever"), now=NOW) is None

    def test_the_hash_is_sha_256(self) -> None:
        assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


class TestOfClaims:
    def test_without_names_of_claims_they_open_nothing(self) -> None:
        assert principals().for_claims({"sub": "x", "roles": ["auditor"]}) == NOBODY

    def test_a_dot_leads_into_a_claim(self) -> None:
        who = principals({"roles": "realm_access.roles", "groups": "groups"})
        found = who.for_claims({"sub": "u-1", "realm_access": {"roles": ["reader", 7]}, "groups": "sg"})
        assert (found.id, found.roles, found.groups) == ("u-1", {"reader"}, {"sg"})
        assert found.clearance is Classification.INTERNAL

    def test_a_claim_whose_name_has_dots_is_found_by_it(self) -> None:
        who = principals({"roles": "https://bank.example/roles"})
        assert who.for_claims({"https://bank.example/roles": ["reader"]}).roles == {"reader"}

    @pytest.mark.parametrize(
        ("claim", "clearance"),
        [
            ("CONFIDENTIAL", Classification.CONFIDENTIAL),
            ("top", Classification.PUBLIC),
            (4, Classification.PUBLIC),
            (None, Classification.PUBLIC),
        ],
    )
    def test_a_clearance_that_cannot_be_read_is_the_least(self, claim: Any, clearance: Classification) -> None:
        who = principals({"clearance": "level"})
        assert who.for_claims({"level": claim}).clearance is clearance

    @pytest.mark.parametrize("claims", [{}, {"realm_access": "x"}, {"realm_access": {"roles": {"reader": True}}}])
    def test_claims_of_another_form_name_nothing(self, claims: dict[str, Any]) -> None:
        found = principals({"roles": "realm_access.roles"}).for_claims(claims)
        assert (found.id, found.roles) == ("", frozenset())


def test_the_configuration_holds_the_principals(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "access.yaml").write_text("version: 1\nprincipals: {desk: {os_users: a.tan}}\n", "utf-8")
    config = load_config(find_config(env={}, cwd=tmp_path), env={})
    assert config.principals.in_force
    assert config.principals.for_os_user("a.tan").id == "desk"
    (folder / "access.yaml").write_text("version: 1\nprincipal: {}\n", "utf-8")
    with pytest.raises(ConfigError, match="Did you mean 'principals'"):
        load_config(find_config(env={}, cwd=tmp_path), env={})
