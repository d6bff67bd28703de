"""Erasure: find questions and texts, delete them for good, and record the erasure in the same transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, select, text

from context_engine.audit.formats.tiles import TILE_WIDTH
from context_engine.audit.ledger.append import append, own_words, statement, statement_id
from context_engine.audit.ledger.database import parts, rows_where
from context_engine.audit.ledger.derive import named_digest, named_digests, parse_entry, sha256_bytes
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.look_up import naming, tiles_named
from context_engine.audit.ledger.named import ContentPair, content_pairs
from context_engine.audit.ledger.overwrite import overwrite_freed, overwrites_deleted
from context_engine.audit.ledger.read import log_size, read_addenda
from context_engine.audit.ledger.schema import addendum, chunk, log, mention, pending, record
from context_engine.audit.record.candidates import CANDIDATES
from context_engine.audit.values import Addendum, Draft
from context_engine.core.protocols import Clock
from context_engine.errors import RecordNotFound

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_TEXTS: Final = ("text",)

_CARDS: Final = ("card",)

_MOST_DIGESTS: Final = 60
"""In one entry: 67 bytes each, beside reason and name of up to 800 bytes each, stay below 6144."""


class Erased(NamedTuple):
    """What was erased, or would be.

    Attributes:
        record_ids: of the entries that say so.
        questions: questions, and what else was kept of a record alone.
        texts: texts of chunks.
        cards: what else was known of those chunks.
        records: records that lose something; one text may be named by many.
        overwritten: whether the database's files hold nothing of it any more; None in PostgreSQL, where vacuuming,
            backups and archives are the operator's.
    """

    record_ids: tuple[str, ...]
    questions: int
    texts: int
    cards: int
    records: int
    overwritten: bool | None


def erase(ledger: Ledger, wanted: Wanted, *, reason: str, by: str, clock: Clock, dry_run: bool = False) -> Erased:
    """Delete questions and texts, and record it.

    Args:
        ledger: open for writing.
        wanted: what is to go. What is not there any more is passed over.
        reason: 1 to 200 characters that stand in the log for ever.
        by: who does it, likewise.
        clock: the time.
        dry_run: only say what would be erased.

    Raises:
        InvalidRequest: reason or name of another form.
        RecordNotFound: there is no record of an id.
        AuditError: the ledger cannot be written.
        LedgerCorrupt: what is stored cannot be read.
    """
    reason, by = own_words("reason", reason), own_words("by", by)
    if dry_run:
        ledger.integrate()
    else:
        enter_key(ledger, ledger.keyring, clock)
    with ledger.database.connect(patient=True) as connection:
        end, found = log_size(connection), find_erasable(connection, wanted)
    if dry_run:
        return _told((), found, None)
    with ledger.database.begin(alone=True) as connection:
        overwrites_deleted(connection)
        # The whole log was read before: whoever appends waits only for what has come since.
        found.join(find_erasable(connection, wanted, since=end))
        found.keep_there(connection)
        drafts = list(erasure_drafts(sorted(found.kinds), reason, by, clock))
        _delete(connection, found.kinds)
        append(connection, drafts, ledger.seals, clock.now().timestamp())
    ledger.integrate()
    return _told(tuple(draft.record_id for draft in drafts), found, overwrite_freed(ledger.database))


def erasure_drafts(digests: Sequence[bytes], reason: str, by: str, clock: Clock) -> Iterator[Draft]:
    """Yield the entries that say which addenda were erased, as few as hold them.

    Args:
        digests: of the addenda.
        reason, by: why, and by whom.
        clock: the time.
    """
    for part in parts(digests, _MOST_DIGESTS):
        now = clock.now()
        said = {"digests": [digest.hex() for digest in part], "reason": reason, "by": by}
        yield statement("erasure", statement_id("erasure", now), now, said)


def _delete(connection: Connection, digests: Sequence[bytes] | dict[bytes, str]) -> None:
    for part in parts(digests):
        connection.execute(delete(addendum).where(addendum.c.digest.in_(part)))


def _told(record_ids: tuple[str, ...], found: Erasable, overwritten: bool | None) -> Erased:
    texts, cards = found.count(*_TEXTS), found.count(*_CARDS)
    return Erased(record_ids, len(found.kinds) - texts - cards, texts, cards, len(found.records), overwritten)


_THERE: Final = "SELECT digest FROM addendum WHERE digest {values}"

_SHARED: Final = frozenset({CANDIDATES, "settings", "sources"})
"""Kinds of addenda that hold nothing of the question or of who asked it."""

_TILES: Final = 64
"""That are searched at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be erased.

    Attributes:
        record_ids: of searches and refused requests: the question, and all that was made of it.
        callers: pseudonyms: the same of all that they asked, or that was asked on their behalf.
        texts: SHA-256 in hex of texts of chunks.
        documents: (id, version) of documents: the texts of their chunks; a version of None stands for all of them.
    """

    record_ids: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    documents: tuple[tuple[str, str | None], ...] = ()


@dataclass(slots=True)
class Erasable:
    """What was found.

    Attributes:
        kinds: {digest of an addendum that is there: its kind}.
        records: indices of records that lose something.
    """

    kinds: dict[bytes, str] = field(default_factory=dict)
    records: set[int] = field(default_factory=set)

    def count(self, *kinds: str) -> int:
        """Return how many addenda there are of some kinds."""
        return sum(1 for kind in self.kinds.values() if kind in kinds)

    def join(self, other: Erasable) -> None:
        """Take what was found elsewhere."""
        self.kinds |= other.kinds
        self.records |= other.records

    def keep_there(self, connection: Connection) -> None:
        """Leave out what is not there any more."""
        there = {row[0] for row in rows_where(connection, _THERE, self.kinds.keys())}
        self.kinds = {digest: kind for digest, kind in self.kinds.items() if digest in there}


def find_erasable(connection: Connection, wanted: Wanted, since: int = 0) -> Erasable:
    """Return what of it is there.

    Args:
        connection: to the ledger's database.
        wanted: what is to be erased.
        since: index of the first record that is looked at for callers, texts and documents.

    Raises:
        RecordNotFound: there is no record of an id.
        LedgerCorrupt: what is stored cannot be read.
    """
    found = Erasable()
    for index, entry in _entries_of(connection, wanted, since):
        _add_own(connection, index, entry, found)
    for sha256 in wanted.texts:
        _add_texts(connection, chunk.c.content_sha256 == sha256_bytes(sha256), _is_text(sha256), since, found)
    for document_id, version in wanted.documents:
        named = chunk.c.document_id == document_id
        if version is not None:
            named &= chunk.c.document_version == version
        _add_texts(connection, named, _is_of(document_id, version), since, found)
    return found


def _entries_of(connection: Connection, wanted: Wanted, since: int) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield the entries of records and callers, those that could not be integrated among them."""
    missing = set(wanted.record_ids)
    for index, record_id, entry in _named(connection, wanted.record_ids):
        missing.discard(record_id)
        yield index, parse_entry(entry)
    for caller in wanted.callers:
        for index, entry in _mentioning(connection, caller.encode(), since):
            read = parse_entry(entry)
            who = read.get("caller")
            if isinstance(who, dict) and caller in (who.get("pseudonym"), who.get("for")):
                yield index, read
    if missing:
        raise RecordNotFound(f"the ledger has no record {', '.join(sorted(missing))}")


