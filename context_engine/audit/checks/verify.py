"""Verify a whole ledger against an attacker who can write to its database but has neither key nor checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from context_engine.audit.checks.addenda import Erased, Names, compare_erasures, missing_addenda, unnamed_addenda
from context_engine.audit.checks.checkpoints import (
    CheckedCheckpoints,
    CheckedLog,
    Given,
    check_checkpoints,
    signed_size,
    size_of,
)
from context_engine.audit.checks.derived import Named, check_identities, newest_number, surplus_mentions, surplus_rows
from context_engine.audit.checks.findings import Finding, Findings, Place, Verification
from context_engine.audit.checks.keys import KeyEntry, Trust, judge_key_runs, judge_keys
from context_engine.audit.checks.pending import Later, check_pending, read_later
from context_engine.audit.checks.proved import not_proved, proved
from context_engine.audit.checks.rows import KeyRun, find_extent, stray_rows
from context_engine.audit.checks.stretch import Plan, Stretch, check_stretches
from context_engine.audit.checks.tree import Tree, read_upper
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.ledger.database import About
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import METADATA, checkpoint

_STRETCH: Final = 64
"""Tiles that are checked at once: 16,384 records."""

Progress = Callable[[int, int], None]
"""Is told how many records are checked, and how many there are."""


class Outside(NamedTuple):
    """A checkpoint that is kept where those who write to the ledger cannot change it.

    Attributes:
        name: where it comes from.
        note: as it is written.
    """

    name: str
    note: str


@dataclass(slots=True)
class _Read:
    """What was read of the whole log."""

    findings: Findings = field(default_factory=Findings)
    runs: list[KeyRun] = field(default_factory=list)
    keys: list[KeyEntry] = field(default_factory=list)
    prunings: list[tuple[int, int]] = field(default_factory=list)
    erased: Erased = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    chunks: Named = field(default_factory=Named)
    missing: dict[bytes, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def damaged(self) -> int:
        """How many findings are about rows that are not as they were: what their entries said is not known."""
        return sum(finding.where.table in ("log", "pending") for finding in self.findings.listed())

    def join(self, stretch: Stretch) -> None:
        """Take what the next stretch holds."""
        self.findings.extend(stretch.findings.listed())
        self.findings.more.update(stretch.findings.more)
        self.runs.extend(stretch.runs)
        self.keys.extend(stretch.keys)
        self.prunings.extend(stretch.prunings)
        for digest, indices in stretch.erased.items():
            self.erased.setdefault(digest, []).extend(indices)
        self.names.join(stretch.names)
        self.chunks.join(stretch.chunks)
        self.missing = {**stretch.missing, **self.missing}
        self.counts.update(stretch.counts)


def verify(
    ledger: Ledger,
    *,
    trusted: Sequence[VerifierKey] = (),
    outside: Sequence[Outside] = (),
    witnesses: Sequence[VerifierKey] = (),
    workers: int = 1,
    log_alone: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Check all that a ledger holds; nothing is written.

    Args:
        ledger: its keyring makes the MACs that rows are compared with, and its keys are trusted.
        trusted: further keys that whoever checks has from elsewhere.
        outside: checkpoints that were kept elsewhere: what shows that nothing was cut off or made anew.
        witnesses: whose cosignatures count.
        workers: processes that read the log.
        log_alone: neither addenda nor look-up rows are checked; a fraction of the time.
        progress: is told how far it is.

    Raises:
        AuditError: the database cannot be read.
        LedgerCorrupt: it is so damaged that nothing can be said of single rows.
    """
    trusted = (*(() if ledger.keyring is None else ledger.keyring.verifiers), *trusted)

    def checked(connection: Connection, processes: int) -> Verification:
        return _checked(ledger, connection, trusted, outside, witnesses, processes, log_alone, progress)

    with ledger.database.connect(patient=True) as connection:
        verification = checked(connection, workers)
    if verification.sound or workers <= 1:
        return verification
    # Processes read at moments of their own, and others may write meanwhile: what they find is looked at in one moment.
    with ledger.database.connect(patient=True) as connection:
        return checked(connection, 1)


def _checked(
    ledger: Ledger,
    connection: Connection,
    trusted: Sequence[VerifierKey],
    outside: Sequence[Outside],
    witnesses: Sequence[VerifierKey],
    workers: int,
    log_alone: bool,
    progress: Progress | None,
) -> Verification:
    about = ledger.database.about(connection)
    extent = find_extent(connection, _STRETCH)
    notes = [
        *_stored(connection),
        *(Given("outside", None, checkpoint.note, checkpoint.name) for checkpoint in outside),
    ]
    upper, newest = read_upper(connection), newest_number(connection)
    sizes = [size for noted in notes if (size := size_of(noted.note)) is not None]
    tree = Tree(sizes, extent.size, about.minimum_index, upper)
    plan = Plan(extent=extent, minimum=about.minimum_index, keyring=ledger.keyring, log_alone=log_alone)
    read = _read(ledger, connection, plan, tree, workers, progress)
    log = CheckedLog(origin=about.origin, size=extent.size, minimum=about.minimum_index, roots=tree.roots)
    trust = judge_keys(
        read.keys,
        trusted,
        about.minimum_index,
        keyed=any(run.key_id is not None for run in read.runs),
        lost=not extent.size or read.damaged > 0,
        signed=lambda keys: signed_size(notes, log, keys),
    )
    checked = check_checkpoints(notes, log, trust, witnesses)
    later = Later()
    read.findings.extend((*trust.findings, *judge_key_runs(read.runs, trust), *checked.findings, *tree.widths()))
    read.findings.extend(stray_rows(connection, extent.size))
    read.findings.extend(check_pending(connection, ledger.keyring, trust, later))
    read.findings.extend(read_later(connection, extent.size, later))
    read.findings.extend(_origin(about, trust))
    read.findings.extend(_minimum(about, read.prunings, later))
    read.findings.extend(check_schema(connection, indexes=not log_alone))
    if not log_alone:
        read.findings.extend(_beside(connection, read, later, plan, newest))
    return _verification(read, plan, trust, checked, later, outside, witnesses, trusted)


