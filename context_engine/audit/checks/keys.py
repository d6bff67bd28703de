"""Decide which keys are trusted: those given, and those that the log's key changes link to them by signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import select

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.checks.rows import KeyRun
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.strict import FormatError, from_base64
from context_engine.audit.ledger.derive import parse_entry
from context_engine.audit.ledger.key_change import endorsement
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import IS_KEY, log, record


class KeyEntry(NamedTuple):
    """A key change: an entry that says which key is in force from here on.

    Attributes:
        idx: index of the entry.
        was, now: texts of the verifier keys; was is None for the first key of a log.
        endorsed: base64 signature of the former key over "<was>\\n<now>\\n".
        sealed: id of the key that made the row's valid MAC; None: no MAC was compared.
    """

    idx: int
    was: str | None
    now: str | None
    endorsed: str | None
    sealed: str | None = None


class _Link(NamedTuple):
    """A key of the log and the first entry that names it."""

    key: VerifierKey
    by: KeyEntry


Signed = Callable[[Sequence[VerifierKey]], int]
"""Returns the largest size of a matching checkpoint signed by one of the keys, 0 if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trusted keys of a log.

    Attributes:
        verifiers: keys whose signatures under checkpoints are accepted.
        keyed_from: index from which every row has a MAC and every later checkpoint a signature; None: no row has.
        named: keys that entries of the log name, trusted or not.
        findings: failed checks on the key changes.
    """

    verifiers: tuple[VerifierKey, ...]
    keyed_from: int | None
    named: frozenset[str]
    findings: tuple[Finding, ...]

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of the trusted keys."""
        return frozenset(key.key_id for key in self.verifiers)


def key_entry(index: int, entry: dict[str, Any], *, sealed: str | None = None) -> KeyEntry:
    """Return the key change of an entry of kind `key`; a value that is not a text becomes None."""
    values = (entry.get(name) for name in ("was", "now", "endorsed"))
    was, now, endorsed = (value if isinstance(value, str) else None for value in values)
    return KeyEntry(index, was, now, endorsed, sealed)


def endorsed_keys(ledger: Ledger, given: Sequence[VerifierKey]) -> tuple[VerifierKey, ...]:
    """Return the given keys, and the keys of a log that they endorsed, directly or through one another.

    Raises:
        AuditError: the database cannot be read.
    """
    keys = list(given)
    with ledger.database.connect() as connection:
        stored = connection.execute(
            select(log.c.idx, log.c.entry).join(record, record.c.idx == log.c.idx).where(IS_KEY).order_by(log.c.idx)
        ).all()
    for index, entry in stored:
        change = key_entry(index, parse_entry(entry) if isinstance(entry, bytes) else {})
        was, now = _parsed(change.was), _parsed(change.now)
        if was in keys and was is not None and now is not None and _endorsed(was, change):
            keys.append(now)
    return tuple(dict.fromkeys(keys))


def judge_keys(
    entries: Sequence[KeyEntry],
    trusted: Sequence[VerifierKey],
    minimum: int,
    *,
    keyed: bool,
    lost: bool,
    signed: Signed,
) -> Trust:
    """Return the keys to trust in a log.

    A trusted key vouches for the keys that it endorsed. It vouches for those before it only if it signed or sealed the
    entry that names it, because anybody can write a log that ends by naming somebody else's key. Without trusted keys
    the log's own are accepted: their signatures are consistent, whoever holds them.

    Args:
        trusted: keys obtained from outside the ledger.
        minimum: records below this index were pruned.
        keyed: whether any row has a MAC.
        lost: whether the log is empty or has unreadable entries, one of which may have named the first key.
    """
    chains, findings = _chains(entries, entries[0].was if entries and minimum else None, trusted)
    known = [link.key for chain in chains for link in chain]
    if trusted:
        verifiers = list(trusted)
        for chain in chains:
            counting, problem = _trusted_keys(chain, trusted, signed)
            verifiers += counting
            findings += problem
        findings.extend(_untrusted(entries, trusted, known, lost=lost or (minimum > 0 and keyed)))
    else:
        verifiers = known
        if keyed and not (entries or minimum or lost):
            findings.append(Finding("key_changed", Place("log", 0), "rows have MACs, and no entry names their key"))
    return Trust(
        verifiers=tuple(dict.fromkeys(verifiers)),
        keyed_from=_keyed_from(entries, minimum, keyed=bool(trusted) and keyed),
        named=frozenset(key.text for key in known),
        findings=tuple(findings),
    )


