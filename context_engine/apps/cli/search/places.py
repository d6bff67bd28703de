"""The places where passages can be opened, and `search --open`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from context_engine.apps.cli.console import note
from context_engine.apps.web.naming import chunk_name, location
from context_engine.core.models import RankedChunk, SearchResult
from context_engine.errors import InvalidRequest

_PAGED: Final = ".pdf"


class Places:
    """The places of a result's passages.

    Args:
        result: the answer.
        base: the folder of the embedded base, which knows the files of its documents; None: no files.
    """

    def __init__(self, result: SearchResult, base: Path | None) -> None:
        from context_engine.ingest.files import IngestedFolders
        from context_engine.wiring.embedded_base import in_embedded_base

        self._folders = None if base is None else IngestedFolders(base)
        self._local = {spec.id for spec in result.specs if in_embedded_base(spec)}

    def file(self, chunk: RankedChunk) -> Path | None:
        """Return the file of the passage; None if it is not on this machine."""
        path = chunk.chunk.path
        if self._folders is None or path is None or not self.embedded(chunk):
            return None
        return self._folders.file(chunk.source_id, path)

    def embedded(self, chunk: RankedChunk) -> bool:
        """Return whether the passage comes from the embedded base."""
        return chunk.source_id in self._local

    def folders(self, chunk: RankedChunk) -> list[Path]:
        """Return the folders and files that were ingested into the passage's source."""
        return [] if self._folders is None or not self.embedded(chunk) else self._folders.of(chunk.source_id)

    def link(self, chunk: RankedChunk) -> str | None:
        """Return the passage's address, else the address of its file at its page."""
        if chunk.url is not None:
            return chunk.url
        file = self.file(chunk)
        return None if file is None else file_address(file, chunk.page)


def file_address(file: Path, page: int | None) -> str:
    """Return the address of a file, of a PDF at a page."""
    address = file.absolute().as_uri()
    return f"{address}#page={page}" if page and file.suffix.lower() == _PAGED else address


_PLUS: Final = (
    "vi",
    "vim",
    "nvim",
    "gvim",
    "view",
    "nano",
    "pico",
    "emacs",
    "emacsclient",
    "micro",
    "kak",
    "joe",
    "ne",
)

_COLON: Final = ("hx", "helix", "subl", "zed")
_GOTO: Final = ("code", "codium", "code-insiders", "cursor")

_TEXTS: Final = frozenset(
    (".md", ".markdown", ".txt", ".text", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".eml", ".erb", ".tmpl")
)


def open_place(result: SearchResult, rank: int, places: Places) -> None:
    """Open a passage: its address, else its file (a PDF at its page, a text at its line).

    If no program can be started, the place is written to stderr.

    Raises:
        InvalidRequest: the answer has no passage of that rank, or the passage has no place that could be opened.
    """
    chunk = next((chunk for chunk in result.chunks if chunk.rank == rank), None)
    if chunk is None:
        most = len(result.chunks)
        raise InvalidRequest(f"--open {rank}: the answer has {most or 'no'} passage{'s' * (most != 1)}")
    if chunk.url is not None:
        _show(chunk.url, webbrowser.open, chunk.url)
        return
    file = places.file(chunk)
    if file is None:
        raise InvalidRequest(f"--open {rank}: {_missing(chunk, places)}")
    editor = _editor(os.environ) if file.suffix.lower() in _TEXTS else None
    where = location(chunk.chunk)
    shown = f"{file} ({where})" if where else str(file)
    if editor is not None:
        _edit(_editor_command(editor, file, chunk.chunk.line), shown)
    elif file.suffix.lower() == ".pdf":
        _show(file_address(file, chunk.page), webbrowser.open, shown)
    else:
        _show(str(file), _launch, shown)


def _missing(chunk: RankedChunk, places: Places) -> str:
    """Return why there is no file, and the remedy."""
    name, path = chunk_name(chunk.chunk, chunk.chunk_id), chunk.chunk.path
    if path is None or not places.embedded(chunk):
        return (
            f"{name} has neither a file here nor a link: give its source {chunk.source_id!r} a 'url' in the manifest, "
            "such as https://HOST/{document_id}"
        )
    folders = places.folders(chunk)
    if folders:
        return f"{path} is not in {folders[0]} any more: ingest the folder again from where it is now"
    return f"where {path} lies on this machine is not known: ingest its folder again on this machine"


def _show(address: str, opener: Callable[[str], bool], shown: str) -> None:
    note(f"Opening {shown}" if _can_show() and opener(address) else f"No program could be started here. Open {shown}")


def _can_show() -> bool:
    """Return whether there is a screen, or a browser named by the user."""
    graphical = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    return sys.platform in ("win32", "darwin") or bool(graphical)


def _launch(path: str) -> bool:
    """Open a file in the system's program for its kind, else in the browser."""
    if sys.platform not in ("win32", "darwin") and shutil.which("xdg-open") is None:
        return webbrowser.open(Path(path).as_uri())
    return click.launch(path) == 0


def _editor(env: Mapping[str, str]) -> Sequence[str] | None:
    """Return the command of the user's editor; None if none is named or installed."""
    named = next((value for name in ("VISUAL", "EDITOR") if (value := env.get(name, "").strip())), "")
    words = shlex.split(named, posix=sys.platform != "win32") if named else []
    return words if words and shutil.which(words[0]) else None


def _editor_command(editor: Sequence[str], file: Path, line: int | None) -> list[str]:
    """Return the command that opens a file, at a line if the editor is known to support it."""
    name = Path(editor[0]).stem.lower()
    if line is None:
        return [*editor, str(file)]
    if name in _PLUS:
        return [*editor, f"+{line}", str(file)]
    if name in _COLON:
        return [*editor, f"{file}:{line}"]
    return [*editor, "--goto", f"{file}:{line}"] if name in _GOTO else [*editor, str(file)]


def _edit(command: Sequence[str], shown: str) -> None:
    note(f"Opening {shown}")
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        note(f"{command[0]} could not be started ({error.strerror or error}). Open {shown}", style="yellow")