def _read(
    ledger: Ledger, connection: Connection, plan: Plan, tree: Tree, workers: int, progress: Progress | None
) -> _Read:
    """Return what the stretches of a log hold, their hashes put into the tree."""
    read = _Read()
    for stretch in check_stretches(ledger.database, connection, plan, workers):
        for block in stretch.blocks:
            read.findings.extend(tree.add(block))
        read.join(stretch)
        if progress is not None:
            progress(min(read.counts["records"] + plan.minimum, plan.extent.size), plan.extent.size)
    return read


def _stored(connection: Connection) -> Iterator[Given]:
    for size, note in connection.execute(select(checkpoint.c.size, checkpoint.c.note).order_by(checkpoint.c.size)):
        yield Given("checkpoint", size, note if isinstance(note, str) else "")


def _origin(about: About, trust: Trust) -> Iterator[Finding]:
    """Yield whether the log is called what its keys are."""
    names = dict.fromkeys(key.name for key in trust.verifiers)
    if names and about.origin not in names:
        problem = f"the ledger calls the log {about.origin[:200]}; its keys are of {', '.join(names)}"
        yield Finding("origin", Place("meta", name="origin"), problem)


def _minimum(about: About, prunings: Iterable[tuple[int, int]], later: Later) -> Iterator[Finding]:
    """Yield whether what was pruned is what entries say."""
    stated = max([minimum for _, minimum in prunings] + later.minimums, default=0)
    if stated != about.minimum_index:
        problem = f"the ledger says that records below {about.minimum_index} were pruned; its entries say {stated}"
        yield Finding("minimum_index", Place("meta", name="minimum_index"), problem)


def _beside(connection: Connection, read: _Read, later: Later, plan: Plan, newest: int) -> Iterator[Finding]:
    """Yield what is wrong with addenda and look-up rows as a whole."""
    size = plan.extent.size
    erased = {**read.erased, **{digest: [] for digest in later.erased if digest not in read.erased}}
    yield from missing_addenda(read.missing, erased)
    yield from compare_erasures(connection, read.erased, plan.minimum, size)
    yield from surplus_rows(connection, size)
    yield from surplus_mentions(connection, size)
    # What a damaged record named is not known.
    yield from check_identities(connection, read.chunks, -1 if read.damaged else newest)
    read.names.join(later.names)
    # What a damaged record named would be taken for named by none.
    yield from unnamed_addenda(connection, None if read.damaged else read.names, read.erased)


def _verification(
    read: _Read,
    plan: Plan,
    trust: Trust,
    checked: CheckedCheckpoints,
    later: Later,
    outside: Sequence[Outside],
    witnesses: Sequence[VerifierKey],
    trusted: Sequence[VerifierKey],
) -> Verification:
    counts = {
        **{name: read.counts[name] for name in ("records", "macs", "addenda")},
        "checkpoints": len(checked.fitting),
        "outside": len(checked.outside),
        "erased": len(read.erased),
        "pending": later.count,
        "damaged": read.damaged,
        **{f"more {code}": count for code, count in read.findings.more.items()},
    }
    findings = read.findings.listed()
    return Verification(
        sound=not findings,
        findings=findings,
        proved=proved(plan, trust, checked, counts) if not findings else (),
        not_proved=not_proved(plan, trust, checked, counts, witnesses, trusted),
        counts=counts,
        size=plan.extent.size,
    )


_SQLITE: Final = "SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('trigger', 'view')"

_POSTGRESQL: Final = (
    "SELECT 'trigger', t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT 'rule', rulename, tablename FROM pg_rules WHERE schemaname = current_schema()"
)

_MOST_PROBLEMS: Final = 20


def check_schema(connection: Connection, *, indexes: bool) -> Iterator[Finding]:
    """Yield what would change rows behind the ledger's back, and what hides them from a search.

    Args:
        indexes: whether each index is compared with its table, which reads the whole file; in SQLite alone.
    """
    sqlite = connection.dialect.name == "sqlite"
    for kind, name, table in connection.exec_driver_sql(_SQLITE if sqlite else _POSTGRESQL):
        if sqlite or table in METADATA.tables:
            yield Finding("schema", Place("schema", name=str(name)), f"the ledger makes no {kind}, and there is one")
    if sqlite and indexes:
        for (problem,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_PROBLEMS:d})"):
            if problem != "ok":
                yield Finding("schema", Place("schema"), f"the file does not hold together: {problem}")
