"""Check the log stretch by stretch, in parallel; rows, tiles, look-up rows and addenda are each read once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Final

from sqlalchemy import Connection

from context_engine.audit.checks.addenda import Erased, KeptAddendum, Names, contents_in, digests_of, read_named
from context_engine.audit.checks.derived import Identities, NamedChunks, ReadEntry, compare_mentions, compare_records
from context_engine.audit.checks.findings import Finding, Findings, Place
from context_engine.audit.checks.keys import KeyEntry, key_entry
from context_engine.audit.checks.rows import (
    Block,
    KeyRun,
    LogExtent,
    LogRow,
    Macs,
    check_block,
    key_runs,
    read_level_0,
    read_rows,
)
from context_engine.audit.formats.keys import Keyring
from context_engine.audit.formats.tiles import TILE_WIDTH
from context_engine.audit.ledger.database import Database, open_database
from context_engine.audit.ledger.derive import derive_erased, parse_entry
from context_engine.audit.ledger.signing import row_macs
from context_engine.audit.record.candidates import CANDIDATES

_SEARCH: Final = b'"kind":"search"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to check, the same for every stretch.

    Attributes:
        extent: how far the log reaches.
        minimum: records below this index were pruned.
        keyring: keys to compare MACs with.
        log_alone: skip look-up rows and addenda.
    """

    extent: LogExtent
    minimum: int
    keyring: Keyring | None
    log_alone: bool

    def macs(self) -> Macs:
        """Return the MAC functions by key id."""
        keys = () if self.keyring is None else self.keyring.all
        return {key.key_id: row_macs(key.derived("mac")) for key in keys}


