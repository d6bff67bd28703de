"""`context-engine compare`: an answer next to its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, read_saved, with_ledger
from context_engine.apps.cli.console import note, out, print_json, show, table
from context_engine.apps.cli.context import note_unwritten, open_context, with_acting
from context_engine.apps.cli.options import FILE, OLD_FILE
from context_engine.apps.cli.progress import busy
from context_engine.apps.cli.search.command import from_stdin, outcome_code, request_of, with_search
from context_engine.apps.cli.search.result_table import beside_the_answer
from context_engine.apps.cli.words import joined, tier_text
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import candidate_names
from context_engine.core.models import Key, SearchResult
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.core.models import Context
    from context_engine.core.protocols import Mask
    from context_engine.service.contract.comparison import Comparison

_UNUSED: Final = {"principal": None, "request_id": None, "require_tier": (), "require_source": (), "strict": False}
_STYLES: Final = {"same": "dim", "moved": "cyan", "entered": "green", "left": "yellow"}
EPILOG: Final = """\b
Examples:
  context-engine compare "NPA classification criteria" --domain NPA
  context-engine compare "limit breach escalation" -d DESK --set min_relevance_score=0.4 --json
  context-engine compare "default fund" -d DCE --persona analyst --save comparisons.jsonl
  context-engine compare --record 019cad50-24a0-7afe-8262-0d28d32447a6
  context-engine search "default fund" -d DCE --json --full > answer.json
  context-engine compare --file answer.json
"""


class _ComparedAnswer(NamedTuple):
    """A result, its context if one was made, the mask and the exit code."""

    result: SearchResult
    read: Context | None
    mask: Mask | None
    code: int


@click.command(epilog=EPILOG)
@click.argument("query", required=False)
@with_search
@click.option("--record", metavar="ID", help="Compare a recorded answer instead of QUERY (operators).")
@click.option(
    "--file", type=OLD_FILE, metavar="FILE", help="Compare what 'search --json --full' wrote, instead of QUERY."
)
@click.option("--question", metavar="TEXT", help="With --record: give the question if only its digest was recorded.")
@click.option("--json", "as_json", is_flag=True, help="Write the comparison as one JSON object, contexts included.")
@click.option("--save", type=FILE, metavar="FILE", help="Append the JSON object to FILE as one line.")
@with_acting
@partial(with_ledger, always=False)
def compare(at: LedgerLocation, query: str | None, as_json: bool, save: Path | None, **options: Any) -> int:
    """Show an answer next to its baseline, and why they differ.

    The baseline is the candidates sorted by relevance, before deduplication, thresholds, reranker and authority.
    Filter, day and access rules apply to both. QUERY is a question or keywords; "-" reads it from stdin.
    Exit code: as for 'search'; 0 with --record and --file.
    """
    answer = _answer(at, query, options)
    from context_engine.service.comparing import append_comparison
    from context_engine.service.comparing import compare as compared
    from context_engine.service.contract.comparison import ComparisonAnswer

    comparison = compared(answer.result, mask=answer.mask, budget=options["budget"], enhanced=answer.read)
    if as_json:
        print_json(ComparisonAnswer(data=comparison).model_dump_json())
    else:
        print_comparison(out(), comparison, answer.result)
    if save is not None:
        append_comparison(save, comparison)
        note(f"appended to {save}")
    return answer.code


def _answer(at: LedgerLocation, query: str | None, options: dict[str, Any]) -> _ComparedAnswer:
    record, file, question = options["record"], options["file"], options["question"]
    if sum(value is not None for value in (query, record, file)) != 1:
        raise click.UsageError("Give exactly one of QUERY, --record and --file.")
    if question is not None and record is None:
        raise click.UsageError("--question is for --record.")
    if at.ledger is not None and record is None:
        raise click.UsageError("--ledger is for --record.")
    if query is not None:
        return _of_search(at, query, options)
    _check_nothing_is_searched(options)
    return _of_record(at, record, question) if record is not None else _of_file(at, file)


def _check_nothing_is_searched(options: dict[str, Any]) -> None:
    """Refuse search options together with a recorded answer."""
    names = {"domain": "--domain", "top_k": "--top-k", "filters": "--filter", "as_of": "--as-of", "settings": "--set"}
    names |= {"persona": "--persona", "min_relevance": "--min-relevance"}
    named = [name for key, name in names.items() if options[key] not in (None, ())]
    if named:
        raise click.UsageError(f"{' and '.join(named)} cannot change a recorded answer: omit it.")


def _of_search(at: LedgerLocation, query: str, options: dict[str, Any]) -> _ComparedAnswer:
    request_to = request_of(from_stdin() if query == "-" else query, {**_UNUSED, **options})
    context = open_context(at.configuration, domain=options["domain"], one_domain=True)
    request = request_to(domain=context.domain, principal=context.principal)
    from context_engine.core.context import ApproxTokenCounter
    from context_engine.wiring.build import build_engine

    with build_engine(context.setup, data_dir=context.data_dir) as engine:
        with busy("Searching …", quiet=True):
            result = engine.search(request)
        read = engine.context(result, counter=ApproxTokenCounter(), budget=options["budget"])
        answer = _ComparedAnswer(result, read, engine.mask, outcome_code(result))
    note_unwritten()
    return answer


def _of_record(at: LedgerLocation, record_id: str, question: str | None) -> _ComparedAnswer:
    from context_engine.audit.review.stored import find_record, recorded_result

    with opened_ledger(at) as opened:
        record = find_record(opened.ledger, record_id)
        result = recorded_result(opened.ledger, record_id, record.entry, question)
        return _ComparedAnswer(result, None, opened.context.setup.mask(), 0)


def _of_file(at: LedgerLocation, file: Path) -> _ComparedAnswer:
    result, _ = read_saved(file)
    masks = result.settings.values.mask_contexts
    mask = open_context(at.configuration, build_demo=False).setup.mask() if masks else None
    return _ComparedAnswer(result, None, mask, 0)


class _ChunkRow(NamedTuple):
    """A chunk's change, its rank in the baseline and in the answer, and the reason."""

    turn: str
    key: Key
    before: int | None
    after: int | None
    why: str = ""


