"""Compare the ledger's checkpoints and copies kept elsewhere with the recomputed tree, and with what was published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import Connection, select

from context_engine.audit.checks.findings import Finding, Place, Table
from context_engine.audit.checks.keys import Trust
from context_engine.audit.formats.checkpoint import Checkpoint, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.ledger.publish import Publication, read_publication
from context_engine.audit.ledger.schema import checkpoint as stored_checkpoints


class CheckpointNote(NamedTuple):
    """A checkpoint to compare with the log.

    Attributes:
        table: "checkpoint" for one of the ledger's own, "outside" for one kept elsewhere.
        size: the size that the ledger stores it under; None for one kept elsewhere.
        note: its text.
        name: its origin, for messages.
    """

    table: Table
    size: int | None
    note: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLog:
    """The log that checkpoints are compared with.

    Attributes:
        origin: its name.
        size: number of records.
        minimum: records below this index were pruned.
        roots: by checkpoint size, the root of the stored rows and, if rows were changed, that of their likely original
            values; sizes whose root cannot be computed are absent.
    """

    origin: str
    size: int
    minimum: int
    roots: Mapping[int, tuple[bytes, ...]]


@dataclass(slots=True)
class CheckedCheckpoints:
    """The result of comparing checkpoints.

    Attributes:
        findings: the failed checks.
        fitting: sizes of the ledger's own checkpoints that match the log.
        outside: sizes of the checkpoints kept elsewhere that match the log.
        signed: the largest matching size signed by a trusted key.
        witnessed: the largest matching size cosigned, by witness.
        unchecked: number of checkpoints of sizes that were pruned.
    """

    findings: list[Finding] = field(default_factory=list)
    fitting: list[int] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)
    signed: int | None = None
    witnessed: dict[VerifierKey, int] = field(default_factory=dict)
    unchecked: int = 0


class _Read(NamedTuple):
    noted: CheckpointNote
    checkpoint: Checkpoint
    signed: bool
    witnesses: tuple[VerifierKey, ...]


def size_of(note: str) -> int | None:
    """Return the size stated in a checkpoint, None if it is unreadable."""
    try:
        return parse_checkpoint(note).size
    except FormatError:
        return None


def signed_size(notes: Iterable[CheckpointNote], log: CheckedLog, keys: Sequence[VerifierKey]) -> int:
    """Return the largest size of a checkpoint that matches the log and is signed by one of the keys, 0 if none."""
    greatest = 0
    for noted in notes:
        try:
            note = parse_note(noted.note)
            checkpoint = parse_checkpoint(note)
            fits = checkpoint.origin == log.origin and checkpoint.root in log.roots.get(checkpoint.size, ())
            if fits and checkpoint.size > greatest and verify_note(note, keys):
                greatest = checkpoint.size
        except FormatError:
            continue  # reported by check_checkpoints
    return greatest


def check_checkpoints(
    notes: Sequence[CheckpointNote], log: CheckedLog, trust: Trust, witnesses: Sequence[VerifierKey]
) -> CheckedCheckpoints:
    """Check each checkpoint, the ledger's own and those kept elsewhere, against the log, and its signatures."""
    checked = CheckedCheckpoints()
    fit: list[tuple[_Read, bool]] = []
    for noted in notes:
        read = _read(noted, log, trust, witnesses, checked.findings)
        if read is None:
            continue
        size = read.checkpoint.size
        if size > log.size:
            checked.findings.append(_truncated(read, log))
        elif not log.roots.get(size) and size < log.minimum:
            checked.unchecked += 1
        else:
            fit.append((read, read.checkpoint.root in log.roots.get(size, ())))
    fit.sort(key=lambda pair: pair[0].checkpoint.size)
    for read, fits in fit:  # by size: the last match is the largest
        if fits:
            _note_match(read, checked)
    checked.findings.extend(_misfits(fit))
    return checked


