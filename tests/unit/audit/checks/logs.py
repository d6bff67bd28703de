"""Ledgers of made-up records for the tests of checks, and a hand that writes to their database without the key."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.strict import to_base64
from context_engine.audit.formats.tiles import TILE_WIDTH, append_leaves
from context_engine.audit.ledger.derive import ChunkIdentity, derive_mentions, derive_record, identity_hash, parse_entry
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import chunk, mention, record
from context_engine.audit.record.candidates import candidates_addendum
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.testing.fakes import FixedClock

ORIGIN = "audit.bank.example/retrieval"
KEY = SigningKey(ORIGIN, bytes(range(32)))
LATER_KEY = SigningKey(ORIGIN, bytes(range(1, 33)))
STOLEN_NAME = SigningKey(ORIGIN, bytes(range(2, 34)))
"""A key that somebody made who knows the name of the log."""

FATES = ("source_id", "chunk_id", "document_id", "document_version", "content_sha256", "outcome")


def search(number: int, *, shared: int = 40, small: bool = False) -> Draft:
    """The record of a search: question and candidates of its own, a text that every `shared`th search names too.

    Args:
        small: an entry without addenda.
    """
    name = f"search-{number:07d}"
    text = Content("text", b"A rule on approvals, number %d." % (number % shared))

    def compose(digests: Mapping[bytes, bytes]) -> Composed:
        sha256 = hashlib.sha256(text.data).hexdigest()
        rows = [
            ("policies", f"chunk-{number}", "D-1", "3", sha256, "returned"),
            ("policies", f"chunk-{number}-b", "D-2", None, sha256, "dropped"),
        ]
        fates = {name: list(column) for name, column in zip(FATES, zip(*rows, strict=True), strict=True)}
        own = (
            Addendum.of("question", b"Who approves request %d?" % number),
            candidates_addendum({"v": 1, "fates": fates}, [digests[text.key]]),
        )
        chunks = [{"source": "policies", "chunk": f"chunk-{number}", "document": "D-1", "version": "3"}]
        return Composed(_entry(number, name, chunks, {one.kind: one.digest.hex() for one in own}), own)

    if small:
        return Draft(record_id=name, contents=(), compose=lambda _digests: Composed(_entry(number, name, [], {})))
    return Draft(record_id=name, contents=(text,), compose=compose)


def _entry(number: int, name: str, chunks: Sequence[Mapping[str, str]], addenda: Mapping[str, str]) -> bytes:
    said = {
        "v": 1,
        "kind": "search",
        "id": name,
        "time": f"2026-03-02T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "caller": {"pseudonym": f"{number % 7:032x}"},
        "domain": "NPA",
        "status": "ok",
        "decision": "allowed",
        "chunks": chunks,
        "addenda": addenda,
    }
    return json.dumps(said, separators=(",", ":")).encode()


def open_log(place: Path | str, key: SigningKey | None = KEY, *former: SigningKey) -> Ledger:
    """Open a ledger under a key."""
    keyring = None if key is None else Keyring(key, former)
    return Ledger.open(str(place), origin=ORIGIN, keyring=keyring, clock=FixedClock())


def make_log(place: Path | str, records: int, *, key: SigningKey | None = KEY, checkpoints: int = 3) -> list[str]:
    """Make a ledger of so many records, the entry of its key among them; return its checkpoints.

    Of a large one most records have no addenda. A small one that is new is a copy of the first of its kind.
    """
    if isinstance(place, str) or place.exists() or records > 1000:
        return _written(place, records, key, checkpoints)
    content, notes = _made(records, key, checkpoints)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return list(notes)


@cache
def _made(records: int, key: SigningKey | None, checkpoints: int) -> tuple[bytes, tuple[str, ...]]:
    """Return the file of a ledger, and its checkpoints."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "ledger.db"
        notes = _written(place, records, key, checkpoints)
        return copied(place, place.with_name("copy.db")).place.read_bytes(), tuple(notes)


