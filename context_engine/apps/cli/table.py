"""A result as a table a person reads."""

from __future__ import annotations

from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import clean, show
from context_engine.apps.cli.snippet import snippet
from context_engine.apps.cli.words import also_in, chunk_name, counted, heading, joined, marks, ms, tier_text
from context_engine.core.models import Decision, NoticeCode, RankedChunk, SearchResult, SourceStatus, Status

__all__ = ["failures", "print_result", "summary"]

_WIDE: Final = 116
_LINES: Final = 3
_NUMBERS: Final = 24
_BESIDE_THE_TABLE: Final = (
    NoticeCode.REQUIRED_TIER_MISSING,
    NoticeCode.REQUIRED_SOURCE_MISSING,
    NoticeCode.FILTER_LEFT_NOTHING,
    NoticeCode.DATES_UNKNOWN,
    NoticeCode.THRESHOLD_NOT_APPLICABLE,
    NoticeCode.MANIFEST_UNUSABLE,
)
"""What changes how an answer is to be read; `--explain` shows all notices."""
_DECISION_STYLES: Final = {Decision.ANSWERED: "green", Decision.INCOMPLETE: "red"}
_NOTHING: Final = {
    Decision.OUT_OF_SCOPE: "No relevant information found",
    Decision.NO_MATCH: "No relevant information found",
    Decision.INCOMPLETE: "Nothing can be concluded: evidence is missing",
}


def print_result(console: Console, result: SearchResult) -> None:
    """Print the chunks of a result, what failed, and one line about the whole."""
    if result.chunks:
        show(console, _table(result, console.width))
    elif result.decision in _NOTHING:
        console.print(Text(_NOTHING[result.decision], "bold"))
    if result.chunks and result.decision is Decision.OUT_OF_SCOPE:
        console.print(Text(_NOTHING[result.decision], "bold"))
    console.print()
    for line in (*failures(result), *_sentences(result, *_BESIDE_THE_TABLE)):
        console.print(line, soft_wrap=True)
    console.print(summary(result), soft_wrap=True)


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


def failures(result: SearchResult) -> list[Text]:
    """Return a line for each source that did not answer, and for a reranker that did not."""
    lines = [_failure(source) for source in result.sources if source.error is not None]
    return lines + _sentences(result, NoticeCode.RERANK_FAILED)


def _failure(source: SourceStatus) -> Text:
    error = source.error or {}
    what = "failed" if source.state == "failed" else "failed in part"
    line = Text(f"source {source.source_id} {what}", "yellow")
    return line.append(f" (tier {source.authority_tier}, {error.get('code', 'error')}): {clean(source.problem)}", "")


def _sentences(result: SearchResult, *codes: NoticeCode) -> list[Text]:
    return [Text(clean(notice.message), "yellow") for notice in result.notices if notice.code in codes]


def _table(result: SearchResult, width: int) -> Table:
    wide = width >= _WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=wide)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("tier", no_wrap=True)
    if wide:
        table.add_column("document", overflow="fold", ratio=2)
        table.add_column("text", overflow="fold", ratio=3)
    else:
        table.add_column("document", overflow="fold")
    for chunk in result.chunks:
        table.add_row(*_row(chunk, result.query, width, wide))
        if chunk is not result.chunks[-1]:
            table.add_row()
    return table


def _row(chunk: RankedChunk, query: str, width: int, wide: bool) -> list[RenderableType]:
    name = Text(chunk_name(chunk.chunk, chunk.chunk_id), "bold")
    about = joined([Text(clean(chunk.source_id), "dim"), *marks(chunk)])
    also = Text(clean(also_in(chunk)), "dim")
    numbers: list[RenderableType] = [Text(str(chunk.rank)), Text(f"{chunk.final:.3f}"), tier_text(chunk.authority_tier)]
    if wide:
        room = (width - _NUMBERS) * 3 // 5
        document = _lines(name, Text(heading(chunk.chunk)), about)
        return [*numbers, document, _lines(_snippet(chunk, query, room), also)]
    title = joined([name, Text(heading(chunk.chunk))])
    return [*numbers, _lines(title, _snippet(chunk, query, width - _NUMBERS), about, also)]


def _lines(*lines: Text) -> Text:
    return Text("\n").join([line for line in lines if line.plain])


def _snippet(chunk: RankedChunk, query: str, room: int) -> Text:
    found = snippet(clean(chunk.content), query, max(room, 30) * _LINES - 10, heading(chunk.chunk))
    text = Text(found.text)
    for start, end in found.marks:
        text.stylize("bold yellow", start, end)
    return text
