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
from context_engine.audit.ledger.database import overwrite_freed, overwrites_deleted, parts, rows_where
from context_engine.audit.ledger.derive import named_digest, named_digests, parse_entry, sha256_bytes
from context_engine.audit.ledger.erasure_mark import renew_mark
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.look_up import naming, tiles_named
from context_engine.audit.ledger.named import ContentPair, content_pairs
from context_engine.audit.ledger.read import log_size, read_addenda
from context_engine.audit.ledger.schema import addendum, chunk, log, mention, pending, record
from context_engine.audit.record.candidates import CANDIDATES
from context_engine.audit.record.question import ANSWER
from context_engine.audit.values import Addendum, Draft
from context_engine.core.protocols import Clock
from context_engine.errors import RecordNotFound

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_MOST_DIGESTS: Final = 60
"""Per entry: at 67 bytes each, with reason and name of up to 800 bytes each, an entry stays below 6144 bytes."""


class Erased(NamedTuple):
    """The result of an erasure, or of its dry run.

    Attributes:
        record_ids: ids of the entries that record it.
        questions: erased questions and other addenda of single records, without answers.
        texts: erased chunk texts.
        cards: erased chunk metadata.
        records: number of records that lose something; many may share a text.
        overwritten: whether the database files no longer hold the data; None in PostgreSQL, where vacuuming, backups
            and archives are the operator's task.
        answers: erased words of answers.
    """

    record_ids: tuple[str, ...]
    questions: int
    texts: int
    cards: int
    records: int
    overwritten: bool | None
    answers: int = 0

    @property
    def addenda(self) -> int:
        """How much was erased, of any kind."""
        return self.questions + self.answers + self.texts + self.cards


def erase(ledger: Ledger, wanted: Wanted, *, reason: str, by: str, clock: Clock, dry_run: bool = False) -> Erased:
    """Delete questions and texts, and record it.

    Args:
        wanted: what to erase; data that is already absent is skipped.
        reason: 1 to 200 characters, kept in the log for ever.
        dry_run: only report what would be erased.

    Raises:
        InvalidRequest: reason or name is invalid.
        RecordNotFound: there is no record of an id.
        AuditError: the ledger cannot be written.
        LedgerCorrupt: stored data cannot be read.
    """
    reason, by = own_words("reason", reason), own_words("by", by)
    if dry_run:
        ledger.integrate()
    else:
        enter_key(ledger, ledger.keyring, clock)
    with ledger.database.connect(patient=True) as connection:
        end, erasable = log_size(connection), find_erasable(connection, wanted)
    if dry_run:
        return _erasure_result((), erasable, None)

    def find(connection: Connection) -> Erasable:
        # Most of the log was searched before taking the lock: appending waits only for the search of the rest.
        erasable.join(find_erasable(connection, wanted, since=end))
        return erasable

    return _erased(ledger, find, reason, by, clock)


def erase_again(ledger: Ledger, digests: Collection[bytes], *, reason: str, by: str, clock: Clock) -> Erased:
    """Delete addenda that were erased before, from a copy of the ledger that still holds them, and record it.

    Args:
        digests: of the addenda; absent ones are skipped.
        reason, by: as in `erase`.

    Raises:
        AuditError: the copy is signed and its key is missing, or it cannot be written.
        LedgerCorrupt: stored data cannot be read.
    """

    def find(connection: Connection) -> Erasable:
        return Erasable({bytes(row[0]): str(row[1]) for row in rows_where(connection, _KINDS, digests)})

    with ledger.database.connect() as connection:
        present = find(connection)
    if not present.kinds:
        return _erasure_result((), present, None)
    enter_key(ledger, ledger.keyring, clock)
    return _erased(ledger, find, own_words("reason", reason), own_words("by", by), clock)


