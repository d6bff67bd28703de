"""Completions of commands, options and names, as a shell asks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.apps.cli.completion import completions

MANIFEST = """
domain: {domain}
version: 1
sources:
  - {{id: {domain}_sops, type: bank_sop{rule}}}
  - {{id: {domain}_web, type: general_web}}
"""


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two domains and one persona, in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONTEXT_ENGINE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("config", "manifests"):
        (tmp_path / name).mkdir()
    for domain in ("CARDS", "LOANS"):
        (tmp_path / f"manifests/{domain}.yaml").write_text(MANIFEST.format(domain=domain, rule=""))
    (tmp_path / "config/personas.json").write_text(json.dumps({"teller": {"max_results": 3}, "// use": "a remark"}))
    return tmp_path


def values(*words: str) -> list[str]:
    """The last word is the one to complete."""
    return [item.value for item in completions(words[:-1], words[-1])]


def test_commands_are_completed_with_their_help() -> None:
    (search,) = completions([], "sea")
    assert search.value == "search" and search.help is not None and search.help.startswith("Search a domain")
    assert values("audit", "ver") == ["verify"]
    assert values("--debug", "sea") == ["search"]


def test_options_are_completed() -> None:
    assert values("search", "--pers") == ["--persona"]
    assert values("audit", "list", "--dom") == ["--domain"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("search", "-d", ""), ["CARDS", "LOANS"]),
        (("search", "limit", "--domain", "L"), ["LOANS"]),
        (("search", "--domain=C"), ["--domain=CARDS"]),
        (("search", "--domain", "=", "C"), ["CARDS"]),
        (("search", "--domain", "="), ["CARDS", "LOANS"]),
        (("search", "--persona", ""), ["teller"]),
        (("ingest", "--domain", "LOANS", "--source", ""), ["LOANS_sops", "LOANS_web"]),
        (("ingest", "--source", "CARDS_w"), ["CARDS_web"]),
        (("search", "--clearance", "x"), []),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_values_are_completed_from_the_configuration(bank: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert values(*words) == expected


def test_the_configuration_is_found_as_by_the_commands(
    bank: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert "NPA" in values("search", "-d", ""), "the demo bank"
    assert "front_desk" in values("search", "--persona", ""), "the built-in personas"
    assert values("search", "--config-dir", str(bank), "-d", "") == ["CARDS", "LOANS"]
    monkeypatch.setenv("CONTEXT_ENGINE_CONFIG_DIR", str(bank / "config"))
    assert values("search", "-d", "") == ["CARDS", "LOANS"]


def test_with_access_rules_only_what_the_user_may_know_is_completed(bank: Path) -> None:
    (bank / "manifests/CARDS.yaml").write_text(MANIFEST.format(domain="CARDS", rule=", access: {roles: [board]}"))
    (bank / "config/access.yaml").write_text("version: 1\nprincipals:\n  chair: {roles: [board]}\n")
    assert values("ingest", "--domain", "CARDS", "--source", "") == ["CARDS_web"]


def test_a_configuration_that_cannot_be_read_completes_to_nothing(bank: Path) -> None:
    (bank / "manifests/CARDS.yaml").write_text("domain: [")
    assert values("search", "-d", "") == []


def test_folders_are_left_to_the_shell() -> None:
    (item,) = completions(["search", "--config-dir"], "my")
    assert (item.type, item.value) == ("dir", "my")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell]).output
    assert f"_CONTEXT_ENGINE_COMPLETE={shell}_complete" in script
