"""How a question was understood, for `search --explain`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.core.models import PreparedQuery


def question_table(query: PreparedQuery) -> Table:
    """Return what was searched for, a line for each thing that was made of the user's words."""
    table = Table(box=None, show_header=False, pad_edge=True, padding=(0, 1, 0, 1))
    for name, value in _lines(query):
        table.add_row(Text(name, "dim"), Text(clean(value)))
    return table


def _lines(query: PreparedQuery) -> Iterator[tuple[str, str]]:
    if query.text != query.original:
        yield "searched as", query.text
    if query.words is not None:
        yield "words", query.words
    yield "language", query.language
    for name, values in (("codes", query.codes), ("sections", query.references), ("phrases", query.phrases)):
        if values:
            yield name, ", ".join(values)
    for one in query.expansions:
        yield "also", f"{one.term or query.refiner} = {one.text} (weight {one.weight:g}, {one.by})"
    for part in query.sub_queries:
        yield "beside it", part
    for written, known in query.suggestions:
        yield ("corrected" if query.corrected else "did you mean"), f"{known} (for {written})"
    if query.concepts:
        yield "concepts", ", ".join(query.concepts)