def _erased(ledger: Ledger, find: Callable[[Connection], Erasable], reason: str, by: str, clock: Clock) -> Erased:
    """Delete what is found within the transaction that records its erasure."""
    with ledger.database.begin(alone=True) as connection:
        overwrites_deleted(connection)
        erasable = find(connection)
        erasable.keep_stored(connection)
        drafts = list(erasure_drafts(sorted(erasable.kinds), reason, by, clock))
        _delete(connection, erasable.kinds)
        renew_mark(connection)
        append(connection, drafts, ledger.seals, clock.now().timestamp())
    ledger.integrate()
    return _erasure_result(tuple(draft.record_id for draft in drafts), erasable, overwrite_freed(ledger.database))


def erasure_drafts(digests: Sequence[bytes], reason: str, by: str, clock: Clock) -> Iterator[Draft]:
    """Yield as few entries as can record the erasure of all digests."""
    for part in parts(digests, _MOST_DIGESTS):
        now = clock.now()
        body = {"digests": [digest.hex() for digest in part], "reason": reason, "by": by}
        yield statement("erasure", statement_id("erasure", now), now, body)


def _delete(connection: Connection, digests: Sequence[bytes] | dict[bytes, str]) -> None:
    for part in parts(digests):
        connection.execute(delete(addendum).where(addendum.c.digest.in_(part)))


def _erasure_result(record_ids: tuple[str, ...], erasable: Erasable, overwritten: bool | None) -> Erased:
    kinds = list(erasable.kinds.values())
    texts, cards, answers = map(kinds.count, ("text", "card", ANSWER))
    questions = len(kinds) - texts - cards - answers
    return Erased(record_ids, questions, texts, cards, len(erasable.records), overwritten, answers)


_KINDS: Final = "SELECT digest, kind FROM addendum WHERE digest {values}"
_STORED: Final = "SELECT digest FROM addendum WHERE digest {values}"
_SHARED: Final = frozenset({CANDIDATES, "settings", "sources"})
"""Kinds of addenda that reveal neither the question nor who asked it."""

_TILES: Final = 64  # searched by one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to erase.

    Attributes:
        record_ids: ids of searches, answers and refused requests: the question and everything derived from it.
        callers: pseudonyms: the same for all requests by them or on their behalf.
        texts: hex SHA-256 of chunk texts.
        documents: (id, version) of documents whose chunk texts to erase; a version of None means all versions.
        sources: ids of sources: the chunk texts of each, and the questions that were searched in it.

    The words of the answers composed from a search go with its question and with each text that it loses.
    """

    record_ids: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    documents: tuple[tuple[str, str | None], ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(slots=True)
class Erasable:
    """What can be erased.

    Attributes:
        kinds: {digest: kind} of the addenda present.
        records: indices of records that lose something.
    """

    kinds: dict[bytes, str] = field(default_factory=dict)
    records: set[int] = field(default_factory=set)

    def join(self, other: Erasable) -> None:
        """Add the finds of another search."""
        self.kinds |= other.kinds
        self.records |= other.records

    def keep_stored(self, connection: Connection) -> None:
        """Drop digests that are no longer stored."""
        present = {row[0] for row in rows_where(connection, _STORED, self.kinds.keys())}
        self.kinds = {digest: kind for digest, kind in self.kinds.items() if digest in present}


def find_erasable(connection: Connection, wanted: Wanted, since: int = 0) -> Erasable:
    """Return the part of `wanted` that is stored.

    Args:
        since: index of the first record to search for callers, texts and documents.

    Raises:
        RecordNotFound: there is no record of an id.
        LedgerCorrupt: stored data cannot be read.
    """
    erasable = Erasable()
    for index, entry in _entries_of(connection, wanted, since):
        _add_own(connection, index, entry, erasable)
    for sha256 in wanted.texts:
        _add_texts(connection, chunk.c.content_sha256 == sha256_bytes(sha256), _is_text(sha256), since, erasable)
    for document_id, version in wanted.documents:
        named = chunk.c.document_id == document_id
        if version is not None:
            named &= chunk.c.document_version == version
        _add_texts(connection, named, _is_of(document_id, version), since, erasable)
    searches = set(wanted.record_ids)
    for source_id in wanted.sources:
        for index, entry in _searches_in(connection, source_id, since):
            searches.add(str(entry["id"]))
            _add_own(connection, index, entry, erasable)
            _add_texts_of_source(connection, index, entry, source_id, erasable)
    for index, entry in _answers_of(connection, [*searches, *_ids_of(connection, erasable.records)]):
        _add_own(connection, index, entry, erasable)
    return erasable


def _entries_of(connection: Connection, wanted: Wanted, since: int) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield the entries of the records and callers, including pending ones."""
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
        listed = ", ".join(sorted(missing))
        raise RecordNotFound(f"the ledger has no record {listed}: 'context-engine audit list' shows those it has")


