"""The adapters stored with a base's vectors.

An adapter reveals something about every document it was trained on. So only callers who may read all the partitions
of these documents see it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.schema import Model
from context_engine.core.models import StoredAdapter, adapter_name
from context_engine.errors import StoreError

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter


READABLE: Final = (
    "CASE WHEN NOT json_valid(adapters.learnt_from) THEN 0 WHEN json_type(adapters.learnt_from) <> 'array' THEN 0"
    " ELSE NOT EXISTS (SELECT 1 FROM json_each(adapters.learnt_from)"
    " WHERE value NOT IN (SELECT value FROM json_each(:partitions))) END"
)
"""The caller may read every partition the adapter was learnt from."""
FITTING: Final = "model_id = :model_id AND length(maps) = :size"
"""The adapter fits the model and dimension of the base's vectors."""
_NAMED: Final = f"""
SELECT adapter_id FROM adapters WHERE domain = :domain AND adapter_id = :adapter_id AND {FITTING} AND {READABLE}
"""


class Origin(NamedTuple):
    """Where the documents stood that an adapter was learnt from.

    Attributes:
        index_number: of the base's state when they were read: documents may have moved where it is another now.
        partitions: the keys of the partitions that hold them, ascending.
    """

    index_number: int
    partitions: tuple[int, ...]


def read_all(
    connection: sqlite3.Connection, partitions: Collection[int], domain: str | None = None
) -> list[StoredAdapter]:
    """Return the adapters that a caller may see, oldest first.

    Args:
        partitions: the keys of the partitions that the caller may read.
        domain: None: all domains.
    """
    rows = connection.execute(
        "SELECT domain, adapter_id, model_id, adapters.learnt_from, evidence, made_at, EXISTS (SELECT 1"
        " FROM adapter_switches AS last WHERE (last.domain, last.learnt_from, last.adapter_id)"
        " = (adapters.domain, adapters.learnt_from, adapters.adapter_id) AND number = (SELECT max(number)"
        " FROM adapter_switches AS any WHERE (any.domain, any.learnt_from) = (last.domain, last.learnt_from)))"
        f" FROM adapters WHERE (:domain IS NULL OR domain = :domain) AND {READABLE}"
        " ORDER BY domain, made_at, adapter_id",
        {"domain": domain, "partitions": json.dumps(sorted(partitions))},
    )
    model = schema.model_of(connection)
    return [_stored(connection, model, *row) for row in rows.fetchall()]


def named(
    connection: sqlite3.Connection, domain: str, adapter_id: str, partitions: Collection[int], model: Model
) -> str | None:
    """Return the id of an adapter that the caller may see, or None.

    Args:
        connection: a reader's, in a transaction.
        partitions: the keys of all partitions that the caller may read.
        model: of the base's vectors; an adapter for another model counts as missing.
    """
    values = asked_of(domain, partitions, model) | {"adapter_id": adapter_id}
    row = connection.execute(_NAMED, values).fetchone()
    return None if row is None else str(row[0])


def maps_of(connection: sqlite3.Connection, domain: str, adapter_id: str) -> bytes | None:
    """Return the maps of a stored adapter (`DomainAdapter.as_bytes`); None if they are damaged."""
    row = connection.execute(
        "SELECT domain, adapter_id, model_id, learnt_from, evidence, made_at, maps, digest FROM adapters"
        " WHERE domain = ? AND adapter_id = ?",
        (domain, adapter_id),
    ).fetchone()
    if row is None or _digest(*row[:-1]) != row[-1]:
        return None
    *_, model_id, _, _, _, maps, _ = row
    return maps if adapter_name(model_id, maps) == adapter_id else None


def keep(
    root: Path, adapter: DomainAdapter, origin: Origin, *, domain: str, evidence: str, made_at: str
) -> StoredAdapter:
    """Store an adapter without putting it in force; if it is stored already, only its evidence is replaced.

    The returned row is read in the same transaction, because another process may delete the adapter at once.

    Args:
        root: folder of the base.
        origin: the partitions of the training documents at that time.
        evidence: a JSON object.
        made_at: ISO 8601.

    Raises:
        StoreError: documents may have moved since they were read, or the base cannot be written.
        ValueError: a number of its maps is not finite, or too large.
    """
    adapter.check()
    row = (domain, adapter.adapter_id, adapter.model_id, listed(origin.partitions), evidence, made_at)
    maps = adapter.as_bytes()
    with writing(root) as connection:
        if schema.state_to_write(connection, root).index_number != origin.index_number:
            raise StoreError(
                f"{root} was rebuilt while the adapter was being learnt, and documents may have moved: learn it again"
            )
        connection.execute(
            "INSERT OR REPLACE INTO adapters(domain, adapter_id, model_id, learnt_from, evidence, made_at, maps,"
            " digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, maps, _digest(*row, maps)),
        )
        kept = read_all(connection, origin.partitions, domain)
        return next(stored for stored in kept if stored.adapter_id == adapter.adapter_id)


