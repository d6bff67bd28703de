"""Derive the look-up rows of a record from its entry and candidates alone; store the chunk identities they share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, select

from context_engine.audit.ledger.database import insert_rows, rows_where
from context_engine.audit.ledger.schema import chunk
from context_engine.audit.record.candidates import mentions_of

FATES: Final = ("dropped", "returned", "merged")
"""The fates of chunks, by the number stored. SQLite stores 0 and 1, by far the most frequent, without a byte."""

_NUMBERS: Final = "SELECT identity, id FROM chunk WHERE identity {values}"
_COLUMNS: Final = "id, identity, source_id, chunk_id, document_id, document_version, content_sha256"


class ChunkIdentity(NamedTuple):
    """What identifies a chunk, in column order; `content_sha256` has 32 bytes, or is None if unknown."""

    source_id: str
    chunk_id: str
    document_id: str | None
    document_version: str | None
    content_sha256: bytes | None


def identity_hash(identity: ChunkIdentity) -> bytes:
    """Return SHA-256 of an identity: each text as "=TEXT\0" (a missing one as "\0"), then the content hash."""
    *texts, sha256 = identity
    joined = "".join(["\x00" if text is None else f"={text}\x00" for text in texts])
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass") + (sha256 or b"")).digest()


def sha256_bytes(text: str) -> bytes:
    """Return the bytes of a hex hash; b"" if the text is not a hash."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def keep_identities(connection: Connection, identities: Collection[ChunkIdentity]) -> dict[ChunkIdentity, int]:
    """Return the number of every identity, giving new ones the next numbers.

    Args:
        connection: in the transaction that holds the lease: nobody else assigns numbers.
    """
    hashes = {identity_hash(identity): identity for identity in identities}
    numbers = {hashes[bytes(row[0])]: int(row[1]) for row in rows_where(connection, _NUMBERS, list(hashes))}
    missing = [(key, identity) for key, identity in hashes.items() if identity not in numbers]
    if missing:
        first = int(connection.scalar(select(func.max(chunk.c.id))) or 0) + 1
        insert_rows(
            connection, chunk, [(number, key, *identity) for number, (key, identity) in enumerate(missing, first)]
        )
        numbers.update((identity, number) for number, (_, identity) in enumerate(missing, first))
    return numbers


def read_identities(connection: Connection, where: str = "") -> Iterator[tuple[Any, ChunkIdentity | None]]:
    """Yield the numbers and identities of chunks; the identity is None if the row does not match its hash.

    Args:
        where: SQL condition; "" for all.
    """
    for number, key, *columns in connection.exec_driver_sql(f"SELECT {_COLUMNS} FROM chunk {where}"):
        identity = ChunkIdentity._make(columns)
        yield number, identity if _is_sound(identity, key) else None


def _is_sound(identity: ChunkIdentity, key: object) -> bool:
    *texts, sha256 = identity
    if not (sha256 is None or isinstance(sha256, bytes)) or not all(isinstance(text, str | None) for text in texts):
        return False
    return identity_hash(identity) == key


_UNKNOWN: Final = "unknown"
_FATES: Final[Mapping[str, int]] = {fate: number for number, fate in enumerate(FATES)}
_OTHER_FATE: Final = len(FATES)  # a fate that this version does not know
_RANK: Final = (*(_FATES[fate] for fate in ("returned", "merged", "dropped")), _OTHER_FATE)
_IDENTITIES: Final = 16_384  # identities cached


class RecordColumns(NamedTuple):
    """A row of the table `record`, in column order."""

    idx: int
    record_id: str
    kind: str
    time: str
    domain: str | None
    status: str | None
    decision: str | None
    caller: str | None
    search_id: str | None


def parse_entry(entry: bytes) -> dict[str, Any]:
    """Return an entry as a mapping; {} if it is not a JSON object, because look-up must work for any bytes in the
    log.
    """
    try:
        value = json.loads(entry)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def derive_record(index: int, record_id: str, entry: dict[str, Any]) -> RecordColumns:
    """Return the look-up row of an entry appended under `record_id`."""
    caller = entry.get("caller")
    return RecordColumns(
        index,
        record_id,
        _text(entry.get("kind")) or _UNKNOWN,
        _time(entry.get("time")),
        _text(entry.get("domain")),
        _text(entry.get("status")),
        _text(entry.get("decision")),
        _text(caller.get("pseudonym")) if isinstance(caller, dict) else None,
        _text(entry.get("search")),
    )


def derive_mentions(entry: dict[str, Any], candidates: bytes | None) -> dict[ChunkIdentity, int]:
    """Return the chunks that a record names and the best fate of each.

    Args:
        candidates: the addendum of that kind; None: only the returned chunks listed in the entry are known.
    """
    fates: dict[ChunkIdentity, int] = {}
    for source_id, chunk_id, document_id, version, sha256, fate in mentions_of(entry, candidates):
        try:
            identity = _identity(source_id, chunk_id, document_id, version, sha256)
        except TypeError:  # unhashable values in a damaged record
            identity = _storable(source_id, chunk_id, document_id, version, sha256)
        number = _FATES.get(fate, _OTHER_FATE) if isinstance(fate, str) else _OTHER_FATE
        fates[identity] = min(fates[identity], number, key=_RANK.index) if identity in fates else number
    return fates


def named_digest(entry: dict[str, Any], kind: str) -> bytes | None:
    """Return the digest of the entry's own addendum of a kind; None if the entry has none."""
    return named_digests(entry).get(kind)


def named_digests(entry: Mapping[str, Any]) -> dict[str, bytes]:
    """Return {kind: digest} of the addenda that an entry names as its own; invalid digests are left out."""
    addenda = entry.get("addenda")
    digests: dict[str, bytes] = {}
    for kind, digest in addenda.items() if isinstance(addenda, dict) else ():
        try:
            digests[kind] = bytes.fromhex(digest)
        except (TypeError, ValueError):
            continue  # not damage: the entry was written like this and matches its hash
    return digests


def derive_erased(entry: dict[str, Any]) -> list[bytes]:
    """Return the digests that an entry records as erased, [] if it is no erasure."""
    if entry.get("kind") != "erasure" or not isinstance(entry.get("digests"), list):
        return []
    try:
        return list(dict.fromkeys(bytes.fromhex(digest) for digest in entry["digests"]))
    except (TypeError, ValueError):
        return []


def moment_text(moment: datetime) -> str:
    """Return an aware moment as UTC text to the microsecond, which sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time(value: object) -> str:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return moment_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            pass
    return ""


def _storable(source_id: Any, chunk_id: Any, document_id: Any, version: Any, sha256: bytes | None) -> ChunkIdentity:
    return ChunkIdentity(_text(source_id) or "", _text(chunk_id) or "", _text(document_id), _text(version), sha256)


_identity: Final = lru_cache(_IDENTITIES)(_storable)  # many records name the same chunks


def _text(value: object) -> str | None:
    """Return a text that every database stores: PostgreSQL refuses NUL, both refuse lone surrogates."""
    if not isinstance(value, str):
        return None
    if value.isascii() and "\x00" not in value:
        return value
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
