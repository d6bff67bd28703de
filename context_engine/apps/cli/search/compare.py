"""`context-engine compare`: an answer beside its baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, read_saved, with_ledger
from context_engine.apps.cli.console import clean, note, out, print_json, show, table
from context_engine.apps.cli.context import only_domain, open_context, with_acting, with_domain
from context_engine.apps.cli.search.command import SET, Day, from_stdin, outcome_code, request_of
from context_engine.apps.cli.search.result_table import beside_the_answer
from context_engine.apps.cli.words import candidate_names, counted, joined, tier_text
from context_engine.core.models import Key, SearchResult

if TYPE_CHECKING:
    from context_engine.core.models import Context
    from context_engine.core.protocols import Mask
    from context_engine.service.contract.comparison import Comparison


_OF_A_SEARCH: Final = ("principal", "request_id", "require_tier", "require_source", "strict")
"""What `search` takes beside; a comparison has nothing to do with it."""

EPILOG: Final = """\b
Examples:
  context-engine compare "NPA classification criteria" --domain NPA
  context-engine compare "limit breach escalation" -d DESK --set min_relevance_score=0.4 --json
  context-engine compare "default fund" -d DCE --persona analyst --save comparisons.jsonl
  context-engine compare --record 019cad50-24a0-7afe-8262-0d28d32447a6
  context-engine search "default fund" -d DCE --json --full > answer.json
  context-engine compare --file answer.json
"""

_IN: Final = click.Path(dir_okay=False, exists=True, path_type=Path)
_OUT: Final = click.Path(dir_okay=False, path_type=Path)


class _ComparedAnswer(NamedTuple):
    """A result, the context that was made of it where one was, and what masks."""

    result: SearchResult
    read: Context | None
    mask: Mask | None
    code: int


@click.command(epilog=EPILOG)
@click.argument("query", required=False)
@with_domain("Domain to search; 'domains' lists them")
@click.option("--top-k", "-k", type=click.IntRange(1, 1000), metavar="N", help="Chunks on each side [default: 8].")
@click.option("--filter", "-f", "filters", multiple=True, metavar="FILTER", help="Conditions, as for 'search'.")
@click.option("--as-of", type=Day(), metavar="DAY", help="Answer as of this day [default: today].")
@click.option("--persona", metavar="NAME", help="Profile of settings from personas.json.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=SET)
@click.option("--min-relevance", type=float, metavar="X", help="Least absolute relevance, 0 to 1 [default: 0.15].")
@click.option("--budget", type=click.IntRange(min=1), metavar="TOKENS", help="Of each context [default: 6000].")
@click.option("--record", metavar="ID", help="Compare a recorded answer, in place of QUERY; an operator's.")
@click.option("--file", type=_IN, metavar="FILE", help="Compare what 'search --json --full' wrote, in place of QUERY.")
@click.option("--question", metavar="TEXT", help="With --record: the question, where only its digest was recorded.")
@click.option("--json", "as_json", is_flag=True, help="Write the comparison as one JSON object, contexts included.")
@click.option("--save", type=_OUT, metavar="FILE", help="Append the same object to a file, one a line.")
@with_acting
@with_ledger
def compare(at: LedgerLocation, query: str | None, as_json: bool, save: Path | None, **options: Any) -> None:
    """Show an answer beside its baseline, and why they differ.

    The baseline is the pool of candidates by relevance, before dedup, thresholds, reranker and authority. Filter, day
    and access rules hold on both sides. QUERY is a question or keywords; "-" reads it from stdin.
    Exit code: as of 'search'; 0 for --record and --file.
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
    click.get_current_context().exit(answer.code)