def _read(
    noted: CheckpointNote, log: CheckedLog, trust: Trust, witnesses: Sequence[VerifierKey], findings: list[Finding]
) -> _Read | None:
    """Return a checkpoint that is well-formed, of this log and signed; else add a finding and return None."""
    outside = noted.table == "outside"
    place = Place(noted.table, noted.size, name=noted.name)
    try:
        note = parse_note(noted.note)
        checkpoint = parse_checkpoint(note)
    except FormatError as error:
        findings.append(Finding("checkpoint_format", place, str(error)))
        return None
    place = place._replace(first=checkpoint.size if noted.size is None else noted.size)
    if noted.size not in (None, checkpoint.size):
        problem = f"the checkpoint is stored under another size than its own, {checkpoint.size}"
        findings.append(Finding("checkpoint_format", place, problem))
        return None
    if checkpoint.origin != log.origin:
        problem = f"the checkpoint is of another log, {checkpoint.origin[:200]}"
        findings.append(Finding("checkpoint_origin", place, problem))
        return None
    try:
        signed = bool(verify_note(note, trust.verifiers))
    except FormatError as error:
        findings.append(Finding("checkpoint_signature", place, str(error)))
        return None
    keyed = trust.keyed_from is not None and checkpoint.size > trust.keyed_from
    if not signed and (keyed or (outside and trust.verifiers)):
        findings.append(Finding("checkpoint_signature", place, "the checkpoint is not signed by a trusted key"))
        return None
    seen: list[VerifierKey] = []
    for witness in witnesses:
        try:
            seen.extend(signed.key for signed in verify_note(note, (witness,)))
        except FormatError as error:
            findings.append(Finding("cosignature", place, str(error)))
    return _Read(noted, checkpoint, signed, tuple(seen))


def _truncated(read: _Read, log: CheckedLog) -> Finding:
    size, missing = read.checkpoint.size, read.checkpoint.size - log.size
    where = Place(read.noted.table, size, name=read.noted.name)
    problem = f"the log had {size} records and has {log.size}: the last {missing} were cut off, or it is an old copy"
    return Finding("truncated", where, problem)


def _note_match(read: _Read, checked: CheckedCheckpoints) -> None:
    size = read.checkpoint.size
    (checked.outside if read.noted.table == "outside" else checked.fitting).append(size)
    if read.signed:
        checked.signed = size
    for witness in read.witnesses:
        checked.witnessed[witness] = size


def _misfits(fit: Sequence[tuple[_Read, bool]]) -> Iterator[Finding]:
    """Yield one finding per run of mismatching checkpoints: the change lies before the first of them."""
    # An unsigned checkpoint inside the database proves nothing: the attacker may have written it.
    firm = [read.checkpoint.size for read, fits in fit if fits and (read.signed or read.noted.table == "outside")]
    for (fits, table), group in groupby(fit, key=lambda pair: (pair[1], pair[0].noted.table)):
        if fits:
            continue
        reads = [read for read, _ in group]
        first, last, name = reads[0].checkpoint.size, reads[-1].checkpoint.size, reads[0].noted.name
        good = max((size for size in firm if size < first), default=0)
        code = "fork" if table == "outside" else "checkpoint_root"
        problem = f"some of the records {good} to {first - 1} are not those that the checkpoint was made over"
        yield Finding(code, Place(table, first, last if last != first else None, name), problem)


def check_published(connection: Connection, minimum: int) -> Iterator[Finding]:
    """Yield the published checkpoints that the ledger no longer has, and the last one if its time was changed.

    Args:
        minimum: records below this index were pruned.
    """
    published = read_publication(connection)
    rows = connection.execute(select(stored_checkpoints.c.size, stored_checkpoints.c.written))
    written = {size: at for size, at in rows if isinstance(size, int)}
    yield from _missing(published, written, minimum)
    if published.made is not None:
        size, at = published.made
        if written.get(size, at) != at:
            problem = "the time of the checkpoint is not the one that the ledger noted when it published it"
            yield Finding("checkpoint_time", Place("checkpoint", size), problem)


def _missing(published: Publication, written: Mapping[int, object], minimum: int) -> Iterator[Finding]:
    for size in sorted({size for size in published.done.values() if size > minimum and size not in written}):
        ways = ", ".join(sorted(way for way, done in published.done.items() if done == size))
        problem = f"the ledger published this checkpoint ({ways[:200]}) and no longer has it"
        yield Finding("checkpoint_missing", Place("checkpoint", size), problem)
