"""What a check of a ledger found: each finding names the row that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

MOST_FINDINGS: Final = 1000
"""Findings of one code that are kept; what is beyond is counted."""

Table = Literal[
    "log",
    "pending",
    "tile",
    "checkpoint",
    "outside",
    "addendum",
    "erasure",
    "record",
    "chunk",
    "mention",
    "meta",
    "schema",
]


class Place(NamedTuple):
    """The rows that a finding is about.

    Attributes:
        table: of the ledger; outside: a checkpoint that is kept elsewhere.
        first: its index in the log, sequence number in pending, number of a chunk, size of a checkpoint.
        last: of several neighbours; None for one.
        name: record id, digest, level of a tile, or key of meta.
    """

    table: Table
    first: int | None = None
    last: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        """Return the place as a person reads it: "log 17-20"."""
        rows = "" if self.first is None else f" {self.first}"
        if self.last is not None and self.last != self.first:
            rows += f"-{self.last}"
        return f"{self.table}{rows}" + (f" ({self.name})" if self.name else "")


class Finding(NamedTuple):
    """Something that does not hold.

    Attributes:
        code: what a program tells findings apart by.
        where: the rows.
        problem: the same for a person, without anything that is kept secret.
    """

    code: str
    where: Place
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was checked of a ledger, and what came of it.

    Attributes:
        sound: nothing was found.
        findings: in the order of the log; at most `MOST_FINDINGS` of a code.
        proved: what holds against somebody who can write to the database, one sentence each.
        not_proved: what this check could not show, and what it would take.
        counts: rows read of each kind, findings about changed rows ("damaged"), and those not kept ("more CODE").
        size: records in the log.
    """

    sound: bool
    findings: tuple[Finding, ...]
    proved: tuple[str, ...]
    not_proved: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)
    size: int = 0


class Findings:
    """Gathers findings: neighbours become one, and no code fills the memory."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Finding]] = {}
        self.more: Counter[str] = Counter()

    def add(self, code: str, where: Place, problem: str) -> None:
        """Keep a finding."""
        self.extend((Finding(code, where, problem),))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Keep findings; one that continues the last of its code is joined to it."""
        for finding in findings:
            kept = self._kept.setdefault(finding.code, [])
            both = joined(kept[-1], finding) if kept else None
            if both is not None:
                kept[-1] = both
            elif len(kept) < MOST_FINDINGS:
                kept.append(finding)
            else:
                self.more[finding.code] += 1

    def listed(self) -> tuple[Finding, ...]:
        """Return what was found, in the order of the log; what is about no row comes first."""
        everything = (finding for kept in self._kept.values() for finding in kept)
        return tuple(
            sorted(
                everything,
                key=lambda finding: (finding.where.first is not None, finding.where.first or 0, finding.code),
            )
        )

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self._kept)


def joined(first: Finding, second: Finding) -> Finding | None:
    """Return one finding for two about neighbouring rows with the same problem, else None."""
    a, b = first.where, second.where
    if (first.code, first.problem, a.table, a.name) != (second.code, second.problem, b.table, b.name):
        return None
    if a.first is None or b.first is None or _last(a) + 1 != b.first:
        return None
    return first._replace(where=a._replace(last=_last(b)))


def _last(place: Place) -> int:
    return place.last if place.last is not None else place.first or 0