@dataclass(slots=True)
class Stretch:
    """The data read from a stretch, or from the whole log once its stretches are joined.

    Attributes:
        findings: the failed checks.
        blocks: the leaves of its tiles.
        runs: rows by key.
        keys: key changes.
        prunings: (index, minimum) of the entries that record a pruning.
        erased: erasures that entries record.
        names: addenda that entries name.
        chunks: chunks that records name.
        missing: addenda that are named and absent, {digest: index of a record that names it}.
        counts: number of "records", "macs" and "addenda" read.
    """

    findings: Findings = field(default_factory=Findings)
    blocks: list[Block] = field(default_factory=list)
    runs: list[KeyRun] = field(default_factory=list)
    keys: list[KeyEntry] = field(default_factory=list)
    prunings: list[tuple[int, int]] = field(default_factory=list)
    erased: Erased = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    chunks: NamedChunks = field(default_factory=NamedChunks)
    missing: dict[bytes, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def damaged(self) -> int:
        """The number of findings on changed rows. The original entries of those rows are unknown."""
        return sum(finding.where.table in ("log", "pending") for finding in self.findings.listed())

    def join(self, later: Stretch) -> None:
        """Add the next stretch, except for its blocks."""
        self.findings.extend(later.findings.listed())
        self.findings.more.update(later.findings.more)
        self.runs.extend(later.runs)
        self.keys.extend(later.keys)
        self.prunings.extend(later.prunings)
        for digest, indices in later.erased.items():
            self.erased.setdefault(digest, []).extend(indices)
        self.names.join(later.names)
        self.chunks.join(later.chunks)
        self.missing = {**later.missing, **self.missing}
        self.counts.update(later.counts)


def check_stretch(connection: Connection, tiles: range, plan: Plan) -> Stretch:
    """Check the rows of some level-0 tiles, and everything derived from them."""
    stretch = Stretch()
    macs, identities = plan.macs(), Identities(connection)
    hashes = read_level_0(connection, tiles.start, tiles.stop)
    for number, rows in _by_tile(connection, tiles):
        tile = hashes.get(number, b"")
        block, findings = check_block(number, plan.extent.width(number), rows, tile, macs, plan.minimum)
        if rows or tile or number * TILE_WIDTH >= plan.minimum:
            stretch.blocks.append(block)
            stretch.findings.extend(findings)
        stretch.runs.extend(key_runs(rows))
        stretch.counts["records"] += len(rows)
        stretch.counts["macs"] += sum(row.key_id in macs for row in rows)
        damaged = _damaged(rows, findings, macs)
        entries = [
            ReadEntry(row.idx, _parsed(row.entry))
            for row in rows
            if row.entry is not None and row.idx not in damaged and not (plan.log_alone and _SEARCH in row.entry[:64])
        ]
        sealed = {row.idx: row.key_id for row in rows if row.mac is not None and row.key_id in macs}
        for entry in entries:
            _note_statement(entry, stretch, sealed=sealed.get(entry.idx))
        stretch.findings.extend(_unreadable(entries))
        if not plan.log_alone:
            _check_derived(connection, number, entries, damaged, identities, stretch)
    return stretch


def _damaged(rows: list[LogRow], findings: list[Finding], macs: Macs) -> frozenset[int]:
    """Return the changed rows: each is reported once, and nothing is derived from it.

    If row and tile differ and the row's MAC is valid, the tile was changed, not the row.
    """
    sealed = {row.idx for row in rows if row.key_id in macs}
    return frozenset(
        finding.where.first
        for finding in findings
        if finding.where.table == "log"
        and finding.where.first is not None
        and finding.code != "tile_missing"
        and not (finding.code == "tile_hash" and finding.where.first in sealed)
    )


def _by_tile(connection: Connection, tiles: range) -> Iterator[tuple[int, list[LogRow]]]:
    """Yield each tile with its rows, which may be none."""
    number = tiles.start
    for rows in read_rows(connection, tiles.start * TILE_WIDTH, tiles.stop * TILE_WIDTH):
        for empty in range(number, rows[0].idx // TILE_WIDTH):
            yield empty, []
        number = rows[0].idx // TILE_WIDTH
        yield number, rows
        number += 1
    for empty in range(number, tiles.stop):
        yield empty, []


def _note_statement(entry: ReadEntry, stretch: Stretch, *, sealed: str | None) -> None:
    """Collect what an entry says about the log itself."""
    kind = entry.fields.get("kind")
    if kind == "key":
        stretch.keys.append(key_entry(entry.idx, entry.fields, sealed=sealed))
    elif kind == "pruning":
        minimum = entry.fields.get("minimum")
        stretch.prunings.append((entry.idx, minimum if isinstance(minimum, int) else 0))
    elif kind == "erasure":
        for digest in derive_erased(entry.fields):
            stretch.erased.setdefault(digest, []).append(entry.idx)


def _parsed(entry: bytes) -> dict[str, Any]:
    try:
        return parse_entry(entry)
    except RecursionError:  # deeply nested lists, which no holder of the key writes
        return {}


def _unreadable(entries: list[ReadEntry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.record_id is None:
            yield Finding("entry_format", Place("log", entry.idx), "the entry is not a readable record")


def _check_derived(
    connection: Connection,
    number: int,
    entries: list[ReadEntry],
    damaged: frozenset[int],
    identities: Identities,
    stretch: Stretch,
) -> None:
    """Check the look-up rows and addenda of the records of a tile."""
    start, end = number * TILE_WIDTH, (number + 1) * TILE_WIDTH
    stretch.findings.extend(compare_records(connection, start, end, entries, damaged))
    named = {entry.idx: digests_of(entry.fields) for entry in entries}
    kept = _addenda(connection, named, stretch)
    candidates: dict[int, bytes | None] = {}
    shared: dict[bytes, int] = {}
    for index, digests in named.items():
        for digest, kind in digests.items():
            if kind == CANDIDATES:
                addendum = kept.get(digest)
                candidates[index] = None if addendum is None else addendum.data
        for digest in contents_in(candidates.get(index)):
            if digest not in stretch.names.shared:
                shared.setdefault(digest, index)
    stretch.findings.extend(
        compare_mentions(connection, number, entries, candidates, damaged, identities, stretch.chunks)
    )
    _shared(connection, shared, stretch)


def _addenda(
    connection: Connection, named: dict[int, dict[bytes, str]], stretch: Stretch
) -> dict[bytes, KeptAddendum | None]:
    """Return the addenda that entries name; collect the missing addenda and the owner of each."""
    by = {digest: index for index, digests in named.items() for digest in digests}
    wanted = [digest for digest in by if digest not in stretch.names.shared]
    kept, findings = read_named(connection, wanted, by.get)
    stretch.findings.extend(findings)
    stretch.counts["addenda"] += len(kept)
    for digest in wanted:
        addendum, index = kept.get(digest), by[digest]
        if addendum is not None and addendum.kind != named[index][digest]:
            place = Place("addendum", index, name=digest.hex())
            stretch.findings.add("addendum_kind", place, "the addendum is of another kind than the entry says")
        if addendum is not None and addendum.shared:
            stretch.names.share((digest,), index)
        else:
            stretch.names.owns(digest)
        if digest not in kept:
            stretch.missing.setdefault(digest, index)
    return kept


def _shared(connection: Connection, shared: dict[bytes, int], stretch: Stretch) -> None:
    """Check shared contents, each at the first record of the stretch that names it."""
    kept, findings = read_named(connection, list(shared), shared.get)
    stretch.findings.extend(findings)
    stretch.counts["addenda"] += len(kept)
    for digest, index in shared.items():
        stretch.names.share((digest,), index)
        if digest not in kept:
            stretch.missing.setdefault(digest, index)


_LEAST_STRETCHES: Final = 3  # fewer are read sooner than another process starts
# The state of a worker process, set by its initializer.
_plans: list[Plan] = []
_opened: list[Database] = []


def are_several(plan: Plan, workers: int) -> bool:
    """Return whether several processes read the plan's stretches, each in a snapshot of its own."""
    return workers > 1 and len(plan.extent.stretches) >= _LEAST_STRETCHES


def check_stretches(database: Database, connection: Connection, plan: Plan, workers: int) -> Iterator[Stretch]:
    """Yield the plan's stretches, read over `connection` or by up to `workers` processes."""
    stretches = plan.extent.stretches
    if not are_several(plan, workers):
        for tiles in stretches:
            yield check_stretch(connection, tiles, plan)
        return
    # Spawn, not fork: threads of this process may hold locks.
    with ProcessPoolExecutor(
        min(workers, len(stretches)), get_context("spawn"), initializer=_open, initargs=(_address(database), plan)
    ) as pool:
        waiting: deque[Future[Stretch]] = deque()
        for tiles in stretches:
            waiting.append(pool.submit(_check, tiles))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _open(address: str, plan: Plan) -> None:
    _opened.append(open_database(address, origin="", create=False))
    _plans.append(plan)


def _check(tiles: range) -> Stretch:
    with _opened[0].connect() as connection:
        return check_stretch(connection, tiles, _plans[0])


def _address(database: Database) -> str:
    """Return the path or URL to open the ledger by, including its password."""
    url = database.engine.url
    return database.place if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)
