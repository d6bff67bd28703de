"""`oidc:` and `gateway:` of access.yaml: what is taken, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from context_engine.errors import ConfigError
from context_engine.settings.access_file import AccessFile, read_access
from context_engine.settings.principals import Principals

GOOD = {
    "issuer": "https://id.example/staff",
    "audience": "context-engine",
    "algorithms": "RS256",
    "jwks": "https://id.example/keys?v=1",
}


def read(tmp_path: Path, oidc: Any, **more: Any) -> AccessFile:
    path = tmp_path / "access.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "claims": {}, "oidc": oidc, **more}), "utf-8")
    return read_access(path, "config/access.yaml", {})


def test_one_audience_and_one_algorithm_need_no_list(tmp_path: Path) -> None:
    oidc = read(tmp_path, GOOD).oidc
    assert oidc is not None
    assert (oidc.audience, oidc.algorithms, oidc.leeway_s, oidc.at_jwt_only) == (
        ("context-engine",),
        ("RS256",),
        30,
        False,
    )


@pytest.mark.parametrize("jwks", ["id-provider", "https://id.example", "http://127.0.0.1:8080/keys", "http://[::1]/k"])
def test_keys_come_from_a_connection_or_an_address_nobody_can_change_on_the_way(tmp_path: Path, jwks: str) -> None:
    assert read(tmp_path, {**GOOD, "jwks": jwks}).oidc is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("algorithms", "none"),
        ("algorithms", ["RS256", "HS256"]),
        ("algorithms", "ES256K"),
        ("algorithms", []),
        ("audience", []),
        ("audience", ""),
        ("issuer", ""),
        ("jwks", "http://id.example/keys"),
        ("jwks", "ftp://id.example/keys"),
        ("jwks", "https://user:word@id.example/keys"),
        ("leeway_s", 301),
        ("leeway_s", -1),
        ("leeway_s", True),
        ("min_refresh_s", 0),
    ],
)
def test_what_would_open_too_much_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, {**GOOD, key: value})
    assert refused.value.key is not None and refused.value.key.startswith(f"oidc.{key}")


@pytest.mark.parametrize("key", ["issuer", "audience", "algorithms", "jwks"])
def test_what_decides_is_never_left_to_a_default(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, {name: value for name, value in GOOD.items() if name != key})


@pytest.mark.parametrize("key", ["issuer", "audience", "jwks"])
def test_no_variable_says_whose_tokens_are_taken(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, {**GOOD, key: "${ID}"})


def test_claims_must_say_as_whom_tokens_act(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, GOOD, claims=None)
    assert refused.value.key == "oidc"


def test_a_token_has_what_the_entry_of_its_principal_says() -> None:
    entries = {"dify": {"roles": ["reader"], "gateway": True}, "desk": {"operator": True}, "api": {"roles": ["open"]}}
    who = Principals(AccessFile.model_validate({"version": 1, "principals": entries}))
    found = {name: who.caller(name, "t") for name in ("dify", "desk", "api", "none")}
    assert {name: one and (one.operator, one.gateway) for name, one in found.items()} == {
        "dify": (False, True),
        "desk": (True, False),
        "api": (False, False),
        "none": None,
    }
    assert found["api"] is not None and found["api"].principal.roles == {"open"}
    without = Principals().caller("api", "t")
    assert without is not None and (without.principal.id, without.principal.roles) == ("api", frozenset())
