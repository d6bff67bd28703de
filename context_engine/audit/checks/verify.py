"""Verify a whole ledger against an attacker who can write to its database but has neither key nor checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from context_engine.audit.checks.addenda import compare_erasures, missing_addenda, unnamed_addenda
from context_engine.audit.checks.checkpoints import (
    CheckedCheckpoints,
    CheckedLog,
    CheckpointNote,
    check_checkpoints,
    check_published,
    signed_size,
    size_of,
)
from context_engine.audit.checks.derived import check_identities, newest_number, surplus_mentions, surplus_rows
from context_engine.audit.checks.findings import Finding, Place, Verification
from context_engine.audit.checks.keys import Trust, judge_key_runs, judge_keys
from context_engine.audit.checks.pending import LateRecords, check_pending, read_later
from context_engine.audit.checks.rows import find_extent, stray_rows
from context_engine.audit.checks.stretch import Plan, Stretch, check_stretches
from context_engine.audit.checks.tree import Tree, read_upper
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.ledger.database import About
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import METADATA, checkpoint, record
from context_engine.core.models import utc_text
from context_engine.core.text import counted

_CLOCKS_DIFFER: Final = timedelta(hours=1)  # between machines that write to one ledger
_STRETCH: Final = 64  # tiles checked at once: 16,384 records
Progress = Callable[[int, int], None]
"""Receives the number of records checked and the total."""


class Outside(NamedTuple):
    """A checkpoint kept where writers of the ledger cannot change it; messages show `name` as its place."""

    name: str
    note: str


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
    """Check everything in a ledger without writing to it.

    Args:
        ledger: MACs are compared with the keys of its keyring.
        trusted: keys obtained from outside; they alone are trusted, with the keys that they endorsed. If empty, the
            keys of the keyring are trusted.
        outside: checkpoints kept elsewhere; only they show that nothing was cut off or rewritten.
        witnesses: keys whose cosignatures are checked.
        log_alone: skip addenda and look-up rows, which takes a fraction of the time.

    Raises:
        AuditError: the database cannot be read.
        LedgerCorrupt: it is too damaged to examine single rows.
    """

    def checked(connection: Connection, processes: int) -> Verification:
        return _checked(ledger, connection, trusted, outside, witnesses, processes, log_alone, progress)

    with ledger.database.connect(patient=True) as connection:
        verification = checked(connection, workers)
    if verification.consistent or workers <= 1:
        return verification
    # Each process reads a snapshot of its own while others may write: confirm the findings in a single snapshot.
    with ledger.database.connect(patient=True) as connection:
        return checked(connection, 1)


def _checked(
    ledger: Ledger,
    connection: Connection,
    given: Sequence[VerifierKey],
    outside: Sequence[Outside],
    witnesses: Sequence[VerifierKey],
    workers: int,
    log_alone: bool,
    progress: Progress | None,
) -> Verification:
    about = ledger.database.about(connection)
    extent = find_extent(connection, _STRETCH)
    stored = connection.execute(select(checkpoint.c.size, checkpoint.c.note).order_by(checkpoint.c.size))
    notes = [CheckpointNote("checkpoint", size, note if isinstance(note, str) else "") for size, note in stored]
    notes += [CheckpointNote("outside", None, kept.note, kept.name) for kept in outside]
    upper, newest = read_upper(connection), newest_number(connection)
    sizes = [size for noted in notes if (size := size_of(noted.note)) is not None]
    tree = Tree(sizes, extent.size, about.minimum_index, upper)
    plan = Plan(extent=extent, minimum=about.minimum_index, keyring=ledger.keyring, log_alone=log_alone)
    read = _read(ledger, connection, plan, tree, workers, progress)
    log = CheckedLog(origin=about.origin, size=extent.size, minimum=about.minimum_index, roots=tree.roots)
    trust = judge_keys(
        read.keys,
        given or (() if ledger.keyring is None else ledger.keyring.verifiers),
        about.minimum_index,
        keyed=any(run.key_id is not None for run in read.runs),
        # A damaged row may have been the first key change.
        lost=not extent.size or read.damaged > 0,
        signed=lambda keys: signed_size(notes, log, keys),
    )
    checked = check_checkpoints(notes, log, trust, witnesses)
    later = LateRecords()
    read.findings.extend((*trust.findings, *judge_key_runs(read.runs, trust), *checked.findings, *tree.widths()))
    read.findings.extend(stray_rows(connection, extent.size))
    read.findings.extend(check_pending(connection, ledger.keyring, trust, later))
    read.findings.extend(read_later(connection, extent.size, later))
    read.findings.extend(check_published(connection, about.minimum_index))
    read.findings.extend(_origin(about, trust))
    read.findings.extend(_minimum(about, read.prunings, later))
    read.findings.extend(check_schema(connection, indexes=not log_alone))
    if not log_alone:
        read.findings.extend(_derived_tables(connection, read, later, plan, newest))
    unordered = "" if log_alone else _unordered(connection)
    return _verification(read, plan, trust, checked, later, witnesses, given, unordered)


def _unordered(connection: Connection) -> str:
    """Return a sentence on records that are dated long before an earlier record; "" if there is none."""
    places: list[tuple[int, datetime, int, datetime]] = []
    latest: tuple[int, datetime] | None = None
    for index, written in connection.execute(select(record.c.idx, record.c.time).order_by(record.c.idx)):
        moment = _moment(written)
        if moment is None:  # a damaged row, which the checks of the rows report
            continue
        if latest is None or moment >= latest[1]:
            latest = (index, moment)
        elif latest[1] - moment > _CLOCKS_DIFFER:
            places.append((index, moment, *latest))
    if not places:
        return ""
    index, moment, earlier, before = places[0]
    return (
        f"A clock was wrong: {counted(len(places), 'record')} dated more than an hour before an earlier record, such "
        f"as record {index} ({utc_text(moment)}) after record {earlier} ({utc_text(before)})."
    )


def _moment(written: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(written)).astimezone(UTC)
    except ValueError:
        return None


def _read(
    ledger: Ledger, connection: Connection, plan: Plan, tree: Tree, workers: int, progress: Progress | None
) -> Stretch:
    """Read and join all stretches, and grow the tree from their leaves."""
    read = Stretch()
    for stretch in check_stretches(ledger.database, connection, plan, workers):
        for block in stretch.blocks:
            read.findings.extend(tree.add(block))
        read.join(stretch)
        if progress is not None:
            progress(min(read.counts["records"] + plan.minimum, plan.extent.size), plan.extent.size)
    return read


def _origin(about: About, trust: Trust) -> Iterator[Finding]:
    """Check that the log's name is that of its keys."""
    names = dict.fromkeys(key.name for key in trust.verifiers)
    if names and about.origin not in names:
        problem = f"the ledger names the log {about.origin[:200]}; its keys are of {', '.join(names)}"
        yield Finding("origin", Place("meta", name="origin"), problem)


