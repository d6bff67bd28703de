"""The guide to the record of searches names commands, options, settings and variables that there are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from context_engine.apps.cli.audit import audit
from context_engine.core.models import Settings
from context_engine.errors import AuditOff
from context_engine.settings import environment_secrets as audit_secrets

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
TEXT = (GUIDES / "audit.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"(?:context-engine audit|`audit) ([a-z]+)([^`\n|>]*)")


def test_every_command_there_is_is_named_and_no_other() -> None:
    assert {name for name, _ in COMMAND.findall(TEXT)} | {"keygen"} == set(audit.commands)


@pytest.mark.parametrize("name", sorted(audit.commands))
def test_options_that_are_shown_are_options_of_the_command(name: str) -> None:
    options = {one for param in audit.commands[name].params for one in param.opts if isinstance(param, click.Option)}
    shown = {
        one for command, rest in COMMAND.findall(TEXT) if command == name for one in re.findall(r"--[a-z-]+", rest)
    }
    assert shown <= options


def test_settings_and_variables_are_there() -> None:
    assert set(re.findall(r"`(audit_[a-z_]+)`", TEXT)) - {AuditOff.code} <= set(Settings.model_fields)
    variables = set(re.findall(r"CONTEXT_ENGINE_AUDIT_[A-Z_]+", TEXT)) - {"CONTEXT_ENGINE_AUDIT_MODE"}
    assert variables == {audit_secrets.AUDIT_LEDGER, audit_secrets.AUDIT_KEY, audit_secrets.AUDIT_FORMER_KEYS}


def test_links_lead_somewhere() -> None:
    for place, anchor in re.findall(r"\]\(([\w./-]+\.md)(?:#([\w-]+))?\)", TEXT):
        target = (GUIDES / place).resolve()
        assert target.exists(), place
        headings = {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in re.findall(
            r"^#+ (.+)$", target.read_text(encoding="utf-8"), flags=re.M
        )}  # fmt: skip
        assert not anchor or anchor in headings, f"{place}#{anchor}"
