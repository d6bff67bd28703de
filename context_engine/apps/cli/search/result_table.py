"""A search result as a table, the part of a passage that fits the query best, and where passages can be opened."""

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
from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import note, show
from context_engine.apps.cli.words import confidence_text, joined, marks, ms, tier_text
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import also_in, chunk_name, document_name, heading, location, snippet
from context_engine.core.models import Decision, NoticeCode, RankedChunk, SearchResult, SourceStatus, Status
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest

_WIDE: Final = 116
_NARROW: Final = 72
_LINES: Final = 3
_NUMBERS: Final = 30
"""Columns before the document: rank, confidence and tier."""
_PAGED: Final = ".pdf"
_RANK: Final = 4
_SAMPLE: Final = 500
_DECISION_STYLES: Final = {Decision.ANSWERED: "green", Decision.INCOMPLETE: "red"}
_OTHER_WORDS: Final = "No relevant information found. Use other words, the documents' language, or another domain."
_NOTHING: Final = {
    Decision.OUT_OF_SCOPE: _OTHER_WORDS,
    Decision.NO_MATCH: _OTHER_WORDS,
    Decision.INCOMPLETE: "Nothing can be concluded: evidence is missing",
}


def print_result(console: Console, result: SearchResult, places: Places | None = None) -> None:
    """Print the chunks of a result, the failures, and a summary line.

    Args:
        result: the answer.
        places: the places of the passages, for links; None: no links.
    """
    corrected = [notice.message for notice in result.notices if notice.code is NoticeCode.QUERY_CORRECTED]
    for sentence in corrected:
        show(console, Text(clean(f"{sentence}\n"), "yellow"))
    if result.chunks:
        show(console, _table(result, console.width, places))
    elif result.decision in _NOTHING:
        console.print(Text(_NOTHING[result.decision], "bold"))
    if result.chunks and result.decision is Decision.OUT_OF_SCOPE:
        console.print(Text(_NOTHING[result.decision], "bold"))
    for line in _addresses(console, result):
        show(console, line)
    console.print()
    for line in beside_the_answer(result):
        if line.plain not in map(clean, corrected):
            show(console, line)
    show(console, summary(result))


def _addresses(console: Console, result: SearchResult) -> list[Text]:
    """Return the addresses of the passages, each on a line, where no terminal opens them from the table."""
    if console.is_terminal and console.color_system is not None and not console.legacy_windows:
        return []
    addresses = [(chunk.rank, chunk.url) for chunk in result.chunks if chunk.url is not None]
    return [Text(), *(Text(f"{rank}  {url}") for rank, url in addresses)] if addresses else []


def summary(result: SearchResult) -> Text:
    """Return status, decision, counts, time and search id on one line."""
    answered = sum(source.state != "failed" for source in result.sources)
    count = len(result.sources)
    sources = f"{answered} of {count} sources" if answered < count else counted(count, "source")
    parts = [
        Text(str(result.status), "green" if result.status is Status.COMPLETE else "yellow"),
        Text(str(result.decision), _DECISION_STYLES.get(result.decision, "yellow")),
        Text(f"{len(result.chunks)} of {counted(len(result.fates), 'candidate')} from {sources}"),
        Text(ms(sum(stage.elapsed_ms for stage in result.stages))),
        Text(f"search {result.search_id}", "dim"),
    ]
    return joined(parts)


def beside_the_answer(result: SearchResult) -> list[Text]:
    """Return caveats of an answer, one line each: sources without an answer, another spelling, narrowing."""
    reranker = (notice.message for notice in result.notices if notice.code is NoticeCode.RERANK_FAILED)
    sentences = [Text(clean(sentence), "yellow") for sentence in (*reranker, *result.beside_the_answer)]
    return [*map(_failure, result.failed_alike), *sentences]