def _searches_in(connection: Connection, source_id: str, since: int) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield the entries of the searches that asked a source, including pending ones."""
    for index, entry in _mentioning(connection, json.dumps(source_id).encode(), since):
        read = parse_entry(entry)
        asked = read.get("sources")
        if isinstance(asked, list) and any(isinstance(each, dict) and each.get("id") == source_id for each in asked):
            yield index, read


def _add_texts_of_source(
    connection: Connection, index: int | None, entry: dict[str, Any], source_id: str, erasable: Erasable
) -> None:
    """Add the texts and cards that a search got from a source."""
    digest = named_digest(entry, CANDIDATES)
    candidates = None if digest is None else read_addenda(connection, [digest]).get(digest)
    if candidates is None:
        return
    digests = {digest for pair in content_pairs(candidates.data, source_id) for digest in pair}
    present = read_addenda(connection, digests)
    erasable.kinds.update((digest, addendum.kind) for digest, addendum in present.items())
    if present and index is not None:
        erasable.records.add(index)


def _ids_of(connection: Connection, indices: Collection[int]) -> Iterator[str]:
    for part in parts(indices):
        yield from connection.scalars(select(record.c.record_id).where(record.c.idx.in_(part))).all()


def _answers_of(connection: Connection, search_ids: Collection[str]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield the entries of the answers composed from searches, including pending ones: their words quote what these
    searches found.
    """
    for part in parts(search_ids):
        composed = select(log.c.idx, log.c.entry).join(record, record.c.idx == log.c.idx)
        for index, entry in connection.execute(composed.where(record.c.search_id.in_(part))).all():
            if entry and (read := parse_entry(entry)).get("kind") == "answer":
                yield index, read
    wanted = set(search_ids)
    for entry in connection.scalars(select(pending.c.entry)).all() if wanted else ():
        read = parse_entry(entry)
        if read.get("kind") == "answer" and read.get("search") in wanted:
            yield None, read


def _named(connection: Connection, ids: Collection[str]) -> Iterator[tuple[int | None, str, bytes]]:
    for part in parts(ids):
        in_log = select(log.c.idx, record.c.record_id, log.c.entry).join(record, record.c.idx == log.c.idx)
        for index, record_id, entry in connection.execute(in_log.where(record.c.record_id.in_(part))).all():
            yield index, record_id, entry or b""
        waits = select(pending.c.record_id, pending.c.entry).where(pending.c.record_id.in_(part))
        for record_id, entry in connection.execute(waits).all():
            yield None, record_id, entry


def _mentioning(connection: Connection, needle: bytes, since: int) -> Iterator[tuple[int | None, bytes]]:
    """Yield the entries that contain some bytes; no column says on whose behalf a search was made."""
    in_sqlite = connection.dialect.name == "sqlite"
    for table, index in ((log, log.c.idx), (pending, None)):
        entry = table.c.entry
        holds: Any = func.instr(entry, needle) > 0 if in_sqlite else text("position(:needle in entry) > 0")
        wanted = select(entry) if index is None else select(entry, index).where(log.c.idx >= since)
        rows = connection.execute(wanted.where(holds), {} if in_sqlite else {"needle": needle})
        for row in rows:
            yield (None if index is None else int(row[1])), bytes(row[0])


