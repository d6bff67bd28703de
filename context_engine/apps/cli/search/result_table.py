"""A search result as a table, and the part of a passage that fits the query best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import show
from context_engine.apps.cli.search.places import Places
from context_engine.apps.cli.words import confidence_text, joined, marks, ms, tier_text
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import also_in, document_name, heading, location, snippet
from context_engine.core.models import Decision, NoticeCode, RankedChunk, SearchResult, SourceStatus, Status
from context_engine.core.text import counted

_WIDE: Final = 116
_NARROW: Final = 72
_LINES: Final = 3
_NUMBERS: Final = 30
"""Columns before the document: rank, confidence and tier."""

_RANK: Final = 4
_SAMPLE: Final = 500
_DECISION_STYLES: Final = {Decision.ANSWERED: "green", Decision.INCOMPLETE: "red"}

_NOTHING: Final = {
    Decision.OUT_OF_SCOPE: "No relevant information found",
    Decision.NO_MATCH: "No relevant information found",
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
