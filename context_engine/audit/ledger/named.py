"""Find the addenda that records name: their own, and the contents that their candidates share with other records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from context_engine.audit.ledger.derive import named_digests, parse_entry
from context_engine.audit.ledger.read import read_addenda, read_entries
from context_engine.audit.ledger.schema import pending
from context_engine.audit.record.candidates import CANDIDATES, content_digests, read_candidates
from context_engine.audit.record.exact import Unreadable
from context_engine.errors import LedgerCorrupt

_BATCH: Final = 256


def named_by(connection: Connection, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the digests of the addenda that records name, with repetitions.

    Args:
        start, end: the records with start <= index < end; None: all from `start` on, and the pending ones.

    Raises:
        LedgerCorrupt: the candidates of a record cannot be read.
    """
    first = start
    while end is None or first < end:
        last = first + _BATCH if end is None else min(first + _BATCH, end)
        entries = [stored.entry for stored in read_entries(connection, first, last)]
        if not entries:
            break
        yield from _named(connection, [entry for entry in entries if entry is not None])
        first = last
    if end is None:
        yield from _named(connection, connection.execute(select(pending.c.entry)).scalars().all())


def named_in(connection: Connection, entry: bytes) -> dict[str, list[bytes]]:
    """Return the digests of the addenda that a record names, by kind; shared contents are under "contents".

    Raises:
        LedgerCorrupt: its candidates cannot be read.
    """
    digests = {kind: [digest] for kind, digest in named_digests(parse_entry(entry)).items()}
    candidates = read_addenda(connection, digests.get(CANDIDATES, ()))
    return {**digests, "contents": [digest for each in candidates.values() for digest in named_contents(each.data)]}


def _named(connection: Connection, entries: Sequence[bytes]) -> Iterator[bytes]:
    own = [named_digests(parse_entry(entry)) for entry in entries]
    yield from chain.from_iterable(each.values() for each in own)
    for addendum in read_addenda(connection, {each[CANDIDATES] for each in own if CANDIDATES in each}).values():
        yield from named_contents(addendum.data)


class ContentPair(NamedTuple):
    """The digests of a chunk's text and of its card, the other stored metadata."""

    text: bytes
    card: bytes


def named_contents(candidates: bytes) -> list[bytes]:
    """Return the digests of all contents that the candidates of a record name.

    Raises:
        LedgerCorrupt: they cannot be read.
    """
    try:
        return content_digests(candidates)
    except Unreadable as error:
        raise _unreadable(error) from None


def content_pairs(candidates: bytes, source_id: str | None = None) -> set[ContentPair]:
    """Return text and card of every chunk in the candidates of a record, including chunks joined from several.

    Args:
        source_id: only those of this source; None: of all.

    Raises:
        LedgerCorrupt: they cannot be read.
    """
    digests = named_contents(candidates)
    try:
        read = read_candidates(candidates)
        return {
            ContentPair(digests[text], digests[card])
            for columns in _columns(read if source_id is None else _of_source(read, source_id))
            for text, card in zip(columns["text"], columns["card"], strict=True)
        }
    except (Unreadable, LookupError, TypeError, ValueError) as error:
        raise _unreadable(error) from None


def _of_source(candidates: Mapping[str, Any], source_id: str) -> list[Any]:
    """Return the parts of candidates that hold the chunks of a source."""
    parts = (*candidates["answers"], *candidates["returned"])
    return [part for part in parts if part["source_id"] == source_id]


def _columns(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the columns of chunks, wherever they occur: in each answer, and with chunks joined from several."""
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), list) and isinstance(value.get("card"), list):
            yield value
        else:
            for child in value.values():
                yield from _columns(child)
    elif isinstance(value, list):
        for child in value:
            yield from _columns(child)


def _unreadable(error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(f"the candidates of a record cannot be read ({error}): run 'context-engine audit verify'")
