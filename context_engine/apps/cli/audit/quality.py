"""`audit quality`: compare the newest searches, answers and judgements of a domain with its own past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, with_ledger
from context_engine.apps.cli.console import note, print_line, print_table, publish
from context_engine.apps.cli.options import with_json
from context_engine.apps.web.inert import clean
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.insight.quality import Count, Excursion
    from context_engine.insight.quality_watch import QualityLine

QUALITY: Final = """\b
Examples:
  context-engine audit quality
  context-engine audit quality --domain NPA --days 60
  context-engine audit quality --json > quality.json || mail -s "quality fell" ops@bank.example < quality.json

\b
Exit code: 0 nothing is above its past, 3 something is, 1 failure, 2 usage or configuration.
"""


@click.command(epilog=QUALITY)
@click.option("--domain", metavar="NAME", help="Only this domain; default: all.")
@click.option("--days", type=click.IntRange(7, 3660), help="Days to look back; default: quality_past_days.")
@click.option("--run-length", type=click.IntRange(100), help="Use this instead of the setting quality_run_length.")
@with_json
@with_ledger
def quality(at: LedgerLocation, domain: str | None, days: int | None, run_length: int | None, as_json: bool) -> int:
    """Tell whether the quality of a domain has fallen, by a control chart for each figure.

    The figures are shares: degraded searches, searches without an answer or out of scope, answers with an unsupported
    sentence, thumbs down. Each is compared with the domain's own past, in which weekdays may differ. False alarms are
    rare: one in quality_run_length outcomes of a figure at most, on average.
    """
    from context_engine.insight.quality_watch import opened_watch
    from context_engine.service.judgements import votes

    with opened_ledger(at) as opened:
        settings = opened.context.setup.resolver.base().values
        given = {"quality_past_days": days, "quality_run_length": run_length}
        settings = settings.model_copy(update={key: value for key, value in given.items() if value is not None})
        if domain is not None:
            opened.context.setup.registry.domain(domain)  # refuses an unknown one
        watch = opened_watch(settings, datetime.now(UTC))
        watch.read_on(opened.ledger, votes(opened.context.data_dir))
        lines = watch.lines(domain)
    if as_json:
        about = {"since": watch.since.isoformat(), "run_length": watch.rule.run_length}
        publish({**about, "figures": [line.to_dict() for line in lines]})
    else:
        _print(lines)
    return DEGRADED if any(line.alarmed for line in lines) else 0


def _print(lines: Sequence[QualityLine]) -> None:
    if not lines:
        note("Nothing is recorded in that time.")
        return
    columns = ("domain", "figure", ">last 100", ">past", ">outcomes", "state")
    print_table(columns, [_row(line) for line in lines])
    for line in lines:
        for excursion in line.excursions:
            print_line("\n".join(_described(line, excursion)), "yellow" if excursion.ended else "red")
    if any(not line.compares for line in lines):
        note("A figure with too short a past is not compared yet.")


def _row(line: QualityLine) -> tuple[Text | str, ...]:
    state = Text("above its past", "red") if line.alarmed else Text("as before", "green")
    if not line.compares:
        state = Text("short past", "dim")
    return (line.domain, line.figure, _share(line.recent), _share(line.past), f"{line.past.total:,}", state)


def _share(count: Count) -> str:
    return f"{100 * count.share:.1f} %" if count.total else "–"


def _described(line: QualityLine, excursion: Excursion) -> Iterator[str]:
    from context_engine.insight.quality_watch import FIGURES

    now, past = excursion.outcomes, excursion.past
    until = f" until {excursion.ended}" if excursion.ended else ""
    yield clean(f"{line.domain}: {FIGURES[line.figure]}: {_share(now)}, before {_share(past)}")
    yield f"  since {excursion.since}{until}, noticed {excursion.alarmed}: {now.bad} of {counted(now.total, 'outcome')}"
    yield clean(f"  first {excursion.first_id}, last {excursion.last_id}")
