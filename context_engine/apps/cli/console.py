"""How the command line writes: answers to stdout, the rest to stderr; texts, tables, JSON and HTML."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from context_engine.apps.web.inert import clean, encodable
from context_engine.errors import ConfigError
from context_engine.secrecy import hide

if TYPE_CHECKING:  # `--help` needs no rich
    from rich.console import Console, JustifyMethod, RenderableType
    from rich.table import Table
    from rich.text import Text

PIPE_WIDTH: Final = 140
"""Columns where nobody's terminal sets them: wide enough that no id is broken."""

_NARROWEST: Final = 40
_PLAIN: Final = dict(
    zip("·–—…×→•▪§✓✗’“”", ("-", "-", "-", "...", "x", "->", "-", "#", "s.", "y", "X", "'", '"', '"'), strict=True)
)


def out() -> Console:
    """Return the console of stdout."""
    return _console(sys.stdout)


def progress_console() -> Console:
    """Return the console of stderr, for notices and progress."""
    return _console(sys.stderr)


def note(message: str, *, style: str = "dim") -> None:
    """Write a notice to stderr."""
    from rich.text import Text

    _print_text(progress_console(), Text(clean(message), style))


def error_line(message: str) -> None:
    """Write `error: message` to stderr, one line."""
    from rich.text import Text

    line = Text("error: ", "bold red").append(" ".join(clean(message).split()), "red")
    _print_text(progress_console(), line)


def print_json(value: object) -> None:
    """Write a JSON object, or the text of one, to stdout: on one line, or indented at a terminal."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if sys.stdout.isatty():
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    print_json_line(text)


def publish(facts: Mapping[str, object]) -> None:
    """Write the JSON object of a command to stdout, the version of its schema first."""
    print_json({"schema_version": 1, **facts})


def print_json_line(text: str) -> None:
    """Write one line of JSON to stdout, escaped if stdout cannot carry UTF-8."""
    text = encodable(hide(text), backslash="\\\\")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = "".join(char if char.isascii() else _escaped(char) for char in text)
    sys.stdout.write(text + "\n")


def show(console: Console, part: RenderableType) -> None:
    """Print a text or a table within the width. In a pipe a text is one line, and the lines of a table have no
    padding.
    """
    from rich.text import Text

    if isinstance(part, Text):
        _print_text(console, part)
    elif console.is_terminal:
        console.print(part)
    else:
        with console.capture() as captured:
            console.print(part)
        console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def styled(*parts: str | tuple[str, str]) -> Text:
    """Return parts as one text.

    Args:
        parts: words that are cleaned, alone or with their style.
    """
    from rich.text import Text

    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((clean(words), style) for words, style in pairs))


def print_line(part: RenderableType = "", style: str = "") -> None:
    """Write a line to stdout.

    Args:
        part: words that are cleaned, or a text or a table as it is.
        style: of words.
    """
    show(out(), styled((part, style)) if isinstance(part, str) else part)


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]], **looks: bool) -> None:
    """Write a table to stdout; the arguments are those of `table`."""
    show(out(), table(columns, rows, **looks))


def table(
    columns: Iterable[str], rows: Iterable[Iterable[object]] = (), *, indented: bool = False, header: bool = True
) -> Table:
    """Return a table without rulings.

    Args:
        columns: the headings. ">" before one aligns the column right, "^" centres it, and "!" keeps cells in one line.
        rows: cells; a Text keeps its style, any other value becomes clean text.
        indented: whether the table is indented by a space, below a title.
        header: whether the headings are shown.
    """
    from rich.table import Table
    from rich.text import Text

    padding = (0, 1, 0, 1) if indented else (0, 2, 0, 0)
    made = Table(box=None, show_header=header, pad_edge=indented, padding=padding, header_style="dim")
    for column in columns:
        name = column.lstrip(">^!")
        signs = column[: len(column) - len(name)]
        justify: JustifyMethod = "right" if ">" in signs else "center" if "^" in signs else "left"
        made.add_column(name, justify=justify, no_wrap="!" in signs, overflow="ellipsis" if ">" in signs else "fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(clean(str(cell))) for cell in row))
    return made


def outcome(word: str, rest: str) -> None:
    """Write the result of a command to stdout, on one line: a styled word, then the details."""
    from rich.text import Text

    _print_text(out(), Text(clean(word), "green").append(f": {clean(rest)}", ""))


def _print_text(console: Console, text: Text) -> None:
    """Print a text: broken between words at a terminal, with whole lines in a pipe."""
    isatty = getattr(console.file, "isatty", None)
    console.print(text, soft_wrap=not (isatty and isatty()))


def write_text(text: str) -> None:
    """Write a text to stdout; it is unchanged in a pipe and cleaned at a terminal."""
    _forgiving(sys.stdout)
    text = clean(text) if sys.stdout.isatty() else hide(text)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def written(path: Path, content: str | bytes) -> None:
    """Write a file, a text in UTF-8, and note its path.

    Raises:
        ConfigError: it cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    note(f"written: {path}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write a file into an error that names it.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None


def read_file(path: Path, option: str | None = None) -> bytes:
    """Return the content of a file.

    Args:
        option: the option that names it, for the error.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path), key=option) from None


def read_text(path: Path) -> str:
    """Return the text of a file, its line ends as they are.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_file(path).decode()
    except UnicodeDecodeError:
        raise ConfigError("is no text in UTF-8", file=str(path)) from None


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    _forgiving(stream)
    terminal = False if _plain() else None
    width = _width(stream)
    return Console(file=stream, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)


def _plain() -> bool:
    """Whether the terminal wants no escape codes, for colour or anything else."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def _nearest_characters(error: UnicodeError) -> tuple[str, int]:
    """Replace our signs by the nearest ASCII signs, and other characters that cannot be encoded by "?"."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(char, "?") for char in error.object[error.start : error.end]), error.end


codecs.register_error("context-engine", _nearest_characters)


def _forgiving(stream: TextIO) -> None:
    """Let a stream show the nearest character that it can encode, instead of failing."""
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None and stream.errors in ("strict", "surrogateescape"):
        reconfigure(errors="context-engine")


def _width(stream: TextIO) -> int | None:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(int(columns), _NARROWEST)
    if not stream.isatty():
        return PIPE_WIDTH
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, _NARROWEST)
    except (OSError, ValueError, AttributeError):
        return None
