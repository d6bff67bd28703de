"""The question before something that cannot be undone."""

from __future__ import annotations

import sys

import click


def make_sure(question: str, *, yes: bool) -> None:
    """Ask at a terminal; elsewhere `--yes` must have been given.

    Raises:
        UsageError: nobody can be asked.
        Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} It cannot be undone: say --yes.")
    click.confirm(f"{question} It cannot be undone.", abort=True, err=True)