def _add_own(connection: Connection, index: int | None, entry: dict[str, Any], erasable: Erasable) -> None:
    digests = [digest for kind, digest in named_digests(entry).items() if kind not in _SHARED]
    present = read_addenda(connection, digests)
    erasable.kinds.update((digest, addendum.kind) for digest, addendum in present.items())
    if present and index is not None:
        erasable.records.add(index)


def _add_texts(
    connection: Connection,
    named: ColumnElement[bool],
    wanted: Callable[[Iterable[ContentPair], dict[bytes, Addendum]], Iterable[ContentPair]],
    since: int,
    erasable: Erasable,
) -> None:
    """Add texts and cards of chunks that records from an index on mention."""
    present: dict[bytes, Addendum] = {}
    chosen: set[ContentPair] = set()
    for index in _naming(connection, named, since):
        entry = parse_entry(connection.scalar(select(log.c.entry).where(log.c.idx == index)) or b"")
        digest = named_digest(entry, CANDIDATES)
        candidates = None if digest is None else read_addenda(connection, [digest]).get(digest)
        if candidates is None:
            continue
        pairs = content_pairs(candidates.data)
        present.update(read_addenda(connection, {digest for pair in pairs for digest in pair} - present.keys()))
        chosen.update(wanted(pairs, present))
    digests = {digest for pair in chosen for digest in pair if digest in present}
    erasable.kinds.update((digest, present[digest].kind) for digest in digests)
    erasable.records.update(
        _records_with(connection, [present[digest].data for digest in digests if present[digest].kind == "text"])
    )


def _records_with(connection: Connection, texts: Iterable[bytes]) -> Iterator[int]:
    """Yield the indices of the records that mention some texts and so lose one."""
    for part in parts([hashlib.sha256(data).digest() for data in texts]):
        yield from _naming(connection, chunk.c.content_sha256.in_(part), 0)


def _naming(connection: Connection, named: ColumnElement[bool], since: int) -> Iterator[int]:
    """Yield the indices of records, from `since` on, that name a chunk meeting a condition."""
    span = tiles_named(connection)
    for tiles in parts(range(max(span.start, since // TILE_WIDTH), span.stop), _TILES):
        wanted = select(mention.c.idx).where(naming(tiles, named), mention.c.idx >= since)
        yield from connection.scalars(wanted.distinct()).all()


def _is_text(sha256: str) -> Callable[[Iterable[ContentPair], dict[bytes, Addendum]], list[ContentPair]]:
    """Choose the chunks with a text, and the chunks that contain it (joined with neighbours, or overlapping)."""

    def chosen(pairs: Iterable[ContentPair], present: dict[bytes, Addendum]) -> list[ContentPair]:
        texts = {pair: present[pair.text].data for pair in pairs if pair.text in present}
        own = next((data for data in texts.values() if hashlib.sha256(data).hexdigest() == sha256), None)
        return [pair for pair, data in texts.items() if data == own or (own and own in data)]

    return chosen


def _is_of(
    document_id: str, version: str | None
) -> Callable[[Iterable[ContentPair], dict[bytes, Addendum]], list[ContentPair]]:
    """Choose the chunks of a document."""

    def chosen(pairs: Iterable[ContentPair], present: dict[bytes, Addendum]) -> list[ContentPair]:
        return [
            pair
            for pair in pairs
            if pair.card in present and _is_card_of(present[pair.card].data, document_id, version)
        ]

    return chosen


def _is_card_of(card: bytes, document_id: str, version: str | None) -> bool:
    try:
        fields = json.loads(card)
        return fields.get("document_id") == document_id and version in (None, fields.get("document_version"))
    except (ValueError, AttributeError):
        return False