def _written(place: Path | str, records: int, key: SigningKey | None, checkpoints: int) -> list[str]:
    notes = []
    with open_log(place, key) as ledger:
        if key is not None:
            enter_key(ledger, ledger.keyring, ledger.clock)
        left = range(ledger.size, records)
        for number in range(checkpoints):
            part = left[len(left) * number // checkpoints : len(left) * (number + 1) // checkpoints]
            for start in range(0, len(part), 2000):
                ledger.append(
                    [search(one, small=records > 2000 and one % 20 > 0) for one in part[start : start + 2000]]
                )
            notes.append(ledger.checkpoint().note)
    return notes


def key_change(was: SigningKey, now: SigningKey, *, endorsed_by: SigningKey | None) -> bytes:
    """The entry of a change of key."""
    names = (was.verifier.text, now.verifier.text)
    signature = (
        None if endorsed_by is None else to_base64(endorsed_by.sign("".join(f"{one}\n" for one in names).encode()))
    )
    said = {"v": 1, "kind": "key", "id": "key-x", "time": "2026-03-02T10:00:00Z"}
    return json.dumps({**said, "was": names[0], "now": names[1], "endorsed": signature}, separators=(",", ":")).encode()


class Hand:
    """Somebody who can write to the database of a ledger at will, and has not its key.

    Args:
        place: the file.
    """

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Run a statement and commit it; return what it found."""
        with closing(sqlite3.connect(self.place)) as connection:
            found = connection.execute(statement, values).fetchall()
            connection.commit()
            return found

    def script(self, statements: str) -> None:
        """Run several statements over one connection, defensive settings off."""
        with closing(sqlite3.connect(self.place)) as connection:
            connection.executescript(statements)
            connection.commit()

    def many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement for many rows."""
        with closing(sqlite3.connect(self.place)) as connection:
            connection.executemany(statement, rows)
            connection.commit()

    @property
    def size(self) -> int:
        """Of the log."""
        return int(str(self("SELECT coalesce(max(idx), -1) + 1 FROM log")[0][0]))

    def entry(self, index: int) -> bytes:
        """The entry at an index."""
        found = self("SELECT entry FROM log WHERE idx = ?", index)[0][0]
        assert isinstance(found, bytes)
        return found

    def rewrite(self, change: Callable[[list[tuple[object, ...]]], list[tuple[object, ...]]]) -> None:
        """Write the log anew with other rows (entry, mac, key id), and all that follows from it without a key."""
        rows = change(self("SELECT entry, mac, key_id FROM log ORDER BY idx"))
        for table in ("log", "tile", "record", "mention", "chunk"):
            self(f"DELETE FROM {table}")
        entries = [bytes(entry) for entry, *_ in rows if isinstance(entry, bytes)]
        leaves = [leaf_hash(entry) for entry in entries]
        placed = [(index, entry, leaves[index], *rows[index][1:]) for index, entry in enumerate(entries)]
        self.many("INSERT INTO log (idx, entry, leaf, mac, key_id) VALUES (?, ?, ?, ?, ?)", placed)
        self.many(
            "INSERT INTO tile (level, idx, hashes) VALUES (?, ?, ?)",
            [(*at, hashes) for at, hashes in append_leaves(lambda *_: b"", 0, leaves).items()],
        )
        self.derive(entries)

    def derive(self, entries: Sequence[bytes]) -> None:
        """Write the look-up rows of entries, the first of a record id alone."""
        held = dict(self("SELECT digest, data FROM addendum WHERE kind = 'candidates'"))
        records, mentions = [], set[tuple[int, int, int, int]]()
        numbers: dict[ChunkIdentity, int] = {}
        for index, entry in enumerate(entries):
            said = parse_entry(entry)
            records.append(tuple(derive_record(index, str(said.get("id")), said)))
            named = said.get("addenda") or {}
            data = held.get(bytes.fromhex(named.get("candidates", "")))
            assert data is None or isinstance(data, bytes)
            for identity, fate in derive_mentions(said, data).items():
                mentions.add((index // TILE_WIDTH, numbers.setdefault(identity, len(numbers) + 1), index, fate))
        self.many(f"INSERT OR IGNORE INTO record VALUES ({', '.join('?' * len(record.columns))})", records)
        chunks = [(number, identity_hash(one), *one) for one, number in numbers.items()]
        self.many(f"INSERT INTO chunk VALUES ({', '.join('?' * len(chunk.columns))})", chunks)
        self.many(f"INSERT INTO mention VALUES ({', '.join('?' * len(mention.columns))})", mentions)

    def retile(self) -> None:
        """Make all tiles anew of the leaf hashes that the rows have."""
        leaves = [bytes(leaf) for (leaf,) in self("SELECT leaf FROM log ORDER BY idx") if isinstance(leaf, bytes)]
        self("DELETE FROM tile")
        self.many(
            "INSERT INTO tile (level, idx, hashes) VALUES (?, ?, ?)",
            [(*at, hashes) for at, hashes in append_leaves(lambda *_: b"", 0, leaves).items()],
        )

    def cut(self, size: int) -> None:
        """Cut the log off, leaving nothing that tells of it."""
        for table in ("log", "record", "mention"):
            self(f"DELETE FROM {table} WHERE idx >= ?", size)
        self("DELETE FROM checkpoint WHERE size > ?", size)
        self.drop_unnamed()
        self.retile()

    def drop_unnamed(self) -> None:
        """Delete the addenda that no entry names, question and candidates alone, and the chunks that no record does."""
        self("DELETE FROM chunk WHERE id NOT IN (SELECT chunk FROM mention)")
        named = set()
        for (entry,) in self("SELECT entry FROM log"):
            said = parse_entry(entry) if isinstance(entry, bytes) else {}
            named.update(bytes.fromhex(digest) for digest in said.get("addenda", {}).values())
        own = self("SELECT digest FROM addendum WHERE content_key IS NULL")
        self.many("DELETE FROM addendum WHERE digest = ?", [row for row in own if row[0] not in named])
        if not named:
            self("DELETE FROM addendum")


def copied(place: Path, to: Path) -> Hand:
    """Copy a closed ledger, and return a hand on the copy."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(place, to)
    return Hand(to)
