"""`kb conflicts`: documents of a domain that contradict each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import note, outcome, print_line, publish, styled
from context_engine.apps.cli.context import (
    CliContext,
    ConfigLocation,
    open_context,
    os_user,
    with_domain,
    with_location,
)
from context_engine.apps.cli.options import Moment, with_json
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import chunk_name
from context_engine.core.text import counted
from context_engine.errors import AuditError, InvalidRequest, MissingExtra, nearest

if TYPE_CHECKING:
    from rich.text import Text

    from context_engine.insight.radar import RadarFinding, RadarReport, RadarSide
    from context_engine.insight.settled import Settled

CONFLICTS: Final = """\b
Examples:
  context-engine kb conflicts --domain NPA
  context-engine kb conflicts --domain NPA --since 2026-06-01 --json > conflicts.json
  context-engine kb conflicts --domain NPA --settle 7396013a44ba --reason "FCAA-N659 is for other banks"

\b
Exit code: 0 all contradictions are settled or there is none, 1 one is not settled, 2 usage or configuration.
"""


@click.command(epilog=CONFLICTS)
@with_domain("The domain whose documents are compared")
@click.option("--since", type=Moment(), help="Only those with a side that was fetched or came into force since then.")
@click.option(
    "--parallel", is_flag=True, help="Also show differences between parallel documents, such as two desks' mandates."
)
@click.option("--all", "everything", is_flag=True, help="Also show settled contradictions.")
@click.option("--settle", metavar="ID", help="Settle a contradiction; needs --reason.")
@click.option("--reason", metavar="TEXT", help="With --settle: why it is no contradiction, or what will be done.")
@with_json
@with_location
def conflicts(
    location: ConfigLocation,
    domain: str | None,
    since: datetime | None,
    parallel: bool,
    everything: bool,
    settle: str | None,
    reason: str | None,
    as_json: bool,
) -> int:
    """List documents that contradict each other: the same rule with another value, date, modal, negation or bound.

    Sentences and table cells of the documents in force are compared, across sources and tiers. Each finding says which
    side has less authority, and how many recorded answers showed either. A settled one is kept with reason and name.
    """
    from context_engine.insight.domain_conflicts import domain_conflicts
    from context_engine.insight.settled import FILE, settled_conflicts

    if (settle is None) != (reason is None):
        raise click.UsageError("Give --settle and --reason together.")
    context = open_context(location, domain=domain, one_domain=True, operator=True)
    now = datetime.now(UTC)
    report, unread, problem = domain_conflicts(context.setup, context.data_dir, context.domain, now.date())
    if problem:
        note(f"the radar's memory: {problem}", style="yellow")
    file = context.data_dir / FILE
    if settle is not None and reason is not None:
        _settle(file, report, settle, reason)
        return 0
    settled = settled_conflicts(file)
    wanted = [
        finding
        for finding in report.findings
        if (parallel or not finding.parallel) and (since is None or _is_newer(finding, since.date()))
    ]
    unsettled = [finding for finding in wanted if finding.finding_id not in settled]
    shown = wanted if everything else unsettled
    answers = _answers(context, shown)
    if as_json:
        rows = [_row(finding, answers, settled.get(finding.finding_id)) for finding in shown]
        counts = {"passages": report.passages, "statements": report.statements, "not_in_force": report.not_in_force}
        publish({"domain": context.domain, **counts, "unread": list(unread), "findings": rows})
    else:
        _print(shown, answers, settled)
        _summary(report, wanted, unsettled, unread)
    return FAILURE if unsettled else 0


def _settle(file: Path, report: RadarReport, finding_id: str, reason: str) -> None:
    from context_engine.insight.settled import settle

    known = [finding.finding_id for finding in report.findings]
    if finding_id not in known:
        raise InvalidRequest(f"there is no contradiction {finding_id!r} now.{nearest(finding_id, known)}")
    entry = settle(file, finding_id, reason=reason, by=os_user(), now=datetime.now(UTC))
    outcome("settled", f"{entry.finding_id} by {entry.by}: {entry.reason}")


def _is_newer(finding: RadarFinding, since: date) -> bool:
    return any(
        (chunk.fetched_at is not None and chunk.fetched_at.date() >= since)
        or (chunk.effective_from is not None and chunk.effective_from >= since)
        for chunk in (finding.first.chunk, finding.second.chunk)
    )


def _answers(context: CliContext, findings: Sequence[RadarFinding]) -> Mapping[str, int] | None:
    """Return by finding id how many recorded answers showed one of the sides; None if there is no ledger,
    or the extra `audit` is not installed.
    """
    from context_engine.insight.domain_conflicts import answers_that_showed
    from context_engine.wiring.audit import open_ledger

    try:
        ledger = open_ledger(context.setup, context.data_dir, create=False)
    except (AuditError, MissingExtra):
        return None
    with closing(ledger):
        ledger.integrate()
        return {name: sides.either for name, sides in answers_that_showed(ledger, findings).items()}


def _row(finding: RadarFinding, answers: Mapping[str, int] | None, settled: Settled | None) -> dict[str, Any]:
    return {
        "id": finding.finding_id,
        "first": _side_row(finding.first),
        "second": _side_row(finding.second),
        "differences": [difference._asdict() for difference in finding.differences],
        "yields": finding.yields,
        "parallel": finding.parallel,
        "basis": finding.basis,
        "answers_that_showed_it": None if answers is None else answers[finding.finding_id],
        "settled": None if settled is None else {"reason": settled.reason, "by": settled.by, "at": settled.at},
    }


def _side_row(side: RadarSide) -> dict[str, Any]:
    chunk = side.chunk
    return {
        "source_id": side.source_id,
        "authority_tier": side.tier,
        "document_id": chunk.document_id,
        "document_version": chunk.document_version,
        "title": chunk.title,
        "heading_path": list(chunk.heading_path),
        "chunk_id": chunk.chunk_id,
        "path": chunk.path,
        "page": chunk.page,
        "effective_from": side.effective_from,
        "text": side.text,
        "start": side.start,
        "end": side.end,
        "places": side.places,
        "cites_version": side.cites or None,
    }


def _print(findings: Sequence[RadarFinding], answers: Mapping[str, int] | None, settled: Mapping[str, Settled]) -> None:
    for finding in findings:
        what = "; ".join(f"{each.code}: {each.first or '-'} / {each.second or '-'}" for each in finding.differences)
        basis = "  in other words" if finding.basis == "rule" else ""
        shown = "" if answers is None else f"  shown in {counted(answers[finding.finding_id], 'answer')}"
        print_line(styled((finding.finding_id, "bold"), (f"  {what}", "yellow"), (f"{basis}{shown}", "dim")))
        for place, side in enumerate((finding.first, finding.second)):
            words = [clean(each[place + 1]) for each in finding.differences]
            print_line(_side_text(side, words, yields=finding.yields == ("first", "second")[place]))
        if entry := settled.get(finding.finding_id):
            print_line(f"  settled by {entry.by} on {entry.at[:10]}: {entry.reason}", "dim")
        print_line()


def _side_text(side: RadarSide, words: Sequence[str], *, yields: bool) -> Text:
    """Return a side in one paragraph, the words that differ marked."""
    dates = f", in force from {side.effective_from}" if side.effective_from else ""
    others = f", and in {counted(side.places - 1, 'other passage')}" if side.places > 1 else ""
    less = ", less authority" if yields else ""
    cites = f", cites version {side.cites} of the other" if side.cites else ""
    name, words_of_side = chunk_name(side.chunk, side.chunk.chunk_id), " ".join(side.text.split())
    facts = f" (tier {side.tier}{dates}{less}{cites}{others})\n"
    text = styled((f"  {name}", "cyan"), (facts, "dim"), f"    {words_of_side}")
    for word in filter(None, words):
        text.highlight_regex(rf"(?i)\b{re.escape(word.removeprefix('not '))}", "bold yellow")
    return text


def _summary(
    report: RadarReport, wanted: Sequence[RadarFinding], unsettled: Sequence[RadarFinding], unread: Sequence[str]
) -> None:
    kinds = Counter(finding.differences[0].code for finding in unsettled)
    by_kind = f" ({', '.join(f'{kind} {count}' for kind, count in kinds.most_common())})" if kinds else ""
    compared = f"{counted(report.passages, 'passage')}, {counted(report.statements, 'statement')} compared"
    note(f"{counted(len(unsettled), 'contradiction')}{by_kind}; {compared}")
    if settled := len(wanted) - len(unsettled):
        note(f"{settled} settled: --all shows them")
    if hidden := sum(finding.parallel for finding in report.findings) - sum(finding.parallel for finding in wanted):
        note(f"{counted(hidden, 'difference')} between parallel documents: --parallel shows them")
    if report.not_in_force:
        note(f"{counted(report.not_in_force, 'passage')} not in force today, left out")
    if unread:
        note(f"not compared, because their passages cannot be listed: {', '.join(unread)}", style="yellow")
