"""Checkpoints, the ledger's own and those kept elsewhere, against the tree as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from context_engine.audit.checks.findings import Finding, Place, Table
from context_engine.audit.checks.keys import Trust
from context_engine.audit.formats.checkpoint import Checkpoint, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.strict import FormatError


class Given(NamedTuple):
    """A checkpoint to check by.

    Attributes:
        table: checkpoint for one of the ledger's own, outside for one kept elsewhere.
        size: under which the ledger keeps it; None for one kept elsewhere.
        note: as it is written.
        name: where it comes from.
    """

    table: Table
    size: int | None
    note: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLog:
    """What checkpoints are compared with.

    Attributes:
        origin: name of the log.
        size: number of its records.
        minimum: what stood below this index was pruned.
        roots: at each size that a checkpoint has: by the rows, and by what they are likely to have been where they
            were changed; not there where what is left does not make one.
    """

    origin: str
    size: int
    minimum: int
    roots: Mapping[int, tuple[bytes, ...]]


@dataclass(slots=True)
class CheckedCheckpoints:
    """What came of it.

    Attributes:
        findings: what does not hold.
        fitting: sizes of the ledger's own checkpoints whose root is that of the log.
        outside: the same of those kept elsewhere.
        signed: the greatest fitting size that a key that counts has signed.
        witnessed: for each witness the greatest fitting size that it has cosigned.
        unchecked: checkpoints of sizes that were pruned.
    """

    findings: list[Finding] = field(default_factory=list)
    fitting: list[int] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)
    signed: int | None = None
    witnessed: dict[VerifierKey, int] = field(default_factory=dict)
    unchecked: int = 0


class _Read(NamedTuple):
    noted: Given
    checkpoint: Checkpoint
    signed: bool
    witnesses: tuple[VerifierKey, ...]


def size_of(note: str) -> int | None:
    """Return the size that a checkpoint says, None where it cannot be read."""
    try:
        return parse_checkpoint(note).size
    except FormatError:
        return None


def signed_size(notes: Iterable[Given], log: CheckedLog, keys: Sequence[VerifierKey]) -> int:
    """Return the greatest size at which one of some keys signed a checkpoint that fits the log, 0 where none did."""
    greatest = 0
    for noted in notes:
        try:
            note = parse_note(noted.note)
            checkpoint = parse_checkpoint(note)
            fits = checkpoint.origin == log.origin and checkpoint.root in log.roots.get(checkpoint.size, ())
            if fits and checkpoint.size > greatest and verify_note(note, keys):
                greatest = checkpoint.size
        except FormatError:
            continue  # what is wrong with it is said where each is checked
    return greatest


def check_checkpoints(
    notes: Sequence[Given], log: CheckedLog, trust: Trust, witnesses: Sequence[VerifierKey]
) -> CheckedCheckpoints:
    """Check what each checkpoint says of the log, and who says it.

    Args:
        given: the ledger's own, and those kept elsewhere.
        log: as it is now.
        trust: the keys that count.
        witnesses: whose cosignatures count.
    """
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
    for read, fits in fit:
        if fits:
            _take(read, checked)
    checked.findings.extend(_misfits(fit))
    return checked


def _read(
    noted: Given, log: CheckedLog, trust: Trust, witnesses: Sequence[VerifierKey], findings: list[Finding]
) -> _Read | None:
    """Return a checkpoint that is well made, of this log and signed; else add what is wrong with it."""
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
        findings.append(Finding("checkpoint_format", place, f"it is kept as one of another size, {checkpoint.size}"))
        return None
    if checkpoint.origin != log.origin:
        findings.append(Finding("checkpoint_origin", place, f"it is of another log, {checkpoint.origin[:200]}"))
        return None
    try:
        signed = bool(verify_note(note, trust.verifiers))
    except FormatError as error:
        findings.append(Finding("checkpoint_signature", place, str(error)))
        return None
    keyed = trust.keyed_from is not None and checkpoint.size > trust.keyed_from
    if not signed and (keyed or (outside and trust.verifiers)):
        findings.append(Finding("checkpoint_signature", place, "it is not signed by a key that counts in this log"))
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


def _take(read: _Read, checked: CheckedCheckpoints) -> None:
    size = read.checkpoint.size
    (checked.outside if read.noted.table == "outside" else checked.fitting).append(size)
    if read.signed:
        checked.signed = max(size, checked.signed or 0)
    for witness in read.witnesses:
        checked.witnessed[witness] = max(size, checked.witnessed.get(witness, 0))


def _misfits(fit: Sequence[tuple[_Read, bool]]) -> Iterator[Finding]:
    """Yield one finding for neighbouring checkpoints that do not fit: what changed lies before the first of them."""
    # What somebody who can write to the database may have put there shows nothing.
    firm = [read.checkpoint.size for read, fits in fit if fits and (read.signed or read.noted.table == "outside")]
    for (fits, table), group in groupby(fit, key=lambda pair: (pair[1], pair[0].noted.table)):
        if fits:
            continue
        reads = [read for read, _ in group]
        first, last, name = reads[0].checkpoint.size, reads[-1].checkpoint.size, reads[0].noted.name
        good = max((size for size in firm if size < first), default=0)
        code = "fork" if table == "outside" else "checkpoint_root"
        problem = f"among the records {good} to {first - 1}, some are not those that it was made over"
        yield Finding(code, Place(table, first, last if last != first else None, name), problem)
