"""Which addenda records name: their own, and the contents that their candidates share with other records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from sqlalchemy import Connection, select

from context_engine.audit.ledger.contents import named_contents
from context_engine.audit.ledger.derive import named_digests, parse_entry
from context_engine.audit.ledger.read import read_addenda, read_entries
from context_engine.audit.ledger.schema import pending
from context_engine.audit.record.candidates import CANDIDATES

_BATCH: Final = 256


def named_by(connection: Connection, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the digests of the addenda that records name; one may come more than once.

    Args:
        connection: to the ledger's database.
        start, end: the records of the indices start <= index < end; None: all from start on, and those that wait.

    Raises:
        LedgerCorrupt: the candidates of a record cannot be read.
    """
    first = start
    while end is None or first < end:
        last = first + _BATCH if end is None else min(first + _BATCH, end)
        entries = [one.entry for one in read_entries(connection, first, last)]
        if not entries:
            break
        yield from _named(connection, [entry for entry in entries if entry is not None])
        first = last
    if end is None:
        yield from _named(connection, connection.execute(select(pending.c.entry)).scalars().all())


def named_in(connection: Connection, entry: bytes) -> dict[str, list[bytes]]:
    """Return the digests of the addenda that a record names, by kind; those of its contents under `contents`.

    Raises:
        LedgerCorrupt: its candidates cannot be read.
    """
    found = {kind: [digest] for kind, digest in named_digests(parse_entry(entry)).items()}
    held = read_addenda(connection, found.get(CANDIDATES, ()))
    return {**found, "contents": [one for each in held.values() for one in named_contents(each.data)]}


def _named(connection: Connection, entries: Sequence[bytes]) -> Iterator[bytes]:
    own = [named_digests(parse_entry(entry)) for entry in entries]
    yield from chain.from_iterable(each.values() for each in own)
    for held in read_addenda(connection, {each[CANDIDATES] for each in own if CANDIDATES in each}).values():
        yield from named_contents(held.data)