def _failure(sources: Sequence[SourceStatus]) -> Text:
    """Return the line for sources that failed in the same way."""
    first = sources[0]
    code = (first.error or {}).get("code", "error")
    state = "failed" if first.state == "failed" else "failed in part"
    if len(sources) == 1:
        line = Text(f"source {first.source_id} {state}", "yellow")
        return line.append(f" (tier {first.authority_tier}, {code}): {clean(first.problem)}", "")
    names = ", ".join(f"{source.source_id} (tier {source.authority_tier})" for source in sources)
    line = Text(f"{len(sources)} sources {state}", "yellow")
    return line.append(f" ({code}): {clean(first.problem)}: {clean(names)}", "")


def _table(result: SearchResult, width: int, places: Places | None) -> Table:
    columns: tuple[str, ...] = ("#", "confidence", "tier", "document")
    if width >= _WIDE:
        columns = (*columns, "text")
    elif width < _NARROW:
        columns = ("#", "document")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=width >= _WIDE)
    for name in columns:
        ratio = {"document": 2, "text": 3}.get(name) if width >= _WIDE else None
        folds = name in ("document", "text")
        justify: JustifyMethod = "right" if name == "#" else "default"
        table.add_column(name, justify=justify, no_wrap=not folds, overflow="fold", ratio=ratio)
    for chunk in result.chunks:
        table.add_row(*_row(chunk, result.answered_query, width, None if places is None else places.link(chunk)))
        if chunk is not result.chunks[-1]:
            table.add_row()
    return table


def _row(chunk: RankedChunk, query: str, width: int, link: str | None) -> list[RenderableType]:
    name, title = document_name(chunk.chunk, chunk.chunk_id)
    bold = Text(name, _linked("bold", link))
    under = joined([Text(line) for line in dict.fromkeys((title, heading(chunk.chunk))) if line != name])
    about = joined([Text(clean(chunk.source_id), "dim"), *marks(chunk)])
    also = Text(clean(also_in(chunk)), "dim")
    numbers = [Text(str(chunk.rank)), confidence_text(chunk.confidence), tier_text(chunk.authority_tier)]
    if width >= _WIDE:
        left, right = (width - _NUMBERS) * 2 // 5, (width - _NUMBERS) * 3 // 5
        document = _lines(bold, under, _place(chunk, left, link), about)
        return [*numbers, document, _lines(_snippet(chunk, query, right), also)]
    if width < _NARROW:
        room = width - _RANK
        first = joined([*numbers[1:], bold])
        return [numbers[0], _lines(first, under, _snippet(chunk, query, room), _place(chunk, room, link), about, also)]
    room = width - _NUMBERS
    first = joined([bold, under])
    return [*numbers, _lines(first, _snippet(chunk, query, room), _place(chunk, room, link), about, also)]


def _linked(style: str, link: str | None) -> Style:
    """Return a style that links its text, if the terminal supports links."""
    return Style.parse(style) + Style(link=link) if link else Style.parse(style)


def _place(chunk: RankedChunk, room: int, link: str | None) -> Text:
    """Return the file with page or line."""
    path = _shortened(clean(chunk.chunk.path or ""), room - cell_len(location(chunk.chunk)) - 3)
    style = _linked("dim", link)
    return joined([Text(path, style), Text(location(chunk.chunk), style)])


def _shortened(path: str, room: int) -> str:
    """Return a path that fits, its first folders left out; the file's name is kept whole.

    >>> _shortened("policies/engineering/incidents/recovery.md", 30)
    '…/incidents/recovery.md'
    """
    parts = path.split("/")
    while len(parts) > 1 and cell_len(path) > room:
        parts = parts[1:]
        path = "/".join(("…", *parts))
    return path


def _lines(*lines: Text) -> Text:
    return Text("\n").join([line for line in lines if line.plain])


def _snippet(chunk: RankedChunk, query: str, room: int) -> Text:
    content = clean(chunk.content)
    sample = content[:_SAMPLE]
    letters = max(room, 30) * len(sample) // max(cell_len(sample), 1)
    piece = snippet(content, query, letters * _LINES - 10, heading(chunk.chunk))
    text = Text(piece.text)
    for start, end in piece.marks:
        text.stylize("bold yellow", start, end)
    return text


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
