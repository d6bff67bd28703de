"""What somebody without the key may do to a ledger, each with what a check must say of it, and of what else it may."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from context_engine.audit.checks.findings import Finding
from context_engine.audit.formats.checkpoint import Checkpoint
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.strict import to_base64
from context_engine.audit.ledger.derive import ChunkIdentity, identity_hash
from context_engine.audit.ledger.signing import pending_mac, row_mac
from tests.unit.audit.checks.logs import KEY, ORIGIN, STOLEN_NAME, Hand, key_change, open_log, search

__all__ = ["ATTACKS", "Attack", "Case", "Seen"]

Rows = range | None
"""None: all of a table."""


@dataclass(frozen=True)
class Case:
    """A ledger to attack.

    Attributes:
        hand: on a copy of it.
        random: chooses the places.
        early: an earlier copy of it, where it has one.
        erased: salt, data and kind of an addendum that was erased, where one was.
    """

    hand: Hand
    random: Random
    early: Path | None = None
    erased: tuple[bytes, bytes, str] | None = None

    def anywhere(self, start: int = 0) -> int:
        """A place in the log."""
        return self.random.randrange(start, self.hand.size)

    def with_addenda(self) -> int:
        """A place in the log whose record has addenda."""
        return int(str(self.random.choice(self.hand("SELECT DISTINCT idx FROM mention"))[0]))

    def own(self, kind: str = "question") -> bytes:
        """The digest of an addendum."""
        found = self.random.choice(self.hand("SELECT digest FROM addendum WHERE kind = ? ORDER BY digest", kind))[0]
        assert isinstance(found, bytes)
        return found

    def erased_names(self) -> set[str]:
        """What erased addenda are called in findings."""
        return {
            bytes(digest).hex() for (digest,) in self.hand("SELECT digest FROM erasure") if isinstance(digest, bytes)
        }

    def later_than(self, index: int) -> dict[str, Rows]:
        """The checkpoints that are made over the record at an index."""
        return {"checkpoint": range(index + 1, 1 << 40), "outside": range(index + 1, 1 << 40)}


@dataclass
class Seen:
    """What a check must find, as (code, table, row or name), and the rows that it may say something of.

    Attributes:
        must: None in the third place stands for any row.
        may: rows by table.
        names: of addenda that may be named: what was erased, where the entry that says so was moved or cut off.
    """

    must: set[tuple[str, str, int | str | None]] = field(default_factory=set)
    may: dict[str, Rows] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def missed(self, findings: tuple[Finding, ...]) -> set[tuple[str, str, int | str | None]]:
        """What must be found and was not."""
        return {one for one in self.must if not any(_meets(finding, one) for finding in findings)}

    def false(self, findings: tuple[Finding, ...]) -> list[Finding]:
        """What was found and is about other rows."""
        return [one for one in findings if not any(_meets(one, wanted) for wanted in self.must) and not self._may(one)]

    def _may(self, one: Finding) -> bool:
        if one.where.name in self.names:
            return True
        if one.where.table not in self.may:
            return False
        rows, first = self.may[one.where.table], one.where.first
        return rows is None or (first is not None and first in rows and (one.where.last or first) in rows)


def _meets(finding: Finding, wanted: tuple[str, str, int | str | None]) -> bool:
    code, table, at = wanted
    if (finding.code, finding.where.table) != (code, table):
        return False
    if at is None or finding.where.name == at:
        return True
    first = finding.where.first
    return isinstance(at, int) and first is not None and first <= at <= (finding.where.last or first)


class Attack(NamedTuple):
    """One of them.

    Attributes:
        name: what is done.
        least: records that it takes.
        kind: rows: it changes single rows of the log; beside: it leaves the log as it is; whole: it makes the log anew.
        do: does it, and returns what must be seen.
    """

    name: str
    least: int
    kind: Literal["rows", "beside", "whole"]
    do: Callable[[Case], Seen]


ATTACKS: list[Attack] = []


def attack(
    name: str, kind: Literal["rows", "beside", "whole"] = "whole", *, least: int = 1
) -> Callable[[Callable[[Case], Seen]], Callable[[Case], Seen]]:
    """Add an attack to the list."""

    def add(do: Callable[[Case], Seen]) -> Callable[[Case], Seen]:
        ATTACKS.append(Attack(name, least, kind, do))
        return do

    return add


def other(entry: bytes) -> bytes:
    """An entry of the same form that says something else."""
    changed = entry.replace(b'"NPA"', b'"HRX"').replace(b'"time":"2026', b'"time":"2025')
    assert changed != entry
    return changed


@attack("edit an entry", "rows")
def _(case: Case) -> Seen:
    index = case.anywhere()
    case.hand("UPDATE log SET entry = ? WHERE idx = ?", other(case.hand.entry(index)), index)
    return Seen({("entry_hash", "log", index)})


@attack("edit an entry and its leaf hash", "rows")
def _(case: Case) -> Seen:
    index = case.anywhere()
    entry = other(case.hand.entry(index))
    case.hand("UPDATE log SET entry = ?, leaf = ? WHERE idx = ?", entry, leaf_hash(entry), index)
    # The tile still has the hash, so that the checkpoints over it fit: they vouch for the tile.
    return Seen({("row_mac", "log", index), ("tile_hash", "log", index)})


@attack("edit an entry, its leaf hash, its look-up row and all tiles")
def _(case: Case) -> Seen:
    index = case.anywhere()
    entry = other(case.hand.entry(index))
    case.hand("UPDATE log SET entry = ?, leaf = ? WHERE idx = ?", entry, leaf_hash(entry), index)
    case.hand("UPDATE record SET domain = 'HRX' WHERE idx = ? AND domain = 'NPA'", index)
    case.hand.retile()
    must = {("row_mac", "log", index), ("checkpoint_root", "checkpoint", None), ("fork", "outside", None)}
    return Seen(must, case.later_than(index))


@attack("put a row in, and move those behind it")
def _(case: Case) -> Seen:
    index = case.anywhere()
    entry = other(case.hand.entry(index)).replace(b'"id":"', b'"id":"x')
    case.hand.rewrite(lambda rows: [*rows[:index], (entry, *rows[index][1:]), *rows[index:]])
    must = {("row_mac", "log", index), ("fork", "outside", None)}
    behind = range(index, 1 << 40)
    return Seen(must, {"log": behind, **case.later_than(index)}, case.erased_names())


@attack("add a row at the end, with the MAC of another")
def _(case: Case) -> Seen:
    size = case.hand.size
    entry = other(case.hand.entry(0)).replace(b'"id":"', b'"id":"x')
    case.hand.rewrite(lambda rows: [*rows, (entry, *rows[0][1:])])
    return Seen({("row_mac", "log", size)})


@attack("delete a row in the middle", "rows", least=3)
def _(case: Case) -> Seen:
    index = case.random.randrange(1, case.hand.size - 1)
    case.hand("DELETE FROM log WHERE idx = ?", index)
    return Seen({("gap", "log", index)})


@attack("delete a row, its look-up rows, and close the gap", least=3)
def _(case: Case) -> Seen:
    index = case.random.randrange(1, case.hand.size - 1)
    case.hand.rewrite(lambda rows: rows[:index] + rows[index + 1 :])
    must = {("row_mac", "log", index), ("truncated", "outside", None)}
    return Seen(must, {"log": range(index, 1 << 40), **case.later_than(index)}, case.erased_names())


@attack("cut the last rows off, with their tiles, look-up rows, addenda and checkpoints", least=2)
def _(case: Case) -> Seen:
    old = case.hand.size
    size = case.random.randrange(max(1, old - 300), old)
    case.hand.cut(size)
    return Seen({("truncated", "outside", old)}, names=case.erased_names())


@attack("delete the last rows alone", least=2)
def _(case: Case) -> Seen:
    old = case.hand.size
    size = case.random.randrange(max(1, old - 300), old)
    case.hand("DELETE FROM log WHERE idx >= ?", size)
    behind = range(size, old)
    return Seen({("gap", "log", size), ("gap", "log", old - 1)}, {"log": behind}, case.erased_names())


@attack("cut everything off")
def _(case: Case) -> Seen:
    old = case.hand.size
    case.hand.cut(0)
    case.hand("DELETE FROM erasure")
    return Seen({("truncated", "outside", old)})


@attack("swap two rows", "rows", least=3)
def _(case: Case) -> Seen:
    one, two = case.random.sample(range(1, case.hand.size), 2)
    rows = {
        index: case.hand("SELECT entry, leaf, mac, key_id FROM log WHERE idx = ?", index)[0] for index in (one, two)
    }
    for index, row in ((one, rows[two]), (two, rows[one])):
        case.hand("UPDATE log SET entry = ?, leaf = ?, mac = ?, key_id = ? WHERE idx = ?", *row, index)
    return Seen({(code, "log", index) for code in ("row_mac", "tile_hash") for index in (one, two)})


@attack("bring an old copy back", least=2)
def _(case: Case) -> Seen:
    old = case.hand.size
    _bring_back(case)
    return Seen({("truncated", "outside", old)})


@attack("bring an old copy back, and let it grow again", least=2)
def _(case: Case) -> Seen:
    old = case.hand.size
    _bring_back(case)
    start = case.hand.size
    with open_log(case.hand.place) as ledger:
        ledger.append([search(900_000_000 + one, small=one % 20 > 0) for one in range(old - start + 5)])
        ledger.checkpoint()
    return Seen({("fork", "outside", old)})


def _bring_back(case: Case) -> None:
    assert case.early is not None
    case.hand.place.write_bytes(case.early.read_bytes())
    for suffix in ("-wal", "-shm"):
        case.hand.place.with_name(case.hand.place.name + suffix).unlink(missing_ok=True)


@attack("write everything anew under another key")
def _(case: Case) -> Seen:
    hand, stolen = case.hand, STOLEN_NAME
    key = stolen.derived("mac")

    def change(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        entries = [bytes(row[0]).replace(KEY.verifier.text.encode(), stolen.verifier.text.encode()) for row in rows]
        return [(one, row_mac(key, at, leaf_hash(one)), stolen.key_id) for at, one in enumerate(entries)]

    hand.rewrite(change)
    hand("DELETE FROM checkpoint")
    _sign(case, stolen)
    must = {
        ("key_unknown", "log", 0),
        ("row_key", "log", 0),
        ("checkpoint_signature", "checkpoint", None),
        ("fork", "outside", None),
    }
    return Seen(must)


def _sign(case: Case, *keys: object) -> None:
    """Keep a checkpoint of the log as it is, signed by some keys."""
    with open_log(case.hand.place, None) as ledger:
        made = Checkpoint(ORIGIN, ledger.size, ledger.root())
    note = made.signed(*keys)  # type: ignore[arg-type]
    case.hand("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, 0)", made.size, note)


@attack("announce a key of one's own, and go on under it")
def _(case: Case) -> Seen:
    size, stolen = case.hand.size, STOLEN_NAME
    added = [key_change(KEY, stolen, endorsed_by=None), other(case.hand.entry(0)).replace(b'"id":"', b'"id":"x')]
    key = stolen.derived("mac")
    sealed = [(one, row_mac(key, size + at, leaf_hash(one)), stolen.key_id) for at, one in enumerate(added)]
    case.hand.rewrite(lambda rows: rows + sealed)  # type: ignore[operator]
    _sign(case, stolen)
    must = {
        ("key_changed", "log", size),
        ("row_key", "log", size),
        ("checkpoint_signature", "checkpoint", size + 2),
    }
    return Seen(must, {"log": range(size, size + 2)})


@attack("take every MAC and signature away")
def _(case: Case) -> Seen:
    last = case.hand.size - 1
    case.hand("UPDATE log SET mac = NULL, key_id = NULL")
    case.hand("DELETE FROM checkpoint")
    _sign(case)
    must = {
        ("row_unsigned", "log", 0),
        ("row_unsigned", "log", last),
        ("checkpoint_signature", "checkpoint", None),
    }
    return Seen(must)


@attack("forge a checkpoint without a signature", "beside")
def _(case: Case) -> Seen:
    size = _some_checkpoint(case)
    case.hand("UPDATE checkpoint SET note = ? WHERE size = ?", Checkpoint(ORIGIN, size, bytes(32)).text, size)
    return Seen({("checkpoint_signature", "checkpoint", size)})


@attack("forge a checkpoint with a signature of one's own")
def _(case: Case) -> Seen:
    size = _some_checkpoint(case)
    note = Checkpoint(ORIGIN, size, bytes(32)).signed(STOLEN_NAME)
    case.hand("UPDATE checkpoint SET note = ? WHERE size = ?", note, size)
    return Seen({("checkpoint_signature", "checkpoint", size)})


@attack("change the root in a signed checkpoint")
def _(case: Case) -> Seen:
    size = _some_checkpoint(case)
    note = str(case.hand("SELECT note FROM checkpoint WHERE size = ?", size)[0][0])
    lines = note.split("\n")
    lines[2] = to_base64(bytes(32))
    case.hand("UPDATE checkpoint SET note = ? WHERE size = ?", "\n".join(lines), size)
    return Seen({("checkpoint_signature", "checkpoint", size)})


@attack("keep a checkpoint under another size, of records to come")
def _(case: Case) -> Seen:
    size, later = _some_checkpoint(case), case.hand.size + 7
    case.hand("UPDATE checkpoint SET size = ? WHERE size = ?", later, size)
    return Seen({("checkpoint_format", "checkpoint", later)})


@attack("claim records to come, unsigned", "beside")
def _(case: Case) -> Seen:
    size = case.hand.size + 7
    case.hand("INSERT INTO checkpoint VALUES (?, ?, 0)", size, Checkpoint(ORIGIN, size, bytes(32)).text)
    return Seen({("checkpoint_signature", "checkpoint", size)})


@attack("make a note of rubbish")
def _(case: Case) -> Seen:
    size = _some_checkpoint(case)
    case.hand("UPDATE checkpoint SET note = 'rubbish' WHERE size = ?", size)
    return Seen({("checkpoint_format", "checkpoint", size)})


def _some_checkpoint(case: Case) -> int:
    return int(str(case.random.choice(case.hand("SELECT size FROM checkpoint ORDER BY size"))[0]))


@attack("edit the data of an addendum", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own()
    case.hand("UPDATE addendum SET data = X'00' || data WHERE digest = ?", digest)
    return Seen({("addendum_hash", "addendum", digest.hex())})


@attack("call a question something else", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own()
    case.hand("UPDATE addendum SET kind = 'other' WHERE digest = ?", digest)
    return Seen({("addendum_kind", "addendum", digest.hex())})


@attack("edit the salt of an addendum", least=2)
def _(case: Case) -> Seen:
    digest = case.own("candidates")
    case.hand("UPDATE addendum SET salt = ? WHERE digest = ?", bytes(16), digest)
    return Seen({("addendum_hash", "addendum", digest.hex())}, {"addendum": None} if case.hand.size == 2 else {})


@attack("edit the text of a chunk", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own("text")
    case.hand("UPDATE addendum SET data = 'Nobody approves.' WHERE digest = ?", digest)
    return Seen({("addendum_hash", "addendum", digest.hex())})


@attack("swap the data of two addenda", least=3)
def _(case: Case) -> Seen:
    found = case.hand("SELECT digest, data FROM addendum WHERE kind = 'question' ORDER BY digest")
    (one, data_one), (two, data_two) = case.random.sample(found, 2)
    for digest, data in ((one, data_two), (two, data_one)):
        case.hand("UPDATE addendum SET data = ? WHERE digest = ?", data, digest)
    assert isinstance(one, bytes)
    assert isinstance(two, bytes)
    return Seen({("addendum_hash", "addendum", digest.hex()) for digest in (one, two)})


@attack("let a text be named in the place of another", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own("text")
    key = hashlib.sha256(b"text\x00Everybody approves.").digest()
    case.hand("UPDATE addendum SET content_key = ? WHERE digest = ?", key, digest)
    return Seen({("addendum_hash", "addendum", digest.hex())})


@attack("delete a question silently", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own()
    case.hand("DELETE FROM addendum WHERE digest = ?", digest)
    return Seen({("addendum_missing", "addendum", digest.hex())})


@attack("delete a text silently", least=2)
def _(case: Case) -> Seen:
    digest = case.own("text")
    case.hand("DELETE FROM addendum WHERE digest = ?", digest)
    return Seen({("addendum_missing", "addendum", digest.hex())})


@attack("delete a question and say that an entry erased it", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own()
    case.hand("DELETE FROM addendum WHERE digest = ?", digest)
    case.hand("INSERT INTO erasure VALUES (?, ?)", digest, case.anywhere())
    return Seen({("addendum_missing", "addendum", digest.hex()), ("erasure_row", "erasure", digest.hex())})


@attack("delete a question and let an entry of erasure wait, without a MAC", "beside", least=2)
def _(case: Case) -> Seen:
    digest = case.own()
    case.hand("DELETE FROM addendum WHERE digest = ?", digest)
    entry = (
        b'{"v":1,"kind":"erasure","id":"e-1","time":"2026-03-02T10:00:00Z","digests":["%s"]}' % digest.hex().encode()
    )
    insert = "INSERT INTO pending (record_id, entry, leaf, written) VALUES ('e-1', ?, ?, 0)"
    case.hand(insert, entry, leaf_hash(entry))
    return Seen({("addendum_missing", "addendum", digest.hex()), ("pending_mac", "pending", "e-1")})


@attack("put an erased question back", "beside", least=300)
def _(case: Case) -> Seen:
    assert case.erased is not None
    salt, data, kind = case.erased
    digest = hashlib.sha256(salt + data).digest()
    case.hand("INSERT INTO addendum VALUES (?, ?, ?, ?, NULL)", digest, kind, salt, data)
    return Seen({("addendum_not_erased", "addendum", digest.hex())})


@attack("forget who erased a question", least=300)
def _(case: Case) -> Seen:
    case.hand("DELETE FROM erasure WHERE rowid IN (SELECT rowid FROM erasure LIMIT 1)")
    return Seen({("erasure_row", "erasure", None)})


@attack("keep an addendum that no record names", least=2)
def _(case: Case) -> Seen:
    salt, data = bytes(16), b"Who asked that?"
    digest = hashlib.sha256(salt + data).digest()
    case.hand("INSERT INTO addendum VALUES (?, 'question', ?, ?, NULL)", digest, salt, data)
    return Seen({("addendum_unnamed", "addendum", digest.hex())})


@attack("edit a look-up row", "beside")
def _(case: Case) -> Seen:
    index = case.anywhere()
    column = case.random.choice(["kind", "time", "domain", "status", "decision", "caller", "search_id", "record_id"])
    case.hand(f"UPDATE record SET {column} = 'other' WHERE idx = ?", index)
    return Seen({("record_row", "record", index)})


@attack("delete a look-up row", "beside")
def _(case: Case) -> Seen:
    index = case.anywhere()
    case.hand("DELETE FROM record WHERE idx = ?", index)
    return Seen({("record_row", "record", index)})


@attack("put a look-up row in", "beside")
def _(case: Case) -> Seen:
    index = case.hand.size + case.random.randrange(1000)
    case.hand("INSERT INTO record (idx, record_id, kind, time) VALUES (?, 'x-1', 'search', '')", index)
    return Seen({("record_row", "record", index)})


@attack("edit what a record mentions", "beside", least=2)
def _(case: Case) -> Seen:
    index = case.with_addenda()
    column = case.random.choice(["fate = 3", "fate = 'x'", "idx = -7", "tile = -7", f"chunk = {10**9}", "chunk = 'x'"])
    case.hand(f"UPDATE mention SET {column} WHERE idx = ? AND fate = 0", index)
    return Seen({("mention_row", "mention", index)}, {"mention": range(-7, 0)})


@attack("let a record mention another chunk", "beside", least=300)
def _(case: Case) -> Seen:
    index = case.with_addenda()
    other_one = case.random.choice(
        case.hand("SELECT id FROM chunk WHERE id NOT IN (SELECT chunk FROM mention WHERE idx = ?)", index)
    )[0]
    case.hand("UPDATE mention SET chunk = ? WHERE idx = ? AND fate = 1", other_one, index)
    return Seen({("mention_row", "mention", index)})


@attack("delete what a record mentions", least=2)
def _(case: Case) -> Seen:
    index = case.with_addenda()
    case.hand("DELETE FROM mention WHERE idx = ?", index)
    return Seen({("mention_row", "mention", index)})


@attack("let a record mention what it does not", "beside")
def _(case: Case) -> Seen:
    index = case.anywhere()
    others = case.hand("SELECT id FROM chunk WHERE id NOT IN (SELECT chunk FROM mention WHERE idx = ?)", index)
    number = case.random.choice(others)[0] if others else 10**8
    case.hand("INSERT INTO mention VALUES (?, ?, ?, 1)", index // 256, number, index)
    return Seen({("mention_row", "mention", index)})


@attack("edit a chunk that records mention", "beside", least=2)
def _(case: Case) -> Seen:
    number = _mentioned(case)
    column = case.random.choice(["source_id", "chunk_id", "document_id", "document_version", "content_sha256"])
    case.hand(f"UPDATE chunk SET {column} = 'other' WHERE id = ?", number)
    return Seen({("chunk_row", "chunk", number)})


@attack("edit a chunk that records mention, and its hash", least=2)
def _(case: Case) -> Seen:
    number = _mentioned(case)
    changed = ChunkIdentity("other", f"chunk-{number}", None, None, None)
    case.hand(
        "UPDATE chunk SET identity = ?, source_id = ?, chunk_id = ?, document_id = ?, document_version = ?, "
        "content_sha256 = ? WHERE id = ?",
        *(identity_hash(changed), *changed, number),
    )
    (index, *_), *_ = case.hand("SELECT idx FROM mention WHERE chunk = ?", number)
    return Seen({("mention_row", "mention", int(str(index)))})


@attack("delete a chunk that records mention", "beside", least=2)
def _(case: Case) -> Seen:
    number = _mentioned(case)
    indices = {int(str(row[0])) for row in case.hand("SELECT idx FROM mention WHERE chunk = ?", number)}
    case.hand("DELETE FROM chunk WHERE id = ?", number)
    return Seen({("mention_row", "mention", index) for index in indices})


@attack("put a chunk in that no record mentions")
def _(case: Case) -> Seen:
    added = ChunkIdentity("other", "chunk-x", "D-1", None, None)
    case.hand("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?)", 777_777, identity_hash(added), *added)
    return Seen({("chunk_row", "chunk", 777_777)})


def _mentioned(case: Case) -> int:
    """A chunk; in these logs one record alone mentions each."""
    return int(str(case.random.choice(case.hand("SELECT id FROM chunk ORDER BY id"))[0]))


@attack("edit a record that waits")
def _(case: Case) -> Seen:
    name = _waiting(case)
    ((entry,),) = case.hand("SELECT entry FROM pending WHERE record_id = ?", name)
    assert isinstance(entry, bytes)
    case.hand("UPDATE pending SET entry = ? WHERE record_id = ?", other(entry), name)
    return Seen({("pending_hash", "pending", name)})


@attack("edit a record that waits, and its leaf hash", "beside")
def _(case: Case) -> Seen:
    name = _waiting(case)
    ((entry,),) = case.hand("SELECT entry FROM pending WHERE record_id = ?", name)
    assert isinstance(entry, bytes)
    changed = other(entry)
    case.hand("UPDATE pending SET entry = ?, leaf = ? WHERE record_id = ?", changed, leaf_hash(changed), name)
    return Seen({("pending_mac", "pending", name)})


@attack("let a record wait that nobody wrote", "beside")
def _(case: Case) -> Seen:
    entry = other(case.hand.entry(0))
    insert = "INSERT INTO pending (record_id, entry, leaf, mac, key_id, written) VALUES ('x', ?, ?, ?, ?, 0)"
    case.hand(insert, entry, leaf_hash(entry), bytes(32), KEY.key_id)
    return Seen({("pending_mac", "pending", "x")})


@attack("let a record wait under a key of one's own", "beside")
def _(case: Case) -> Seen:
    entry = other(case.hand.entry(0))
    leaf, key = leaf_hash(entry), STOLEN_NAME
    insert = "INSERT INTO pending (record_id, entry, leaf, mac, key_id, written) VALUES ('y', ?, ?, ?, ?, 0)"
    case.hand(insert, entry, leaf, pending_mac(key.derived("mac"), leaf), key.key_id)
    return Seen({("pending_mac", "pending", "y")})


@attack("let a record wait a second time, under another id")
def _(case: Case) -> Seen:
    name = _waiting(case)
    row = case.hand("SELECT entry, leaf, mac, key_id FROM pending WHERE record_id = ?", name)[0]
    insert = "INSERT INTO pending (record_id, entry, leaf, mac, key_id, written) VALUES ('x', ?, ?, ?, ?, 0)"
    case.hand(insert, *row)
    return Seen({("pending_row", "pending", "x")})


def _waiting(case: Case) -> str:
    number = 800_000_000 + case.random.randrange(1000)
    with open_log(case.hand.place) as ledger:
        ledger.append([search(number + one * 1000) for one in range(3)])
    return f"search-{number:07d}"


@attack("edit a hash in a tile", "rows")
def _(case: Case) -> Seen:
    index = case.anywhere()
    ((tile,),) = case.hand("SELECT hashes FROM tile WHERE level = 0 AND idx = ?", index // 256)
    assert isinstance(tile, bytes)
    at = index % 256 * 32
    changed = tile[:at] + bytes([tile[at] ^ 1]) + tile[at + 1 :]
    case.hand("UPDATE tile SET hashes = ? WHERE level = 0 AND idx = ?", changed, index // 256)
    return Seen({("tile_hash", "log", index)})


@attack("edit a hash in a tile above", "beside", least=300)
def _(case: Case) -> Seen:
    ((tile,),) = case.hand("SELECT hashes FROM tile WHERE level = 1 AND idx = 0")
    assert isinstance(tile, bytes)
    case.hand("UPDATE tile SET hashes = ? WHERE level = 1 AND idx = 0", bytes(32) + tile[32:])
    return Seen({("tile_hash", "tile", "level 1, hash 0")})


@attack("delete a tile")
def _(case: Case) -> Seen:
    tile = case.anywhere() // 256
    case.hand("DELETE FROM tile WHERE level = 0 AND idx = ?", tile)
    rows = range(tile * 256, (tile + 1) * 256)
    return Seen({("tile_missing", "log", tile * 256)}, {"log": rows})


@attack("put a tile where there is none", "beside")
def _(case: Case) -> Seen:
    case.hand("INSERT INTO tile VALUES (6, 5, ?)", bytes(32))
    return Seen({("tile_extra", "tile", 5)})


@attack("say that records were pruned")
def _(case: Case) -> Seen:
    case.hand("UPDATE meta SET value = '256' WHERE name = 'minimum_index'")
    return Seen({("minimum_index", "meta", None)}, {"log": range(256), "record": range(256), "mention": range(256)})


@attack("take an entry away", "rows")
def _(case: Case) -> Seen:
    index = case.anywhere()
    case.hand("UPDATE log SET entry = NULL WHERE idx = ?", index)
    return Seen({("entry_missing", "log", index)}, {"log": range(1) if index == 0 else range(0)})


@attack("prune without a word", least=300)
def _(case: Case) -> Seen:
    case.hand("UPDATE log SET entry = NULL WHERE idx < 256")
    case.hand("UPDATE meta SET value = '256' WHERE name = 'minimum_index'")
    for table in ("record", "mention"):
        case.hand(f"DELETE FROM {table} WHERE idx < 256")
    case.hand.drop_unnamed()
    return Seen({("minimum_index", "meta", None)}, {"addendum": None})


@attack("edit a MAC", "rows")
def _(case: Case) -> Seen:
    index = case.anywhere()
    case.hand("UPDATE log SET mac = ? WHERE idx = ?", bytes(32), index)
    return Seen({("row_mac", "log", index)})


@attack("edit a row and say that another key made its MAC", "rows")
def _(case: Case) -> Seen:
    index, key = case.anywhere(), STOLEN_NAME
    entry = other(case.hand.entry(index))
    leaf = leaf_hash(entry)
    mac = row_mac(key.derived("mac"), index, leaf)
    case.hand("UPDATE log SET entry=?, leaf=?, mac=?, key_id=? WHERE idx=?", entry, leaf, mac, key.key_id, index)
    must = {("row_key", "log", index), ("tile_hash", "log", index)}
    return Seen(must, {"log": range(1)} if index == 0 else {})


@attack("edit a row and take its MAC away", "rows")
def _(case: Case) -> Seen:
    index = case.anywhere()
    entry = other(case.hand.entry(index))
    case.hand("UPDATE log SET entry=?, leaf=?, mac=NULL, key_id=NULL WHERE idx=?", entry, leaf_hash(entry), index)
    must = {("tile_hash", "log", index)}
    return Seen(must, {"log": range(index, index + 1)})


@attack("write a record down a second time")
def _(case: Case) -> Seen:
    size, index = case.hand.size, case.anywhere()
    row = case.hand("SELECT entry, mac, key_id FROM log WHERE idx = ?", index)[0]
    case.hand.rewrite(lambda rows: [*rows, row])
    return Seen({("row_mac", "log", size)})


@attack("give the log another name")
def _(case: Case) -> Seen:
    case.hand("UPDATE meta SET value = 'audit.other.example/log' WHERE name = 'origin'")
    must: set[tuple[str, str, int | str | None]] = {("origin", "meta", None)}
    must |= {("checkpoint_origin", table, None) for table in ("checkpoint", "outside")}
    return Seen(must, {"checkpoint": None})


@attack("have rows changed as they are written", "beside")
def _(case: Case) -> Seen:
    trigger = (
        "CREATE TRIGGER quiet AFTER INSERT ON record BEGIN UPDATE record SET caller = NULL WHERE idx = NEW.idx; END"
    )
    case.hand(trigger)
    return Seen({("schema", "schema", "quiet")})


@attack("put a row far behind the others")
def _(case: Case) -> Seen:
    far = 10**12 + case.random.randrange(1000)
    size = case.hand.size
    entry = other(case.hand.entry(0))
    case.hand("INSERT INTO log VALUES (?, ?, ?, NULL, NULL)", far, entry, leaf_hash(entry))
    must = {("gap", "log", size), ("gap", "log", far - 1), ("tile_missing", "log", far)}
    return Seen(must, {"log": range(size, far + 1), "record": range(far, far + 1), "tile": None})
