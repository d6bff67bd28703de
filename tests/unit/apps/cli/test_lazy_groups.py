"""Groups import a command's module when it is called; their help does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from context_engine.apps.cli import main
from context_engine.apps.cli.app import LazyGroup


def _lazy_groups(group: click.Group) -> Iterator[LazyGroup]:
    if isinstance(group, LazyGroup):
        yield group
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from _lazy_groups(command)


GROUPS = list(_lazy_groups(main))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_every_command_is_where_the_group_says_and_bears_its_name(group: LazyGroup) -> None:
    assert set(group.short_helps) == set(group.commands)
    assert {name: command.name for name, command in group.commands.items()} == {name: name for name in group.commands}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.name))
def test_a_short_help_is_one_sentence_that_is_not_cut(group: LazyGroup) -> None:
    text = group.get_help(click.Context(group, info_name=group.name))
    assert all(line in text for line in group.short_helps.values())


@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--help"], ["--version"]])
def test_help_imports_neither_the_engine_nor_a_command(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom context_engine.apps.cli import main\n"
        f"main({arguments}, standalone_mode=False)\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('context_engine.', 'rich', 'pydantic'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    room = {"context_engine.apps.cli.audit"} if "audit" in arguments else set()
    errors = {f"context_engine.errors.{name}" for name in ("base", "safeguards", "sources")}
    assert loaded - room - errors == {
        *("context_engine.errors", "context_engine.secrecy", "context_engine.apps", "context_engine.apps.cli"),
        *("context_engine.apps.cli.app", "context_engine.apps.cli.console"),
        *("context_engine.apps.web", "context_engine.apps.web.inert"),
    }
