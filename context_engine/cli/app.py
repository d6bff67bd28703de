"""The command group, and what a user sees when something goes wrong: one line, never a traceback."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from context_engine.cli.console import error_line
from context_engine.errors import (
    ConfigError,
    ContextEngineError,
    EvidenceIncomplete,
    InvalidRequest,
    StoreCorrupt,
    StoreError,
)

__all__ = ["DEGRADED", "FAILURE", "INTERRUPTED", "NOT_ANSWERED", "USAGE", "App", "exit_code", "with_debug"]

FAILURE: Final = 1
USAGE: Final = 2
DEGRADED: Final = 3
NOT_ANSWERED: Final = 4
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_CODES: Final[tuple[tuple[type[ContextEngineError], int], ...]] = (
    (EvidenceIncomplete, NOT_ANSWERED),
    (StoreCorrupt, FAILURE),
    (InvalidRequest, USAGE),
    (ConfigError, USAGE),
    (StoreError, USAGE),
)

F = TypeVar("F", bound=Callable[..., Any])


def exit_code(error: ContextEngineError) -> int:
    """Return the exit code for an error: 2 usage or configuration, 4 evidence missing, 1 failure."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILURE)


class App(click.Group):
    """A click group that keeps its exit codes: see `main --help`."""

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command line; as a program it never returns."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except click.UsageError as error:
            _show_usage(error)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error_line(error.format_message())
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn its errors into one line and an exit code."""
        logging.getLogger("context_engine").addHandler(logging.NullHandler())
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
            return value
        except BrokenPipeError:
            _discard_stdout()
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt:
            error_line("interrupted")
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except ContextEngineError as error:
            self._report(ctx, error, str(error))
            ctx.exit(exit_code(error))
        except Exception as error:  # noqa: BLE001  a person gets a line, --debug the rest
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._report(ctx, error, f"{text} (--debug shows where)")
            ctx.exit(FAILURE)

    @staticmethod
    def _report(ctx: click.Context, error: Exception, message: str) -> None:
        error_line(message)
        if ctx.find_root().meta.get("debug"):
            import traceback

            sys.stderr.write("".join(traceback.format_exception(error)))


def _show_usage(error: click.UsageError) -> None:
    """Show what was called wrongly in one line; a group called alone shows its help."""
    if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        error_line(f"{error.format_message().rstrip('.')}. See '{error.ctx.command_path} --help'.")


def with_debug(command: F) -> F:
    """Give a command `--debug`."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_debug, help="Log to stderr; show where an error arose."
    )(command)


def _debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta["debug"] = True
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")


def _discard_stdout() -> None:
    """Nobody reads stdout any more: let the rest go nowhere, so that closing it at exit is quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  it lives as long as the process
