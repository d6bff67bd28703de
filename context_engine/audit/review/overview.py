"""What stands out in a ledger, and its figures by day: read once from each entry and kept in memory."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.record.entry import fetch
from context_engine.audit.record.exact import Unreadable, read_json
from context_engine.core.concurrency.forking import Lock
from context_engine.errors import LedgerCorrupt

EXCEPTIONS: Final = {
    "degraded": "A source failed",
    "denied": "Refused or withheld",
    "stale": "Stale chunk shown",
    "untrusted": "Untrusted chunk shown",
    "out_of_scope": "Out of scope",
    "incomplete": "Incomplete",
    "unsupported": "Sentence withheld",
}
"""What an auditor looks for, in words; each is decided by the entry of a record alone."""

STALE: Final = frozenset(("expired", "superseded"))
SEARCHES: Final = ("search", "rank")
_DAY: Final = 10
_CALLS: Final = 1000
_ACCOUNT: Final = "account"


@dataclass(slots=True)
class DayFigures:
    """The searches of a day.

    Attributes:
        stale: searches that showed an expired or superseded chunk.
        tiers: number of chunks shown, by authority tier.
        notices: number of searches with each notice, by its code.
    """

    searches: int = 0
    degraded: int = 0
    stale: int = 0
    tiers: Counter[int] = field(default_factory=Counter)
    notices: Counter[str] = field(default_factory=Counter)


def exceptions_of(entry: Mapping[str, Any]) -> frozenset[str]:
    """Return which `EXCEPTIONS` apply to a record."""
    return frozenset(_exceptions(entry))


def _exceptions(entry: Mapping[str, Any]) -> Iterator[str]:
    chunks = entry.get("chunks") or ()
    refused = (entry.get("error") or {}).get("code")
    if entry.get("status") in ("degraded", "failed") or refused == "all_sources_failed":
        yield "degraded"
    elif refused:
        yield "denied"
    if entry.get("denied") or entry.get("withheld"):
        yield "denied"
    if entry.get("decision") in ("out_of_scope", "incomplete"):
        yield str(entry["decision"])
    if entry.get("kind") in SEARCHES:
        if any(STALE.intersection(shown.get("flags", ())) for shown in chunks):
            yield "stale"
        if any(shown.get("trust") == "UNTRUSTED" for shown in chunks):
            yield "untrusted"
    if any(not sentence["shown"] for sentence in entry.get("sentences") or ()):
        yield "unsupported"


class Overview:
    """The exceptions and figures of a ledger so far. Thread-safe; one thread at a time reads on.

    A damaged entry counts as nothing: `audit verify` reports it.
    """

    def __init__(self) -> None:
        self._lock, self._reading = Lock(), False
        self._next = 0
        self._indices: dict[str, array[int]] = {name: array("Q") for name in EXCEPTIONS}
        self._days: dict[str, DayFigures] = {}
        self._calls: dict[tuple[str, str], deque[float]] = {}

    @property
    def size(self) -> int:
        """The number of records read."""
        return self._next

    def read_on(self, ledger: Ledger, most: int | None = None) -> None:
        """Read the records that are new; return at once if another thread does so.

        Args:
            most: most records to read; None: all.

        Raises:
            AuditError: the ledger cannot be read.
        """
        with self._lock:
            if self._reading:
                return
            self._reading = True
        try:
            end = ledger.size if most is None else min(ledger.size, self._next + most)
            for stored in ledger.entries(max(self._next, ledger.minimum_index), end):
                read = None if stored.entry is None else _read(stored.entry, ledger)
                with self._lock:
                    if read is not None and stored.index is not None:
                        self._note(*read, stored.index)
                    self._next = (stored.index or 0) + 1
            self._next = max(self._next, end)
        finally:
            self._reading = False

    def count(self, exception: str) -> int:
        """Return the number of records with an exception."""
        return len(self._indices[exception])

    def newest_first(self, exception: str, before: int | None = None) -> Iterator[int]:
        """Yield the indices of the records with an exception, from the largest to the smallest.

        Args:
            before: only smaller indices.
        """
        indices = self._indices[exception]
        place = len(indices) if before is None else bisect_left(indices, before)
        yield from (indices[number] for number in range(place - 1, -1, -1))

    def days(self, most: int) -> dict[str, DayFigures]:
        """Return the figures of the last days that have a search, oldest first."""
        with self._lock:
            days = sorted(self._days.items())[-most:]
            return {day: replace(each, tiers=each.tiers.copy(), notices=each.notices.copy()) for day, each in days}

    def call_times(self) -> dict[tuple[str, str], list[float]]:
        """Return the milliseconds of the last thousand calls of each source, by domain and source."""
        with self._lock:
            return {name: list(times) for name, times in sorted(self._calls.items())}

    def _note(self, entry: Mapping[str, Any], apply: frozenset[str], index: int) -> None:
        for name in apply:
            self._indices[name].append(index)
        if entry.get("kind") != "search":
            return
        day = self._days.setdefault(str(entry.get("time", ""))[:_DAY], DayFigures())
        day.searches += 1
        day.degraded += "degraded" in apply
        day.stale += "stale" in apply
        day.tiers.update(shown["tier"] for shown in entry["chunks"])
        day.notices.update({code for code, _ in entry["notices"]})
        for source in entry["sources"]:
            times = self._calls.setdefault((str(entry["domain"]), source["id"]), deque(maxlen=_CALLS))
            times.append(float(source["ms"]))


def _read(data: bytes, ledger: Ledger) -> tuple[Mapping[str, Any], frozenset[str]] | None:
    """Return an entry, with the lists that were cut from it, and its exceptions; None if it is damaged."""
    try:
        entry = json.loads(data)
        digest = entry.get("addenda", {}).get(_ACCOUNT) if entry.get("more") else None
        if digest is not None:
            cut = fetch(ledger, [bytes.fromhex(digest)], entry["id"])
            entry |= {} if not cut else read_json(next(iter(cut.values())))
        return entry, exceptions_of(entry)
    except (ValueError, KeyError, TypeError, AttributeError, Unreadable, LedgerCorrupt):
        return None
