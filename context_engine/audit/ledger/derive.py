"""The look-up rows of a record, derived from its entry and candidates alone, and the chunk identities they share."""

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
"""What may become of a chunk, by the number it is stored as. The first two, by far the most, take SQLite no byte."""

_NUMBERS: Final = "SELECT identity, id FROM chunk WHERE identity {values}"
_COLUMNS: Final = "id, identity, source_id, chunk_id, document_id, document_version, content_sha256"


class ChunkIdentity(NamedTuple):
    """What a chunk is known by, in the order of the columns.

    Attributes:
        content_sha256: of its text, 32 bytes; None where it is not known.
    """

    source_id: str
    chunk_id: str
    document_id: str | None
    document_version: str | None
    content_sha256: bytes | None


def identity_hash(identity: ChunkIdentity) -> bytes:
    """Return SHA-256 of an identity: its texts, each behind "=" and before NUL, which none holds, then the hash."""
    *texts, sha256 = identity
    joined = "".join(["\x00" if text is None else f"={text}\x00" for text in texts])
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass") + (sha256 or b"")).digest()


def sha256_bytes(text: str) -> bytes:
    """Return a hash that is given in hex, or what no text has where it is none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def keep_identities(connection: Connection, identities: Collection[ChunkIdentity]) -> dict[ChunkIdentity, int]:
    """Return the number of every identity; one that is new gets the next.

    Args:
        connection: in the transaction that holds the lease: nobody else gives numbers.
        identities: without repetition.
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
    """Yield the numbers of chunks and their identities, None for a row that is not what its hash was made of.

    Args:
        connection: to the ledger's database.
        where: SQL; "": all of them.
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
_OTHER_FATE: Final = len(FATES)
_RANK: Final = (*(_FATES[fate] for fate in ("returned", "merged", "dropped")), _OTHER_FATE)
_IDENTITIES: Final = 16_384


class RecordColumns(NamedTuple):
    """The row of a record in the table `record`, in the order of its columns."""

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
    """Return an entry as a mapping, an empty one where it is none: whatever stands in the log is looked up as it is."""
    try:
        value = json.loads(entry)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def derive_record(index: int, record_id: str, entry: dict[str, Any]) -> RecordColumns:
    """Return what a record is looked up by.

    Args:
        index: of the entry.
        record_id: under which it was appended.
        entry: as `parse_entry` returns it.
    """
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
    """Return the chunks that a record names, and what became of each: the best, where it is named more than once.

    Args:
        entry: as `parse_entry` returns it.
        candidates: the addendum of that kind; None: what was returned is all that is known.
    """
    fates: dict[ChunkIdentity, int] = {}
    for source_id, chunk_id, document_id, version, sha256, fate in mentions_of(entry, candidates):
        try:
            identity = _identity(source_id, chunk_id, document_id, version, sha256)
        except TypeError:  # a damaged record may say anything
            identity = _storable(source_id, chunk_id, document_id, version, sha256)
        number = _FATES.get(fate, _OTHER_FATE) if isinstance(fate, str) else _OTHER_FATE
        fates[identity] = min(fates[identity], number, key=_RANK.index) if identity in fates else number
    return fates


def named_digest(entry: dict[str, Any], kind: str) -> bytes | None:
    """Return the digest under which an entry names an addendum of its own, None where it names none.

    Args:
        entry: as `parse_entry` returns it.
        kind: of the addendum, such as candidates.
    """
    return named_digests(entry).get(kind)


def named_digests(entry: Mapping[str, Any]) -> dict[str, bytes]:
    """Return {kind: digest} of the addenda that an entry names as its own; what is no digest is left out.

    Args:
        entry: as `parse_entry` returns it.
    """
    addenda = entry.get("addenda")
    digests: dict[str, bytes] = {}
    for kind, digest in addenda.items() if isinstance(addenda, dict) else ():
        try:
            digests[kind] = bytes.fromhex(digest)
        except (TypeError, ValueError):
            continue  # the entry was written so: its hash and MAC hold
    return digests


def derive_erased(entry: dict[str, Any]) -> list[bytes]:
    """Return the digests that an entry says were erased, none where it is no erasure.

    Args:
        entry: as `parse_entry` returns it.
    """
    if entry.get("kind") != "erasure" or not isinstance(entry.get("digests"), list):
        return []
    try:
        return list(dict.fromkeys(bytes.fromhex(digest) for digest in entry["digests"]))
    except (TypeError, ValueError):
        return []


def moment_text(moment: datetime) -> str:
    """Return a moment as records are looked up by: UTC, to the microsecond, so that texts stand in the order of time.

    Args:
        moment: aware.
    """
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


_identity: Final = lru_cache(_IDENTITIES)(_storable)  # The same chunks are named by record after record.


def _text(value: object) -> str | None:
    """Return a text that every database stores; PostgreSQL knows no NUL, and neither knows half a surrogate pair."""
    if not isinstance(value, str):
        return None
    if value.isascii() and "\x00" not in value:
        return value
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