def _named(connection: Connection, ids: Collection[str]) -> Iterator[tuple[int | None, str, bytes]]:
    for part in parts(ids):
        in_log = select(log.c.idx, record.c.record_id, log.c.entry).join(record, record.c.idx == log.c.idx)
        for index, record_id, entry in connection.execute(in_log.where(record.c.record_id.in_(part))).all():
            yield index, record_id, entry or b""
        waits = select(pending.c.record_id, pending.c.entry).where(pending.c.record_id.in_(part))
        for record_id, entry in connection.execute(waits).all():
            yield None, record_id, entry


def _mentioning(connection: Connection, needle: bytes, since: int) -> Iterator[tuple[int | None, bytes]]:
    """Yield the entries that hold some bytes: on whose behalf a search was made stands in no column."""
    in_sqlite = connection.dialect.name == "sqlite"
    for table, index in ((log, log.c.idx), (pending, None)):
        entry = table.c.entry
        holds: Any = func.instr(entry, needle) > 0 if in_sqlite else text("position(:needle in entry) > 0")
        wanted = select(entry) if index is None else select(entry, index).where(log.c.idx >= since)
        rows = connection.execute(wanted.where(holds), {} if in_sqlite else {"needle": needle})
        for row in rows:
            yield (None if index is None else int(row[1])), bytes(row[0])


