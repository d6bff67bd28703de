"""A sample of records that nobody can pick: drawn by a seed, each stratum with its share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import RecordRow, draw_order
from context_engine.audit.record.entry import read_entry

K = TypeVar("K", bound=Hashable)


class StratifiedSample(NamedTuple):
    """A sample.

    Attributes:
        record_ids: in the order of the draw, stratum by stratum.
        shares: of each stratum its records in the population, and how many were drawn.
    """

    record_ids: tuple[str, ...]
    shares: Mapping[tuple[str, ...], tuple[int, int]]


def stratified(strata: Mapping[str, tuple[str, ...]], size: int, seed: str) -> StratifiedSample:
    """Draw records so that each stratum has its share of the sample, rounded up or down.

    Args:
        strata: record id -> its stratum.
        size: number of records to draw; all of them if there are fewer.
        seed: determines the sample; see `draw_order`.
    """
    members: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for record_id, stratum in strata.items():
        members[stratum].append(record_id)
    ordered = sorted(members)
    counts = shares({stratum: len(members[stratum]) for stratum in ordered}, min(size, len(strata)))
    drawn = [
        record_id
        for stratum in ordered
        for record_id in sorted(members[stratum], key=lambda each: draw_order(seed, each))[: counts[stratum]]
    ]
    return StratifiedSample(tuple(drawn), {stratum: (len(members[stratum]), counts[stratum]) for stratum in ordered})


def shares(sizes: Mapping[K, int], total: int) -> dict[K, int]:
    """Return how many of `total` each stratum gets: its exact share rounded down, and the rest to the largest
    remainders (the method of Hamilton); of equal ones to the first.

    Args:
        sizes: records of each stratum; their sum is at least `total`.
    """
    population = sum(sizes.values())
    if not population:
        return dict.fromkeys(sizes, 0)
    floors = {stratum: size * total // population for stratum, size in sizes.items()}
    left = total - sum(floors.values())
    remainders = sorted(sizes, key=lambda stratum: -(sizes[stratum] * total % population))
    for stratum in remainders[:left]:
        floors[stratum] += 1
    return floors


def stratum_of(ledger: Ledger, row: RecordRow, names: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a record that decide its stratum.

    Args:
        names: "domain", "decision", "status", "tier" or "month".
    """
    values = {"domain": row.domain or "", "decision": row.decision or "", "status": row.status or ""}
    values["month"] = row.time[:7]
    if "tier" in names:
        values["tier"] = _tier(ledger, row)
    return tuple(values[name] for name in names)


def _tier(ledger: Ledger, row: RecordRow) -> str:
    """Return the highest authority among the chunks shown, such as "tier 2"; "" if none was shown."""
    stored = ledger.entry_at(row.index)
    if stored is None or stored.entry is None:
        return ""
    tiers = [chunk["tier"] for chunk in read_entry(stored.entry).get("chunks", ()) if chunk.get("tier")]
    return f"tier {min(tiers)}" if tiers else ""