def _minimum(about: About, prunings: Iterable[tuple[int, int]], later: LateRecords) -> Iterator[Finding]:
    """Check that the ledger's minimum index is that of its pruning entries."""
    stated = max([minimum for _, minimum in prunings] + later.minimums, default=0)
    if stated != about.minimum_index:
        problem = f"the ledger records a pruning below {about.minimum_index}; its entries say {stated}"
        yield Finding("minimum_index", Place("meta", name="minimum_index"), problem)


def _derived_tables(
    connection: Connection, read: Stretch, later: LateRecords, plan: Plan, newest: int
) -> Iterator[Finding]:
    """Check addenda and look-up rows across the whole ledger."""
    size = plan.extent.size
    erased = {**read.erased, **{digest: [] for digest in later.erased if digest not in read.erased}}
    yield from missing_addenda(read.missing, erased)
    yield from compare_erasures(connection, read.erased, plan.minimum, size)
    yield from surplus_rows(connection, size)
    yield from surplus_mentions(connection, size)
    # It is unknown what a damaged record named: with any, chunks and addenda are not reported as unnamed.
    yield from check_identities(connection, read.chunks, -1 if read.damaged else newest)
    read.names.join(later.names)
    yield from unnamed_addenda(connection, None if read.damaged else read.names, read.erased)


def _verification(
    read: Stretch,
    plan: Plan,
    trust: Trust,
    checked: CheckedCheckpoints,
    later: LateRecords,
    witnesses: Sequence[VerifierKey],
    given: Sequence[VerifierKey],
    unordered: str,
) -> Verification:
    counts = {
        **{name: read.counts[name] for name in ("records", "macs", "addenda")},
        "checkpoints": len(checked.fitting),
        "outside": len(checked.outside),
        "witnessed": max(checked.witnessed.values(), default=0),
        "erased": len(read.erased),
        "pending": later.count,
        "damaged": read.damaged,
        **{f"more {code}": count for code, count in read.findings.more.items()},
    }
    findings = read.findings.listed()
    return Verification(
        consistent=not findings,
        outside_key=bool(given or checked.witnessed),
        findings=findings,
        proved=proved(plan, trust, checked, counts) if not findings else (),
        not_proved=(*not_proved(plan, trust, checked, counts, witnesses, given), *([unordered] if unordered else [])),
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
    """Yield triggers, views and rules, which could change or hide rows, and damage to the SQLite file.

    Args:
        indexes: in SQLite, also compare each index with its table, which reads the whole file.
    """
    sqlite = connection.dialect.name == "sqlite"
    for kind, name, table in connection.exec_driver_sql(_SQLITE if sqlite else _POSTGRESQL):
        if sqlite or table in METADATA.tables:
            yield Finding("schema", Place("schema", name=str(name)), f"the ledger has a {kind}, which it never creates")
    if sqlite and indexes:
        for (problem,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_PROBLEMS:d})"):
            if problem != "ok":
                yield Finding("schema", Place("schema"), f"the database file is damaged: {problem}")