def forget(root: Path, domain: str, adapter_ids: Collection[str]) -> None:
    """Forget adapters of a domain that no switch names.

    Raises:
        StoreError: the base cannot be written.
    """
    with writing(root) as connection:
        connection.execute(
            "DELETE FROM adapters WHERE domain = ? AND adapter_id IN (SELECT value FROM json_each(?))"
            " AND adapter_id NOT IN (SELECT adapter_id FROM adapter_switches AS any"
            " WHERE any.domain = adapters.domain AND adapter_id IS NOT NULL)",
            (domain, json.dumps(sorted(adapter_ids))),
        )


def forget_learnt_from(connection: sqlite3.Connection, partitions: Iterable[int]) -> None:
    """Delete the adapters that were learnt from any of these partitions, inside the caller's transaction.

    Their switches and the calibrations under them are deleted too.
    """
    among = (
        "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid({0}.learnt_from) THEN {0}.learnt_from ELSE '[]' END)"
        " WHERE value IN (SELECT value FROM json_each(:keys)))"
    )
    keys = {"keys": json.dumps(sorted(partitions))}
    connection.execute(
        "DELETE FROM calibrations WHERE (domain, model_id) IN (SELECT domain, model_id || '+' || adapter_id"
        f" FROM adapters WHERE {among.format('adapters')})",
        keys,
    )
    for table in ("adapters", "adapter_switches"):
        connection.execute(f"DELETE FROM {table} WHERE {among.format(table)}", keys)


def changed_adapters(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield the domain and the id of every damaged adapter."""
    for domain, adapter_id in connection.execute("SELECT domain, adapter_id FROM adapters").fetchall():
        if maps_of(connection, domain, adapter_id) is None:
            yield domain, adapter_id


def _stored(
    connection: sqlite3.Connection,
    model: Model | None,
    domain: str,
    name: str,
    model_id: str,
    learnt_from: str,
    evidence: str,
    made_at: str,
    last: int,
) -> StoredAdapter:
    learnt = tuple(json.loads(learnt_from))
    fits = model is not None and named(connection, domain, name, learnt, model) is not None
    sound = maps_of(connection, domain, name) is not None
    problem = "damaged" if not sound else "" if fits else "for other vectors"
    try:
        measured = json.loads(evidence)
    except (ValueError, RecursionError):
        measured = {}
    return StoredAdapter(
        domain, name, model_id, learnt, measured if isinstance(measured, dict) else {}, made_at, bool(last), problem
    )


def asked_of(domain: str, partitions: Collection[int], model: Model) -> dict[str, str | int]:
    """Return the parameters of READABLE and FITTING, and the domain."""
    size = 2 * 4 * model.dimension * model.dimension
    return {
        "domain": domain,
        "partitions": json.dumps(list(partitions)),
        "model_id": model.model_id,
        "size": size,
    }


def listed(partitions: Iterable[int]) -> str:
    """Return a set of partitions in the form that the rows hold."""
    return json.dumps(sorted(partitions))


def _digest(
    domain: str, adapter_id: str, model_id: str, learnt_from: str, evidence: str, made_at: str, maps: bytes
) -> bytes:
    text = "\0".join((domain, adapter_id, model_id, learnt_from, evidence, made_at))
    return sha256(text.encode("utf-8", "surrogatepass") + b"\0" + maps).digest()


@contextmanager
def writing(root: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection in its own transaction, which is committed at the end."""
    connection = schema.connect(root, write=True)
    try:
        schema.state_to_write(connection, root)
        with schema.transaction(connection):
            yield connection
    except sqlite3.DatabaseError as error:
        raise schema.unusable(root, error) from error
    finally:
        schema.close_shared(root, connection)
