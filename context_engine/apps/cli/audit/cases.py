"""`audit report` and `audit sample`: a case as a single file, and a binder of cases that nobody can pick."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.audit.ledger import LedgerLocation, OpenLedger, opened_ledger, say_unsigned, with_ledger
from context_engine.apps.cli.console import note, publish, writing, written
from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.options import PLACE, with_json, with_page
from context_engine.apps.cli.progress import progress_bar
from context_engine.audit.review.stored import find_record
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest, MissingExtra
from context_engine.service.records import OwnedRecord

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.look_up import RecordRow
    from context_engine.audit.review.strata import StratifiedSample

REPORT: Final = """\b
Examples:
  context-engine audit report 019cad50-24a0-7afe-8262-0d28d32447a6 --html case.html
  context-engine audit report 019cad50-24a0-7afe-8262-0d28d32447a6 --json | jq '.replay.identical'
"""


@click.command(epilog=REPORT)
@click.argument("record_id", metavar="ID")
@with_page
@with_json
@with_ledger
def report(at: LedgerLocation, record_id: str, page: Path | None, as_json: bool) -> None:
    """Write the case ID as one file: question, funnel, chunks, drops, sources, settings, integrity, answers, replay.

    The page loads nothing and runs nothing. It holds the question and the texts that the ledger still has: keep it as
    you keep the ledger. ID is the id of a search, an answer or another record of 'audit list'.
    """
    if page is None and not as_json:
        raise click.UsageError("Give --html FILE or --json.")
    check_pages()
    with opened_ledger(at) as opened:
        values = _values(opened, record_id)
        if page is not None:
            written(page, _page(values, opened.context))
        if as_json:
            replay = None if values["finding"] is None else values["finding"].replay
            publish({**values["case"].to_dict(), "replay": None if replay is None else replay.to_dict()})
        say_unsigned(opened.ledger)


def check_pages(what: str = "the report of a case") -> None:
    """Check that the packages that make pages are installed.

    Args:
        what: needs them, for the error.

    Raises:
        MissingExtra: the extra `server` is not installed.
    """
    if not all(map(find_spec, ("fastapi", "jinja2"))):
        raise MissingExtra(what, "server")


def case_page(opened: OpenLedger, record_id: str) -> tuple[str, str]:
    """Return a case as one HTML file, and whether it could be computed again: identical, differs, or why not.

    Raises:
        RecordNotFound: there is none of that id, or it was pruned.
    """
    values = _values(opened, record_id)
    finding = values["finding"]
    again = "not possible" if finding is None else finding.headline
    if finding is not None and finding.replay is not None:
        again = "identical" if finding.replay.identical else "differs"
    return _page(values, opened.context), again


def _page(values: dict[str, Any], context: CliContext) -> str:
    from context_engine.apps.web.rendering import Page, standalone_page

    return standalone_page(Page("review/case.html", values), demo=context.demo)


def _values(opened: OpenLedger, record_id: str) -> dict[str, Any]:
    """Return what the template of a case reads, with the result of a replay if the record has one."""
    from context_engine.apps.web.review.again import Now
    from context_engine.apps.web.review.case import case_of
    from context_engine.apps.web.review.checks import replay_finding
    from context_engine.apps.web.review.pages import case_values

    context, stored = opened.context, find_record(opened.ledger, record_id)
    record = OwnedRecord(opened.ledger, record_id, stored.entry, stored.index)
    case = case_of(record, operator=True, mask=context.setup.mask(), demo=context.demo)
    now = Now(setup=context.setup, data_dir=context.data_dir)
    finding = replay_finding(record, now) if case.replayable else None
    return {**case_values(case, record), "finding": finding, "replayed": None}


_STRATA: Final = ("domain", "decision", "status", "tier", "month")
_PERIOD: Final = re.compile(r"(\d{4})(?:-(?:Q([1-4])|(0[1-9]|1[0-2])))?")
_MONTHS: Final = 12
SAMPLE: Final = """\b
Examples:
  context-engine audit sample --period 2026-Q3 --size 25 --seed 84417 --out binder
  context-engine audit sample --period 2026-07 --domain NPA --strata tier,decision --seed 84417 --out binder