def proved(plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return what holds, given that there are no findings."""
    return tuple(_proved(plan, trust, checked, counts))


def not_proved(
    plan: Plan,
    trust: Trust,
    checked: CheckedCheckpoints,
    counts: Mapping[str, int],
    witnesses: Sequence[VerifierKey],
    given: Sequence[VerifierKey],
) -> tuple[str, ...]:
    """Return what this check could not show, and what would be needed."""
    return (
        *_of_keys(plan, trust, checked, counts, given),
        *_of_the_end(plan, checked, witnesses),
        *_of_the_rest(plan, checked, counts),
    )


def _proved(plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> Iterator[str]:
    size = plan.extent.size
    yield f"The {size} records have no gap, match their hashes, and form one tree that matches the stored tiles."
    if counts["macs"]:
        yield f"{counts['macs']} rows have a valid MAC, which only the key makes: none was edited, moved or inserted."
    if checked.signed:
        yield f"The first {checked.signed} records match a checkpoint signed by a key of this log."
    elif checked.fitting:
        yield f"The tree matches the {len(checked.fitting)} checkpoints that the ledger keeps; none of them is signed."
    if checked.outside:
        yield f"The first {max(checked.outside)} records match a checkpoint that is kept elsewhere."
    for witness, seen in checked.witnessed.items():
        yield f"The witness {witness.name} has seen the first {seen} records, and that the log only grew up to there."
    if len(trust.named) > 1 and trust.verifiers:
        yield "Each key change is signed by the former key, or both keys were given for verification."
    if not plan.log_alone:
        yield "Every addendum that a record names is unchanged, or an entry records its erasure."
        yield "The look-up rows are those that the records give."


def _of_keys(
    plan: Plan, trust: Trust, checked: CheckedCheckpoints, counts: Mapping[str, int], given: Sequence[VerifierKey]
) -> Iterator[str]:
    size, minimum = plan.extent.size, plan.minimum
    if trust.keyed_from is None:
        yield (
            "The log is not signed: anybody who can write to the database can have rewritten all of it. Set "
            "CONTEXT_ENGINE_AUDIT_KEY ('context-engine audit keygen' makes one)."
        )
        return
    if not given:
        yield (
            "No key from outside was given (--key): whoever rewrote the ledger may also have set its key. Give the "
            "verifier key that the operator of the log published."
        )
    if trust.keyed_from > minimum:
        yield f"The records {minimum} to {trust.keyed_from - 1} were written before the log had a key and have no MAC."
    without = size - minimum - max(0, trust.keyed_from - minimum) - counts["macs"]
    if without > 0:
        yield f"The MACs of {without} rows were not compared: this needs the signing key that made them."
    if not checked.signed:
        yield "No checkpoint in the ledger is signed by a trusted key; 'context-engine audit head' makes one."


def _of_the_end(plan: Plan, checked: CheckedCheckpoints, witnesses: Sequence[VerifierKey]) -> Iterator[str]:
    size = plan.extent.size
    newest = max(checked.outside, default=0)
    if not checked.outside:
        yield (
            "No checkpoint kept elsewhere was given (--against): records cut off at the end, or an old copy in place "
            "of the ledger, would not be detected."
        )
    elif newest < size:
        yield f"Records cut off after the first {newest} would not be detected: no checkpoint kept elsewhere has more."
    if not witnesses:
        yield "No witness was named (--witness): the key's holder could show different logs to different readers."
    for witness in witnesses:
        seen = checked.witnessed.get(witness, 0)
        if seen < size:
            yield f"The witness {witness.name} has cosigned the first {seen} of {size} records."


def _of_the_rest(plan: Plan, checked: CheckedCheckpoints, counts: Mapping[str, int]) -> Iterator[str]:
    if plan.minimum:
        yield f"The records below {plan.minimum} were pruned: their hashes are present, their contents are not."
    if checked.unchecked:
        yield f"{checked.unchecked} checkpoints are of sizes that were pruned and can no longer be compared."
    if counts["pending"]:
        yield f"{counts['pending']} records wait to be integrated: the removal of one would not be detected."
    if plan.log_alone:
        yield "Addenda and look-up rows were not checked."
    elif counts["damaged"]:
        yield "Addenda that no record names were not looked for: it is unknown which the changed records named."
