"""What a chunk is known by in every record that names it: kept once, under a number."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, select

from context_engine.audit.ledger.rows import insert_rows, rows_where
from context_engine.audit.ledger.schema import chunk

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
    said = "".join(["\x00" if one is None else f"={one}\x00" for one in texts])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass") + (sha256 or b"")).digest()


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
    hashes = {identity_hash(one): one for one in identities}
    numbers = {hashes[bytes(row[0])]: int(row[1]) for row in rows_where(connection, _NUMBERS, list(hashes))}
    missing = [(key, one) for key, one in hashes.items() if one not in numbers]
    if missing:
        first = int(connection.scalar(select(func.max(chunk.c.id))) or 0) + 1
        insert_rows(connection, chunk, [(number, key, *one) for number, (key, one) in enumerate(missing, first)])
        numbers.update((one, number) for number, (_, one) in enumerate(missing, first))
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
    if not (sha256 is None or isinstance(sha256, bytes)) or not all(isinstance(one, str | None) for one in texts):
        return False
    return identity_hash(identity) == key
