"""Which keys count: those that are trusted, and those that the log itself says followed them with their word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.checks.rows import KeyRun
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.strict import FormatError, from_base64
from context_engine.audit.ledger.key_change import endorsement


class KeyEntry(NamedTuple):
    """An entry of the log that says which key is in force from here on.

    Attributes:
        idx: index of the entry.
        was, now: verifier keys as they are written; was is None for the first key of a log.
        endorsed: base64 signature of the former key over "<was>\\n<now>\\n".
        sealed: whether its row has a MAC that was compared: somebody with the key wrote it.
    """

    idx: int
    was: str | None
    now: str | None
    endorsed: str | None
    sealed: bool = False


class _Link(NamedTuple):
    """A key of the log, and the entry that names it first."""

    key: VerifierKey
    by: KeyEntry


Signed = Callable[[Sequence[VerifierKey]], int]
"""Returns the greatest size at which one of the keys signed a checkpoint that fits the log, 0 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The keys that count.

    Attributes:
        verifiers: whose signatures under checkpoints count.
        keyed_from: index from which every row has a MAC and every later checkpoint a signature; None: none has.
        named: keys that entries of the log name, trusted or not.
        findings: what is wrong with the changes of keys.
    """

    verifiers: tuple[VerifierKey, ...]
    keyed_from: int | None
    named: frozenset[str]
    findings: tuple[Finding, ...]

    @property
    def key_ids(self) -> frozenset[str]:
        """Of the keys that rows may be under."""
        return frozenset(key.key_id for key in self.verifiers)


def key_entry(index: int, entry: dict[str, Any], *, sealed: bool = False) -> KeyEntry:
    """Return what an entry of kind `key` says; None stands for what is no text."""
    values = (entry.get(name) for name in ("was", "now", "endorsed"))
    was, now, endorsed = (value if isinstance(value, str) else None for value in values)
    return KeyEntry(index, was, now, endorsed, sealed)


def judge_keys(
    entries: Sequence[KeyEntry],
    trusted: Sequence[VerifierKey],
    minimum: int,
    *,
    keyed: bool,
    lost: bool,
    signed: Signed,
) -> Trust:
    """Return the keys that count in a log.

    A trusted key vouches for those that it endorsed, and, once it has signed or sealed the entry that names it, for
    those before it: anybody can write a log of his own that ends in the name of somebody else's key.
    Without a trusted key the log's own count: what they signed fits together, whoever holds them.

    Args:
        entries: of kind `key`, in the order of the log.
        trusted: keys that whoever checks had from elsewhere.
        minimum: what stood below this index was pruned.
        keyed: whether any row has a MAC.
        lost: whether the log is empty, or entries of it cannot be read: one of those may have named the first key.
        signed: what keys have signed of the log.
    """
    chains, findings = _chains(entries, entries[0].was if entries and minimum else None, trusted)
    known = [link.key for chain in chains for link in chain]
    if trusted:
        verifiers = list(trusted)
        for chain in chains:
            counting, problem = _counting(chain, trusted, signed)
            verifiers += counting
            findings += problem
        findings.extend(_untrusted(entries, trusted, known, lost=lost or (minimum > 0 and keyed)))
    else:
        verifiers = known
        if keyed and not (entries or minimum or lost):
            findings.append(
                Finding("key_changed", Place("log", 0), "rows have MACs, and no entry says under which key")
            )
    return Trust(
        verifiers=tuple(dict.fromkeys(verifiers)),
        keyed_from=_keyed_from(entries, minimum, keyed=bool(trusted) and keyed),
        named=frozenset(key.text for key in known),
        findings=tuple(findings),
    )


def judge_key_runs(runs: Iterable[KeyRun], trust: Trust) -> Iterator[Finding]:
    """Yield the rows that are under no key, or under one that does not count."""
    for run in runs:
        start = run.start
        if run.key_id is None:
            if trust.keyed_from is None or run.end <= trust.keyed_from:
                continue
            start = max(start, trust.keyed_from)
            code, problem = "row_unsigned", "the row has no MAC, and the log had a key by then"
        elif trust.verifiers and run.key_id not in trust.key_ids:
            code, problem = "row_key", f"the row is under the key {run.key_id[:16]}, which does not count in this log"
        else:
            continue
        yield Finding(code, Place("log", start, run.end - 1 if run.end - 1 > start else None), problem)


def _chains(
    entries: Sequence[KeyEntry], before: str | None, trusted: Sequence[VerifierKey]
) -> tuple[list[list[_Link]], list[Finding]]:
    """Return the keys that followed one another with their word, a new chain where one did not, and where."""
    chains: list[list[_Link]] = []
    findings: list[Finding] = []
    for entry in entries:
        now, broken = _parsed(entry.now), _broken(entry, before, trusted)
        if broken:
            findings.append(Finding("key_changed", Place("log", entry.idx), broken))
        if broken or not chains:
            was = None if broken else _parsed(entry.was)
            chains.append([] if was is None else [_Link(was, entry)])
        if now is not None:
            chains[-1].append(_Link(now, entry))
        before = entry.now
    return chains, findings


def _counting(
    chain: Sequence[_Link], trusted: Sequence[VerifierKey], signed: Signed
) -> tuple[list[VerifierKey], list[Finding]]:
    """Return the keys of a chain that count, and whether nothing shows that the holder of a trusted one wrote it."""
    keys = [link.key for link in chain]
    first = next((place for place, key in enumerate(keys) if key in trusted), None)
    if first is None:
        return [], []
    by = chain[first].by
    if by.sealed or signed(keys[first:]) > by.idx:
        return keys, []
    problem = "the entry names a key that is trusted, and nothing shows that its holder wrote it: no checkpoint that "
    problem += "fits is signed with it, and no MAC of it was compared"
    return keys[first:], [Finding("key_unproved", Place("log", by.idx), problem)]


def _broken(entry: KeyEntry, before: str | None, trusted: Sequence[VerifierKey]) -> str | None:
    """Return what is wrong with a change of key, None where it holds."""
    now = _parsed(entry.now)
    if now is None:
        return "the entry names no key that can be read"
    if entry.was != before:
        return f"the entry says that another key was in force before {now.name}+{now.key_id} than the log does"
    if entry.was is None:
        return None
    was = _parsed(entry.was)
    if was is None:
        return "the entry names a former key that cannot be read"
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
        problem = "the log names keys, and none of them is one that was given to check it with"
        yield Finding("key_unknown", Place("log", entries[0].idx), problem)
    elif not entries and not lost:
        problem = "a key was given to check with, and no entry of the log names a key: it was written without one"
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
