"""The findings of a ledger check; each names the rows that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

MOST_FINDINGS: Final = 1000
"""Findings kept per code; further ones are only counted."""

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
        table: table of the ledger, or "outside" for a checkpoint kept elsewhere.
        first: log index, `pending` sequence number, chunk number or checkpoint size of the first row.
        last: the same of the last row of a run; None for a single row.
        name: record id, digest, tile level, or key in `meta`.
    """

    table: Table
    first: int | None = None
    last: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        """The place for people, such as "log 17-20"."""
        rows = "" if self.first is None else f" {self.first}"
        if self.last is not None and self.last != self.first:
            rows += f"-{self.last}"
        return f"{self.table}{rows}" + (f" ({self.name})" if self.name else "")


class Finding(NamedTuple):
    """One failed check.

    Attributes:
        code: stable identifier for programs.
        where: the rows concerned.
        problem: the sentence for people; never quotes record contents.
    """

    code: str
    where: Place
    problem: str


Verdict = Literal["sound", "self-consistent", "not sound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying a ledger.

    Attributes:
        consistent: whether there are no findings.
        outside_key: whether a key was given that does not come from the ledger or its configuration.
        findings: in log order; at most `MOST_FINDINGS` per code.
        proved: what holds even against an attacker with write access to the database, one sentence each.
        not_proved: what this check could not show, and what would be needed.
        counts: rows read of each kind, findings on changed rows ("damaged"), findings not kept ("more CODE").
        size: number of records in the log.
    """

    consistent: bool
    outside_key: bool
    findings: tuple[Finding, ...]
    proved: tuple[str, ...]
    not_proved: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)
    size: int = 0

    @property
    def verdict(self) -> Verdict:
        """The result; "sound" needs a key from outside, since whoever rewrote the ledger may have set its key too."""
        if not self.consistent:
            return "not sound"
        return "sound" if self.outside_key else "self-consistent"

    @property
    def anchored(self) -> bool:
        """Whether a checkpoint kept outside, or a cosignature, matches: a cut at the end would then be found."""
        return self.counts.get("outside", 0) > 0 or self.counts.get("witnessed", 0) > 0


class Findings:
    """Collects findings: joins neighbouring rows into one finding and bounds the number kept per code."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Finding]] = {}
        self.more: Counter[str] = Counter()

    def add(self, code: str, where: Place, problem: str) -> None:
        """Add one finding."""
        self.extend((Finding(code, where, problem),))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings; one that continues the last finding of its code is joined to it."""
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
        """Return the findings in log order; those about no particular row come first."""
        everything = (finding for kept in self._kept.values() for finding in kept)
        return tuple(
            sorted(
                everything,
                key=lambda finding: (finding.where.first is not None, finding.where.first or 0, finding.code),
            )
        )

    def __bool__(self) -> bool:
        return bool(self._kept)


def joined(first: Finding, second: Finding) -> Finding | None:
    """Return one finding for two about neighbouring rows with the same problem, else None."""
    a, b = first.where, second.where
    if (first.code, first.problem, a.table, a.name) != (second.code, second.problem, b.table, b.name):
        return None
    if a.first is None or b.first is None or (a.last or a.first) + 1 != b.first:
        return None
    return first._replace(where=a._replace(last=b.last or b.first))