def _answer(at: LedgerLocation, query: str | None, options: dict[str, Any]) -> _ComparedAnswer:
    record, file, question = options["record"], options["file"], options["question"]
    if sum(value is not None for value in (query, record, file)) != 1:
        raise click.UsageError("Give a QUERY, --record or --file: one of them.")
    if question is not None and record is None:
        raise click.UsageError("--question is for --record.")
    if at.ledger is not None and record is None:
        raise click.UsageError("--ledger is for --record.")
    if query is not None:
        return _of_search(at, query, options)
    _check_nothing_is_searched(options)
    return _of_record(at, record, question) if record is not None else _of_file(at, file)


def _check_nothing_is_searched(options: dict[str, Any]) -> None:
    """Refuse options of a search beside an answer that was given already."""
    names = {"domain": "--domain", "top_k": "--top-k", "filters": "--filter", "as_of": "--as-of", "settings": "--set"}
    names |= {"persona": "--persona", "min_relevance": "--min-relevance"}
    named = [name for key, name in names.items() if options[key] not in (None, ())]
    if named:
        raise click.UsageError(f"{' and '.join(named)} cannot change an answer that was given: leave it out.")


def _of_search(at: LedgerLocation, query: str, options: dict[str, Any]) -> _ComparedAnswer:
    wanted = {**dict.fromkeys(_OF_A_SEARCH), "require_tier": (), "require_source": (), "strict": False, **options}
    request_to: Callable[..., Any] = request_of(from_stdin() if query == "-" else query, wanted)
    context = open_context(at.configuration, domain=options["domain"], one_domain=True)
    request = request_to(domain=only_domain(context.registry, options["domain"]), principal=context.principal)
    from context_engine.core.context import ApproxTokenCounter
    from context_engine.wiring.audit_writers import close_writers
    from context_engine.wiring.build import build_engine

    with build_engine(context.setup, data_dir=context.data_dir) as engine:
        result = engine.search(request)
        read = engine.context(result, counter=ApproxTokenCounter(), budget=options["budget"])
        answer = _ComparedAnswer(result, read, engine.mask, outcome_code(result))
    for sentence in close_writers():
        note(f"warning: {sentence}", style="yellow")
    return answer


def _of_record(at: LedgerLocation, record_id: str, question: str | None) -> _ComparedAnswer:
    from context_engine.audit.review.stored import find_record, recorded_result

    with opened_ledger(at) as opened:
        record = find_record(opened.ledger, record_id)
        result = recorded_result(opened.ledger, record_id, record.entry, question)
        return _ComparedAnswer(result, None, opened.context.setup.mask(), 0)


def _of_file(at: LedgerLocation, file: Path) -> _ComparedAnswer:
    from context_engine.audit.record.parts import load_result

    result = load_result(read_saved(file))
    masks = result.settings.values.mask_contexts
    mask = open_context(at.configuration, build_demo=False).setup.mask() if masks else None
    return _ComparedAnswer(result, None, mask, 0)


_STYLES: Final = {"same": "dim", "moved": "cyan", "entered": "green", "left": "yellow"}


class _ChunkRow(NamedTuple):
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


def _rows(comparison: Comparison) -> Iterator[_ChunkRow]:
    difference = comparison.difference
    known = set(difference.same)
    for chunk in comparison.enhanced.chunks:
        if f"{chunk.namespace}/{chunk.chunk_id}" in known:
            yield _ChunkRow("same", (chunk.namespace, chunk.chunk_id), chunk.rank, chunk.rank)
    for turn, changes in (("moved", difference.moved), ("entered", difference.entered), ("left", difference.left)):
        for one in changes:
            yield _ChunkRow(turn, (one.namespace, one.chunk_id), one.from_rank, one.to_rank, one.reason)


def _table(rows: list[_ChunkRow], comparison: Comparison, names: Mapping[Key, str]) -> Table:
    chunks = (*comparison.baseline.chunks, *comparison.enhanced.chunks)
    tiers = {(one.namespace, one.chunk_id): one.authority_tier for one in chunks}
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
    """Return a rank, in parentheses where it is beyond what is shown; "-" where the chunk is not ranked."""
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
