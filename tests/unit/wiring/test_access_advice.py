"""What doctor says of the access rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.core.models import NoticeCode
from context_engine.wiring.access_advice import access_notices
from context_engine.wiring.setup import load_setup

MANIFEST = """
version: 1
domain: NPA
sources:
  - {id: board, type: bank_sop, classification: restricted}
  - {id: sops, type: bank_sop, classification: confidential, access: {roles: [analyst, auditor], groups: [sg]}}
  - {id: policies, type: bank_sop}
"""
DIFY = """
  - {id: first, type: bank_sop, adapter: dify, connection: dify, dataset_ids: [d1], access: {roles: [analyst]}}
  - {id: second, type: bank_sop, adapter: dify, connection: dify, dataset_ids: [d1, d2]}
"""
ACCESS = "version: 1\nprincipals: {desk: {roles: [analyst], os_users: [a.tan]}}\n"


def found(place: Path, manifest: str = MANIFEST, access: str | None = ACCESS) -> list[tuple[str, str]]:
    (place / "manifests").mkdir()
    (place / "config").mkdir(mode=0o755)
    (place / "manifests/npa.yaml").write_text(manifest, "utf-8")
    (place / "config/connections.yaml").write_text("dify: {base_url: https://dify.bank.example/v1}\n", "utf-8")
    if access is not None:
        (place / "config/access.yaml").write_text(access, "utf-8")
        (place / "config/access.yaml").chmod(0o644)
    return codes(place)


def codes(place: Path) -> list[tuple[str, str]]:
    return [(one.code, one.subject) for one in access_notices(load_setup(env={"HOME": str(place)}, cwd=place))]


def test_a_source_above_internal_without_a_rule_and_holders_that_nobody_is(tmp_path: Path) -> None:
    assert found(tmp_path) == [
        (NoticeCode.SOURCE_WITHOUT_RULE, "board"),
        (NoticeCode.HOLDER_UNKNOWN, "role auditor"),
        (NoticeCode.HOLDER_UNKNOWN, "group sg"),
    ]


def test_a_rule_of_the_domain_is_one(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("domain: NPA", "domain: NPA\naccess: {roles: [analyst]}")
    assert (NoticeCode.SOURCE_WITHOUT_RULE, "board") not in found(tmp_path, manifest)


def test_claims_may_give_roles_that_no_file_knows(tmp_path: Path) -> None:
    assert found(tmp_path, access=ACCESS + "claims: {roles: roles}\n") == [(NoticeCode.SOURCE_WITHOUT_RULE, "board")]


def test_rules_without_the_file_admit_nobody(tmp_path: Path) -> None:
    assert found(tmp_path, access=None) == [
        (NoticeCode.SOURCE_WITHOUT_RULE, "board"),
        (NoticeCode.HOLDER_UNKNOWN, "access.yaml"),
    ]


def test_a_dataset_behind_two_rules_and_the_key_that_opens_all(tmp_path: Path) -> None:
    said = found(tmp_path, MANIFEST + DIFY)
    assert (NoticeCode.DATASET_RULES_DIFFER, "d1") in said
    assert (NoticeCode.DATASET_RULES_DIFFER, "d2") not in said
    assert (NoticeCode.DATASET_KEY_UNBOUND, "dify") in said


def test_nothing_rests_on_rules_where_there_are_none(tmp_path: Path) -> None:
    sources = DIFY.replace(", access: {roles: [analyst]}", "")
    assert found(tmp_path, "version: 1\ndomain: NPA\nsources:" + sources, access=None) == []


@pytest.mark.parametrize("name", ["config/access.yaml", "config"])
def test_what_everybody_may_change(tmp_path: Path, name: str) -> None:
    found(tmp_path)
    (tmp_path / name).chmod(0o777)
    assert (NoticeCode.ACCESS_FILE_WRITABLE, "config/access.yaml") in codes(tmp_path)