"""


class _Binder(NamedTuple):
    """What the cover of a binder says."""

    period: str
    domain: str | None
    seed: str
    strata: tuple[str, ...]
    sample: StratifiedSample
    population: int


class _DrawnCase(NamedTuple):
    """A case of the binder; `replay` is identical, differs, or why there is none."""

    row: RecordRow
    stratum: tuple[str, ...]
    replay: str


@click.command(epilog=SAMPLE)
@click.option("--period", required=True, metavar="PERIOD", help="Year, quarter or month: 2026, 2026-Q3, 2026-07 (UTC).")
@click.option("--domain", "-d", metavar="NAME", help="Only searches of this domain.")
@click.option("--size", type=click.IntRange(1, 1000), default=25, show_default=True, help="Cases to draw.")
@click.option("--seed", required=True, metavar="TEXT", help="A text that the log's keeper did not choose.")
@click.option(
    "--strata",
    default="domain,decision",
    show_default=True,
    metavar="NAMES",
    help=f"Draw a share of each combination of these: {', '.join(_STRATA)}.",
)
@click.option("--out", "folder", required=True, type=PLACE, metavar="DIR", help="A new folder.")
@with_ledger
def sample(
    at: LedgerLocation, period: str, domain: str | None, size: int, seed: str, strata: str, folder: Path
) -> None:
    """Write a binder of recorded searches: a cover with room to tick and comment, and each case as a page.

    The seed decides which searches are drawn, so nobody can pick them: the same seed draws the same cases, and anybody
    with the ledger can repeat it. Each case is rebuilt from its record, computed again, and has its proof;
    `check_proof.py` in the folder checks it without this program. MANIFEST lists the SHA-256 of every file and is
    signed with the key of the ledger. The pages load and run nothing.
    """
    from context_engine.audit.review.strata import stratified, stratum_of

    names = _strata(strata)
    check_pages()
    if folder.exists() and any(folder.iterdir()):
        raise InvalidRequest(f"{folder} is not empty: name a new folder, so that no page of another binder is in it")
    with opened_ledger(at) as opened:
        ledger = opened.ledger
        ledger.integrate()
        rows = {row.record_id: row for row in _rows(ledger, period, domain)}
        if not rows:
            raise InvalidRequest(f"no search of {period} is recorded: 'context-engine audit stats' counts by day")
        strata_of = {record_id: stratum_of(ledger, row, names) for record_id, row in rows.items()}
        drawn = stratified(strata_of, size, seed)
        binder = _Binder(period, domain, seed, names, drawn, len(rows))
        _write(folder, dict(_files(opened, binder, rows)), ledger)
        say_unsigned(ledger)
    note(f"{counted(len(drawn.record_ids), 'case')} of {counted(len(rows), 'record')}: open {folder / 'index.html'}")


def _strata(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = next((name for name in names if name not in _STRATA), None)
    if unknown is not None or not names:
        raise click.UsageError(f"--strata takes {', '.join(_STRATA)}, got {unknown or 'nothing'!r}.")
    return names


def _rows(ledger: Ledger, period: str, domain: str | None) -> list[RecordRow]:
    from context_engine.audit.ledger.look_up import Criteria

    since, until = bounds(period)
    return ledger.rows(Criteria(since=since, until=until, domain=domain, kind="search", newest_first=False))


def bounds(period: str) -> tuple[datetime, datetime]:
    """Return the first moment of a period, and the first after it.

    Raises:
        UsageError: it is no year, quarter or month.
    """
    match = _PERIOD.fullmatch(period)
    if match is None:
        raise click.UsageError(f"--period takes 2026, 2026-Q3 or 2026-07, got {period!r}.")
    year, quarter, month = int(match[1]), match[2], match[3]
    first = 1 + 3 * (int(quarter) - 1) if quarter else int(month) if month else 1
    length = 3 if quarter else 1 if month else _MONTHS
    last = first + length
    ends = (year + 1, last - _MONTHS) if last > _MONTHS else (year, last)
    return datetime(year, first, 1, tzinfo=UTC), datetime(ends[0], ends[1], 1, tzinfo=UTC)


def _files(opened: OpenLedger, binder: _Binder, rows: Mapping[str, RecordRow]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of a binder, without the manifest."""
    from context_engine.apps.web.rendering import Page, standalone_page
    from context_engine.audit.ledger.key_change import present_checkpoint
    from context_engine.audit.ledger.prove import prove_record
    from context_engine.audit.review.strata import stratum_of

    checkpoint = present_checkpoint(opened.ledger)
    cases: list[_DrawnCase] = []
    drawn = binder.sample.record_ids
    with progress_bar("Rebuilding the cases …") as progress:
        for number, record_id in enumerate(drawn):
            progress(number, len(drawn), record_id)
            page, replay = case_page(opened, record_id)
            cases.append(_DrawnCase(rows[record_id], stratum_of(opened.ledger, rows[record_id], binder.strata), replay))
            yield f"cases/{record_id}.html", page.encode()
            yield f"proofs/{record_id}.tlog-proof", prove_record(opened.ledger, record_id, checkpoint).text.encode()
    keys = () if opened.ledger.keyring is None else opened.ledger.keyring.verifiers
    values = {"binder": binder, "cases": cases, "keys": [key.text for key in keys]}
    yield "index.html", standalone_page(Page("review/binder.html", values), demo=opened.context.demo).encode()
    yield "check_proof.py", files("context_engine.audit").joinpath("check_proof.py").read_bytes()


def _write(folder: Path, contents: Mapping[str, bytes], ledger: Ledger) -> None:
    """Write the files, and the manifest as a signed note."""
    from context_engine.audit.formats.checkpoint import sign_note

    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items()))
    keys = () if ledger.keyring is None else (ledger.keyring.current,)
    manifest = str(sign_note(f"context-engine audit sample\n{lines}", *keys))
    with writing(folder):
        for name, content in {**contents, "MANIFEST": manifest.encode()}.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
