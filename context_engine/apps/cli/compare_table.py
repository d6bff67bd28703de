"""A comparison as a table a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import clean, show
from context_engine.apps.cli.table import beside_the_answer
from context_engine.apps.cli.words import candidate_names, counted, joined, tier_text
from context_engine.core.models import Key, SearchResult

if TYPE_CHECKING:
    from context_engine.service.contract.comparison import Comparison


_STYLES: Final = {"same": "dim", "moved": "cyan", "entered": "green", "left": "yellow"}


class _Row(NamedTuple):
    """A chunk: what became of it, its rank in the pool and in the answer, and why."""

    turn: str
    key: Key
    before: int | None
    after: int | None
    why: str = ""


def print_comparison(console: Console, comparison: Comparison, result: SearchResult) -> None:
    """Print baseline and answer beside each other, what it costs to read either, and one line about the whole.

    Args:
        console: where to.
        comparison: of the result.
        result: for the names of documents, and what failed.
    """
    rows = sorted(_rows(comparison), key=lambda row: (row.turn == "left", row.after or 0, row.before or 0))
    if rows:
        show(console, _table(rows, comparison, candidate_names(result)))
        console.print()
    for line in beside_the_answer(result):
        show(console, line)
    show(console, _sizes(comparison))
    show(console, _summary(comparison, rows))


def _rows(comparison: Comparison) -> Iterator[_Row]:
    difference = comparison.difference
    known = set(difference.same)
    for chunk in comparison.enhanced.chunks:
        if f"{chunk.namespace}/{chunk.chunk_id}" in known:
            yield _Row("same", (chunk.namespace, chunk.chunk_id), chunk.rank, chunk.rank)
    for turn, changes in (("moved", difference.moved), ("entered", difference.entered), ("left", difference.left)):
        for one in changes:
            yield _Row(turn, (one.namespace, one.chunk_id), one.from_rank, one.to_rank, one.reason)


def _table(rows: list[_Row], comparison: Comparison, names: Mapping[Key, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("baseline", "answer"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("", "tier", "document"):
        table.add_column(name, no_wrap=name != "document", overflow="fold")
    table.add_column("why", overflow="fold")
    chunks = (*comparison.baseline.chunks, *comparison.enhanced.chunks)
    tiers = {(one.namespace, one.chunk_id): one.authority_tier for one in chunks}
    for row in rows:
        table.add_row(
            Text(_rank(row.before, shown=row.turn != "entered")),
            Text(_rank(row.after, shown=row.turn != "left")),
            Text(row.turn, _STYLES[row.turn]),
            tier_text(tiers[row.key]),
            Text(names.get(row.key, clean(row.key[1]))),
            Text(clean(row.why), "dim"),
        )
    return table


def _rank(rank: int | None, *, shown: bool) -> str:
    """Return a rank, in parentheses where it is beyond what is shown; "-" where the chunk is not ranked."""
    return "-" if rank is None else str(rank) if shown else f"({rank})"


def _sizes(comparison: Comparison) -> Text:
    before, after = comparison.baseline.context, comparison.enhanced.context
    tokens = comparison.difference.tokens
    share = f" ({tokens:+d}, {tokens / before.tokens:+.0%})" if before.tokens else ""
    return Text(f"context: baseline {before.tokens} tokens, answer {after.tokens} tokens{share}")


def _summary(comparison: Comparison, rows: list[_Row]) -> Text:
    enhanced = comparison.enhanced
    counts = [f"{sum(row.turn == turn for row in rows)} {turn}" for turn in _STYLES]
    return joined(
        [
            Text(f"{enhanced.status} · {enhanced.decision}"),
            Text(f"{comparison.baseline.chunks_used} and {counted(enhanced.chunks_used, 'chunk')}"),
            Text(", ".join(counts)),
            Text(f"search {comparison.search_id}", "dim"),
        ]
    )