def judge_key_runs(runs: Iterable[KeyRun], trust: Trust) -> Iterator[Finding]:
    """Yield the rows without a MAC after the first key, and those under a key that is not trusted."""
    for run in runs:
        start = run.start
        if run.key_id is None:
            if trust.keyed_from is None or run.end <= trust.keyed_from:
                continue
            start = max(start, trust.keyed_from)
            code, problem = "row_unsigned", "the row has no MAC although the log already had a key"
        elif trust.verifiers and run.key_id not in trust.key_ids:
            code, problem = (
                "row_key",
                f"the row's MAC is of the key {run.key_id[:16]}, which is not trusted in this log",
            )
        else:
            continue
        yield Finding(code, Place("log", start, run.end - 1 if run.end - 1 > start else None), problem)


def _chains(
    entries: Sequence[KeyEntry], before: str | None, trusted: Sequence[VerifierKey]
) -> tuple[list[list[_Link]], list[Finding]]:
    """Return the chains of keys in which each endorsed the next, and a finding for each break."""
    chains: list[list[_Link]] = []
    findings: list[Finding] = []
    for entry in entries:
        now, broken = _parsed(entry.now), _key_change_problem(entry, before, trusted)
        if broken:
            findings.append(Finding("key_changed", Place("log", entry.idx), broken))
        if broken or not chains:
            was = None if broken else _parsed(entry.was)
            chains.append([] if was is None else [_Link(was, entry)])
        if now is not None:
            chains[-1].append(_Link(now, entry))
        before = entry.now
    return chains, findings


def _trusted_keys(
    chain: Sequence[_Link], trusted: Sequence[VerifierKey], signed: Signed
) -> tuple[list[VerifierKey], list[Finding]]:
    """Return the keys of a chain to trust, and a finding if nothing shows that a trusted key's holder wrote it."""
    keys = [link.key for link in chain]
    first = next((place for place, key in enumerate(keys) if key in trusted), None)
    if first is None:
        return [], []
    by = chain[first].by
    if by.sealed in {key.key_id for key in keys[first:]} or signed(keys[first:]) > by.idx:
        return keys, []
    problem = "the entry names a trusted key, and nothing shows that its holder wrote it: it signed no matching "
    problem += "checkpoint, and no MAC of it was compared"
    return keys[first:], [Finding("key_unproved", Place("log", by.idx), problem)]


def _key_change_problem(entry: KeyEntry, before: str | None, trusted: Sequence[VerifierKey]) -> str | None:
    """Return what is wrong with a key change, None if it is valid."""
    now = _parsed(entry.now)
    if now is None:
        return "the entry names no readable key"
    if entry.was != before:
        return f"the key that the entry names as the former one of {now.name}+{now.key_id} was not in force before it"
    if entry.was is None:
        return None
    was = _parsed(entry.was)
    if was is None:
        return "the entry names an unreadable former key"
    if entry.endorsed is not None and _endorsed(was, entry):
        return None
    if entry.endorsed is None and was in trusted and now in trusted:
        return None
    return f"the key changed from {was.name}+{was.key_id} to {now.name}+{now.key_id} without the former key's signature"


def _endorsed(was: VerifierKey, entry: KeyEntry) -> bool:
    try:
        signature = from_base64(entry.endorsed or "", "the endorsement")
    except FormatError:
        return False
    return was.accepts(signature, endorsement(str(entry.was), str(entry.now)))


def _untrusted(
    entries: Sequence[KeyEntry], trusted: Sequence[VerifierKey], known: Sequence[VerifierKey], *, lost: bool
) -> Iterator[Finding]:
    if entries and not set(known) & set(trusted):
        problem = "none of the keys that the log names is one of the keys given for verification"
        yield Finding("key_unknown", Place("log", entries[0].idx), problem)
    elif not entries and not lost:
        problem = "a key was given for verification, and the log names none: it was written without a key"
        yield Finding("key_unknown", Place("log"), problem)


def _keyed_from(entries: Sequence[KeyEntry], minimum: int, *, keyed: bool) -> int | None:
    if entries and entries[0].was is None:
        return entries[0].idx
    return minimum if entries or keyed else None


def _parsed(text: str | None) -> VerifierKey | None:
    try:
        return None if text is None else VerifierKey.parse(text)
    except FormatError:
        return None
