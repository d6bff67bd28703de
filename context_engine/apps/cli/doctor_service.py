"""What `doctor` says of the service: what opens it, and whether the keys of the identity provider can be had."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.apps.cli.words import counted
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.apps.cli.context import CliContext
    from context_engine.wiring.openings import Openings


class ServiceReport(NamedTuple):
    """What opens the service.

    Attributes:
        opened: what does; None where it cannot be told.
        problem: why the service would not start.
        keys_problem: why the keys of the identity provider cannot be had now; None where they can, or there is none.
    """

    opened: Openings | None
    problem: str | None = None
    keys_problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        opened = None if self.opened is None else self.opened._asdict()
        return {"opened_by": opened, "problem": self.problem, "keys_problem": self.keys_problem}


def service_report(context: CliContext) -> ServiceReport:
    """Return what opens the service of a configuration; an identity provider is asked for its keys."""
    from context_engine.wiring.openings import openings, unreachable_keys

    try:
        opened = openings(context.setup, context.data_dir, datetime.now(UTC))
    except ConfigError as error:
        return ServiceReport(None, str(error))
    return ServiceReport(opened, keys_problem=unreachable_keys(context.setup))


def service_lines(report: ServiceReport) -> Iterator[Text]:
    """Yield what a person should know, a line each."""
    if report.opened is None:
        yield Text(f"✗ the service would not start: {clean(report.problem or '')}", "red")
        return
    yield Text(f"service: {clean(_opened_by(report.opened))}", "dim")
    if report.keys_problem is not None:
        said = f"the keys of the identity provider cannot be had, so its tokens open nothing: {report.keys_problem}"
        yield Text(f"! {clean(said)}", "yellow")


def _opened_by(opened: Openings) -> str:
    tokens = opened.stored + opened.in_file
    means = [
        *(["the API token"] if opened.api_token else []),
        *([counted(tokens, "token")] if tokens else []),
        *([f"access tokens of {opened.issuer}"] if opened.issuer is not None else []),
    ]
    expired = f" ({counted(opened.expired, 'token')} expired)" if opened.expired else ""
    return ("opened by " + ", ".join(means) if means else "nothing opens it") + expired
