"""Options that are shared keep the order of the help, and one function gathers those of one value."""

from __future__ import annotations

import io
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

from context_engine.apps.cli.options import gathered, make_sure, with_json, with_options

with_span = with_options(click.option("--since"), click.option("--until"))


def with_place(command: Any) -> Any:
    def gather(*, folder: str | None, **options: Any) -> Any:
        return command(place=f"in {folder}", **options)

    return gathered(command, gather, click.option("--folder"))


@click.command()
@with_span
@with_json
@with_place
def count(place: str, since: str | None, until: str | None, as_json: bool) -> None:
    """Count."""
    click.echo(f"{place} {since} {until} {as_json}")


def test_options_stand_in_the_order_in_which_they_are_named() -> None:
    assert [param.opts[0] for param in count.params] == ["--since", "--until", "--json", "--folder"]
    assert count.help == "Count."


def test_a_gathered_option_reaches_the_command_as_one_argument() -> None:
    done = CliRunner().invoke(count, ["--folder", "base", "--until", "2026", "--json"])
    assert done.output == "in base None 2026 True\n"


def test_nothing_is_deleted_without_a_terminal_or_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    make_sure("Delete it?", yes=True)
    with pytest.raises(click.UsageError, match="--yes"):
        make_sure("Delete it?", yes=False)