def _add_own(connection: Connection, index: int | None, entry: dict[str, Any], found: Erasable) -> None:
    digests = [digest for kind, digest in named_digests(entry).items() if kind not in _SHARED]
    there = read_addenda(connection, digests)
    found.kinds.update((digest, addendum.kind) for digest, addendum in there.items())
    if there and index is not None:
        found.records.add(index)


def _add_texts(
    connection: Connection,
    named: ColumnElement[bool],
    wanted: Callable[[Iterable[ContentPair], dict[bytes, Addendum]], Iterable[ContentPair]],
    since: int,
    found: Erasable,
) -> None:
    """Add texts and cards of chunks that records mention, from a record on."""
    there: dict[bytes, Addendum] = {}
    chosen: set[ContentPair] = set()
    for index in _naming(connection, named, since):
        entry = parse_entry(connection.scalar(select(log.c.entry).where(log.c.idx == index)) or b"")
        digest = named_digest(entry, CANDIDATES)
        held = None if digest is None else read_addenda(connection, [digest]).get(digest)
        if held is None:
            continue
        pairs = content_pairs(held.data)
        there.update(read_addenda(connection, {one for pair in pairs for one in pair} - there.keys()))
        chosen.update(wanted(pairs, there))
    digests = {one for pair in chosen for one in pair if one in there}
    found.kinds.update((one, there[one].kind) for one in digests)
    found.records.update(_records_with(connection, [there[one].data for one in digests if there[one].kind == "text"]))


def _records_with(connection: Connection, texts: Iterable[bytes]) -> Iterator[int]:
    """Yield the indices of records that mention some texts: each of them loses one."""
    for part in parts([hashlib.sha256(one).digest() for one in texts]):
        yield from _naming(connection, chunk.c.content_sha256.in_(part), 0)


def _naming(connection: Connection, named: ColumnElement[bool], since: int) -> Iterator[int]:
    """Yield the indices of records, from one on, that name a chunk which meets a condition."""
    there = tiles_named(connection)
    for tiles in parts(range(max(there.start, since // TILE_WIDTH), there.stop), _TILES):
        wanted = select(mention.c.idx).where(naming(tiles, named), mention.c.idx >= since)
        yield from connection.scalars(wanted.distinct()).all()


def _is_text(sha256: str) -> Callable[[Iterable[ContentPair], dict[bytes, Addendum]], list[ContentPair]]:
    """Choose the chunks of a text, and those that hold it: joined of it and its neighbours, or cut with an overlap."""

    def chosen(pairs: Iterable[ContentPair], there: dict[bytes, Addendum]) -> list[ContentPair]:
        texts = {pair: there[pair.text].data for pair in pairs if pair.text in there}
        own = next((data for data in texts.values() if hashlib.sha256(data).hexdigest() == sha256), None)
        return [pair for pair, data in texts.items() if data == own or (own and own in data)]

    return chosen


def _is_of(
    document_id: str, version: str | None
) -> Callable[[Iterable[ContentPair], dict[bytes, Addendum]], list[ContentPair]]:
    """Choose the chunks of a document."""

    def chosen(pairs: Iterable[ContentPair], there: dict[bytes, Addendum]) -> list[ContentPair]:
        return [
            pair for pair in pairs if pair.card in there and _is_card_of(there[pair.card].data, document_id, version)
        ]

    return chosen


def _is_card_of(card: bytes, document_id: str, version: str | None) -> bool:
    try:
        said = json.loads(card)
        return said.get("document_id") == document_id and version in (None, said.get("document_version"))
    except (ValueError, AttributeError):
        return False
