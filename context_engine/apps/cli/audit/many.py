"""Examine many records in one run: of a period, or a sample of it; a run that was stopped can be continued."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.audit.ledger import OpenLedger, say_unknown_domain
from context_engine.apps.cli.console import note, print_line, print_table, publish, writing
from context_engine.apps.cli.options import FILE, F, gathered, period_options
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.text import counted
from context_engine.errors import ConfigError, ContextEngineError

if TYPE_CHECKING:
    from context_engine.audit.ledger.look_up import RecordRow

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which searches to examine, and the file that keeps the results.

    Attributes:
        since, until: since <= time < until; None: no bound.
        sample: number of records to draw by `seed`; None: all.
        results: a JSON Lines file; records in it are not examined again.
    """

    since: datetime | None
    until: datetime | None
    domain: str | None
    sample: int | None
    seed: str | None
    results: Path | None

    @property
    def given(self) -> bool:
        """Whether any option asks for many records."""
        return any(value is not None for value in (self.since, self.until, self.domain, self.sample, self.seed))


class Examined(NamedTuple):
    """The result of one record.

    Attributes:
        result: one word, such as "identical".
        why: a sentence; "" if there is nothing to say.
    """

    search_id: str
    time: str
    result: str
    why: str = ""


def with_selection(command: F) -> F:
    """Give a command the options of a `Selection`, as one argument `selection`."""

    def gather(**options: Any) -> Any:
        names = ("since", "until", "domain", "sample", "seed", "results")
        selection = Selection(**{name: options.pop(name) for name in names})
        if (selection.sample is None) != (selection.seed is None):
            raise click.UsageError("--sample and --seed go together: its size, and a text that you choose")
        return command(selection=selection, **options)

    return gathered(command, gather, *_OPTIONS)  # type: ignore[no-any-return]


_OPTIONS: Final = (
    *period_options("Many searches: from this moment on.", "Many searches: those before this moment."),
    click.option("--domain", "-d", metavar="NAME", help="Many searches: only of this domain."),
    click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Draw N searches by --seed."),
    click.option("--seed", metavar="TEXT", help="The seed of a sample: a text that the log's keeper did not choose."),
    click.option(
        "--results",
        type=FILE,
        metavar="FILE",
        help="Write each result to this file at once; a further run with it goes on where this one stopped.",
    ),
)


def examine_many(
    opened: OpenLedger, selection: Selection, examine: Callable[[str], tuple[str, str]], *, title: str, as_json: bool
) -> list[Examined]:
    """Examine the selected searches one after another, oldest first, and print one table at the end.

    Args:
        examine: returns the result of a record in a word, and why; a `ContextEngineError` becomes "failed".

    Raises:
        ConfigError: the results file cannot be read or written.
    """
    rows = [(row.record_id, row.time) for row in selected_searches(opened, selection)]
    done = {} if selection.results is None else _read(selection.results)
    fresh = [row for row in rows if row[0] not in done]
    results = [done[search_id] for search_id, _ in rows if search_id in done]
    if results:
        note(f"{counted(len(results), 'record')} of {len(rows)} examined before; they are in {selection.results}.")
    with progress_bar(title) as progress, _appending(selection.results) as keep:
        for search_id, time in fresh:
            progress(len(results), len(rows), search_id)
            results.append(_examined(search_id, time, examine))
            keep(results[-1])
    results.sort(key=lambda result: (result.time, result.search_id))
    _report(results, as_json=as_json)
    return results


def _examined(search_id: str, time: str, examine: Callable[[str], tuple[str, str]]) -> Examined:
    try:
        return Examined(search_id, time, *examine(search_id))
    except ContextEngineError as error:
        return Examined(search_id, time, "failed", str(error))


def selected_searches(opened: OpenLedger, selection: Selection) -> list[RecordRow]:
    """Return the selected searches, oldest first; a domain that nobody knows is said."""
    from context_engine.audit.ledger.look_up import Criteria

    ledger = opened.ledger
    ledger.integrate()
    criteria = Criteria(since=selection.since, until=selection.until, domain=selection.domain, kind="search")
    if selection.sample is None or selection.seed is None:
        rows = ledger.rows(criteria)
    else:
        rows = ledger.sample(criteria, selection.sample, selection.seed).rows
    if not rows:
        say_unknown_domain(opened, selection.domain)
    return sorted(rows, key=lambda row: (row.time, row.record_id))


def _read(file: Path) -> dict[str, Examined]:
    """Return the results of an earlier run, and remove a last line that was cut off while it was written."""
    if not file.exists():
        return {}
    done: dict[str, Examined] = {}
    try:
        lines = file.read_text("utf-8").split("\n")
        for line in lines[:-1]:
            result = Examined(**json.loads(line))
            done[result.search_id] = result
    except (OSError, UnicodeError, ValueError, TypeError) as error:
        raise ConfigError(f"holds no results of an earlier run: {error}", file=str(file)) from None
    if lines[-1]:
        with writing(file):
            file.write_text("".join(f"{line}\n" for line in lines[:-1]), "utf-8")
    return done


@contextmanager
def _appending(file: Path | None) -> Iterator[Callable[[Examined], object]]:
    """Yield a function that appends a result to the file at once; without a file it does nothing."""
    if file is None:
        yield lambda _result: None
        return
    with writing(file):
        stream = file.open("a", encoding="utf-8", buffering=1)
    with stream:
        yield lambda result: stream.write(json.dumps(result._asdict(), ensure_ascii=False) + "\n")


def _report(results: Sequence[Examined], *, as_json: bool) -> None:
    counts = Counter(result.result for result in results)
    if as_json:
        publish({"counts": dict(counts), "records": [result._asdict() for result in results]})
        return
    if not results:
        note("No search matches.")
        return
    first, last = results[0].time, results[-1].time
    print_table(("result", ">records"), counts.most_common())
    print_line(f"{counted(len(results), 'record')} from {first} to {last}")
    unlike = [result for result in results if result.why]
    for result in unlike[:_SHOWN]:
        print_line(f"{result.search_id}  {result.result}: {result.why}", "yellow")
    if len(unlike) > _SHOWN:
        note(f"and {len(unlike) - _SHOWN} more; --json or --results has them.")
