"""The command group, and error handling: the user sees one line, never a traceback."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

import click

from context_engine.apps.cli.console import error_line, print_json
from context_engine.errors import (
    ConfigError,
    ContextEngineError,
    EvidenceIncomplete,
    InvalidRequest,
    QueryNotRecorded,
    RecordNotFound,
    StoreCorrupt,
    StoreError,
)
from context_engine.secrecy import hide_in_error

FAILURE: Final = 1
USAGE: Final = 2
DEGRADED: Final = 3
NOT_ANSWERED: Final = 4
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143
_CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})

WRITTEN: Final = "context_engine.written"
"""Key of `click.Context.meta`, set if a command wrote its JSON before it raised an error."""

_CODES: Final[tuple[tuple[type[ContextEngineError], int], ...]] = (
    (EvidenceIncomplete, NOT_ANSWERED),
    (QueryNotRecorded, NOT_ANSWERED),
    (RecordNotFound, USAGE),
    (StoreCorrupt, FAILURE),
    (InvalidRequest, USAGE),
    (ConfigError, USAGE),
    (StoreError, USAGE),
)

F = TypeVar("F", bound=Callable[..., Any])


def exit_code(error: ContextEngineError) -> int:
    """Return the exit code for an error: 2 usage or configuration, 4 evidence missing, 1 failure."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILURE)


class _Terminated(KeyboardInterrupt):
    """The process received SIGTERM; it ends as after Ctrl-C, together with the processes it started."""


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name; a module is imported when its command is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(module), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name], self._loaded[name] = "", command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class LazyGroup(click.Group):
    """A group whose `--help` imports none of its commands.

    Args:
        package: the package of the modules in `lazy`.
        lazy: for each command, "module:attribute" and its short help, which is the beginning of the command's help.
    """

    def __init__(self, name: str, package: str, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        places = {command: f"{package}.{place}" for command, (place, _) in lazy.items()}
        super().__init__(name, commands=_Commands(places), **settings)
        self.short_helps = {command: text for command, (_, text) in lazy.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and short helps, cut to the width as click cuts them."""
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))  # click's own arithmetic: three times the default spacing
        rows = [(name, click.Command(name, help=self.short_helps[name]).get_short_help_str(limit)) for name in names]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class App(LazyGroup):
    """The whole command line, with the exit codes that its help lists. A command returns its code; None is 0."""

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command line; as a program it never returns."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        _open_streams()
        try:
            with _ending_in_order():
                code = super().main(args, standalone_mode=False, **extra)
        except click.UsageError as error:
            _show_usage(error)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error_line(error.format_message())
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except OSError as error:
            _discard_stdout()
            error_line(_words(error))
            sys.exit(FAILURE)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn its errors into one line and an exit code."""
        logging.getLogger("context_engine").addHandler(logging.NullHandler())
        as_json = "--json" in ctx.args
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
            return value
        except BrokenPipeError:
            _discard_stdout()
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt as request:
            terminated = isinstance(request, _Terminated)
            error_line("terminated" if terminated else "interrupted")
            ctx.exit(TERMINATED if terminated else INTERRUPTED)
        except click.UsageError as error:
            if as_json and (error.ctx is None or any("--json" in param.opts for param in error.ctx.command.params)):
                _write_error("usage", error.format_message())
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except ContextEngineError as error:
            code = exit_code(error)
            if as_json and not ctx.meta.get(WRITTEN):
                _write_error(error.code, str(error))
            self._report(ctx, error, f"{error}{_others(error)}")
            ctx.exit(code)
        except Exception as error:  # noqa: BLE001  a person gets a line, --debug the rest
            if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
                _discard_stdout()
            self._report(ctx, error, _words(error))
            ctx.exit(FAILURE)

    @staticmethod
    def _report(ctx: click.Context, error: Exception, message: str) -> None:
        error_line(message)
        if ctx.find_root().meta.get("debug"):
            import traceback

            sys.stderr.write(hide_in_error("".join(traceback.format_exception(error))))


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let SIGTERM end a command by an exception, so that temporary folders and processes do not outlive it."""
    alone = threading.current_thread() is threading.main_thread()  # only this thread gets signals
    if not alone or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # the caller handles it
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(_number: int, _frame: object) -> None:
    raise _Terminated


def _others(error: ContextEngineError) -> str:
    """Return a clause with the number of further problems in the configuration."""
    count = len(error.others) if isinstance(error, ConfigError) else 0
    return f" (and {count} more: 'context-engine config check' names all)" if count else ""


def _words(error: Exception) -> str:
    """Return one line for an unexpected error, or for an output that cannot be written."""
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
        return f"cannot write: {error.strerror}"
    if isinstance(error, OSError) and error.filename and error.strerror:
        mend = ": give this user access to it and the folders above it" if isinstance(error, PermissionError) else ""
        text = f"{os.fsdecode(error.filename)}: {error.strerror}{mend}"
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{hide_in_error(text)} (--debug shows where)"


def _write_error(code: str, message: str) -> None:
    """Write an error as the JSON object that --json promises."""
    print_json({"error": {"code": code, "message": message}})


def _open_streams() -> None:
    """Replace a closed stderr by the null device, and end if stdout is closed."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  it lives as long as the process
    if sys.stdout is None:
        error_line("standard output is closed: there is nowhere to write to")
        sys.exit(FAILURE)


def _show_usage(error: click.UsageError) -> None:
    """Show a usage error in one line; a group without a command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    message = error.format_message().rstrip(".")
    path = "context-engine" if error.ctx is None else error.ctx.command_path  # click does not say for all of them
    error_line(f"{message}{'' if message.endswith('?') else '.'} See '{path} --help'.")


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
    """Send the rest of stdout to the null device, because nobody reads it any more; closing it then raises nothing."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  it lives as long as the process