def print_comparison(console: Console, comparison: Comparison, result: SearchResult) -> None:
    """Print baseline and answer in one table, the size of their contexts, and a summary.

    Args:
        result: the compared answer, for names of documents and failures.
    """
    rows = sorted(_rows(comparison), key=lambda row: (row.turn == "left", row.after or 0, row.before or 0))
    if rows:
        show(console, _table(rows, comparison, candidate_names(result)))
        console.print()
    for line in beside_the_answer(result):
        show(console, line)
    show(console, _sizes(comparison))
    show(console, _summary(comparison, rows))


def _rows(comparison: Comparison) -> Iterator[_ChunkRow]:
    difference = comparison.difference
    known = set(difference.same)
    for chunk in comparison.enhanced.chunks:
        if f"{chunk.source_id}/{chunk.chunk_id}" in known:
            yield _ChunkRow("same", (chunk.source_id, chunk.chunk_id), chunk.rank, chunk.rank)
    for turn, changes in (("moved", difference.moved), ("entered", difference.entered), ("left", difference.left)):
        for change in changes:
            key = (change.source_id, change.chunk_id)
            yield _ChunkRow(turn, key, change.from_rank, change.to_rank, change.reason)


def _table(rows: list[_ChunkRow], comparison: Comparison, names: Mapping[Key, str]) -> Table:
    chunks = (*comparison.baseline.chunks, *comparison.enhanced.chunks)
    tiers = {(chunk.source_id, chunk.chunk_id): chunk.authority_tier for chunk in chunks}
    cells = (
        (
            _rank(row.before, shown=row.turn != "entered"),
            _rank(row.after, shown=row.turn != "left"),
            Text(row.turn, _STYLES[row.turn]),
            tier_text(tiers[row.key]),
            names.get(row.key, row.key[1]),
            Text(clean(row.why), "dim"),
        )
        for row in rows
    )
    return table((">!baseline", ">!answer", "!", "!tier", "document", "why"), cells)


def _rank(rank: int | None, *, shown: bool) -> str:
    """Return a rank, in parentheses if the chunk is not shown; "-" if it has none."""
    return "-" if rank is None else str(rank) if shown else f"({rank})"


def _sizes(comparison: Comparison) -> Text:
    before, after = comparison.baseline.context, comparison.enhanced.context
    tokens = comparison.difference.tokens
    share = f" ({tokens:+d}, {tokens / before.tokens:+.0%})" if before.tokens else ""
    return Text(f"context: baseline {before.tokens} tokens, answer {after.tokens} tokens{share}")


def _summary(comparison: Comparison, rows: list[_ChunkRow]) -> Text:
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
