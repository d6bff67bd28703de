"""Options that several commands share, their types, and the question before a deletion."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from context_engine.core.models import to_moment

if TYPE_CHECKING:
    _ParamType = click.ParamType
else:

    class _ParamType(click.ParamType):
        """A parameter type that takes a type argument, as click's own does only from 8.2 on."""

        def __class_getitem__(cls, _value_type: Any) -> type:
            return cls


F = TypeVar("F", bound=Callable[..., Any])

FILE: Final = click.Path(dir_okay=False, path_type=Path)
"""A file that is written, or that may be missing."""

OLD_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""A file that exists."""

PLACE: Final = click.Path(path_type=Path)
"""A file or a folder."""

with_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
with_page = click.option("--html", "page", type=FILE, metavar="FILE", help="Write a page.")
with_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that gives a command several options, in the order of its help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def gathered(command: Callable[..., Any], gather: Callable[..., Any], *options: Callable[[Any], Any]) -> Any:
    """Return a command whose options a function gathers into one argument.

    Args:
        gather: takes all options and calls the command.
        options: those that it gathers.
    """
    gather.__name__, gather.__doc__ = command.__name__, command.__doc__
    gather.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    return with_options(*options)(gather)


def make_sure(question: str, *, yes: bool) -> None:
    """Ask for confirmation at a terminal; elsewhere `--yes` is required.

    Raises:
        UsageError: there is no terminal and no `--yes`.
        Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} It cannot be undone: say --yes.")
    click.confirm(f"{question} It cannot be undone.", abort=True, err=True)


class Day(_ParamType[date]):
    """A day, written 2025-06-30."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Return the day."""
        try:
            return value if isinstance(value, date) else date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a day: write it as 2025-06-30", param, ctx)


class Moment(_ParamType[datetime]):
    """A day or a moment, written 2025-06-30 or 2025-06-30T12:00:00Z."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, in UTC if it names no zone."""
        moment = to_moment(value)
        if moment is None:
            self.fail(f"{value!r} is not a moment: write it as 2025-06-30 or 2025-06-30T12:00:00Z", param, ctx)
        return moment


def period_options(since: str, until: str) -> tuple[Callable[[F], F], Callable[[F], F]]:
    """Return the options `--since` and `--until`, which are refused if nothing lies between them.

    Args:
        since, until: their help.
    """
    return (
        click.option("--since", type=Moment(), metavar="MOMENT", callback=_in_order, help=since),
        click.option("--until", type=Moment(), metavar="MOMENT", callback=_in_order, help=until),
    )


def _in_order(ctx: click.Context, param: click.Parameter, value: datetime | None) -> datetime | None:
    since, until = (value if param.name == name else ctx.params.get(name) for name in ("since", "until"))
    if since is not None and until is not None and until <= since:
        raise click.UsageError(
            f"Nothing lies between --since {since:%Y-%m-%dT%H:%M:%SZ} and --until {until:%Y-%m-%dT%H:%M:%SZ}: a period "
            "ends before --until. For whole days name the day after the last one."
        )
    return value


class TimeSpan(_ParamType[timedelta | datetime]):
    """A span of days or hours (90d, 12h), or the day or moment at which it ends (2027-06-30)."""

    name = "90d|DAY"
    _FORM: Final = re.compile(r"([1-9][0-9]{0,4})([hd])")
    _UNITS: Final = {"h": "hours", "d": "days"}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | datetime:
        """Return the span, or the moment, in UTC if it names no zone."""
        if isinstance(value, str) and (match := self._FORM.fullmatch(value.strip())):
            return timedelta(**{self._UNITS[match[2]]: int(match[1])})
        moment = to_moment(value)
        if moment is None:
            self.fail(f"{value!r} is neither a time nor a day: write it as 90d, 12h or 2027-06-30", param, ctx)
        return moment


class Amount(_ParamType[Decimal]):
    """An amount of money, written 25 or 12.50."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Return the amount."""
        try:
            return Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is not an amount: write it as 12.50", param, ctx)
