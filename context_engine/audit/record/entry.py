"""The entry of a record, at most `MOST_ENTRY_BYTES` of JSON that are kept for ever, and access to its addenda."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, Protocol

from context_engine.audit.record.exact import Unreadable, json_bytes, read_json
from context_engine.audit.values import MOST_ENTRY_BYTES, Addendum, Composed
from context_engine.errors import LedgerCorrupt, LedgerVersionMismatch

ENTRY_VERSION: Final = 1
_LONGEST_TEXT: Final = 200  # characters and bytes; longer texts are cut
_SHOWN: Final = 96  # bytes kept of a text that is cut
_NO_DIGEST: Final = "0" * 64
_ROOM_FOR_A_COUNT: Final = 24  # for a quoted name and its count in `more`


def composed(entry: dict[str, Any], addenda: Mapping[str, Addendum], shared: Mapping[str, bytes]) -> Composed:
    """Return a record as stored; long texts and lists of an entry that is too large are cut.

    `more` then states how many items of a list are missing, and the addendum `account` holds the original values.

    Args:
        shared: digests of shared contents, by name.
    """
    digests = {**shared, **{name: addendum.digest for name, addendum in addenda.items()}}
    full = {"v": ENTRY_VERSION, **entry, "addenda": {name: digest.hex() for name, digest in digests.items()}}
    data = json_bytes(full)
    if len(data) <= MOST_ENTRY_BYTES:
        return Composed(data, tuple(addenda.values()))
    full["addenda"]["account"] = _NO_DIGEST
    short = _cut(_shortened(full))
    account = Addendum.of("account", json_bytes({name: value for name, value in full.items() if short[name] != value}))
    short["addenda"]["account"] = account.digest.hex()
    return Composed(json_bytes(short), (*addenda.values(), account))


def read_entry(data: bytes) -> dict[str, Any]:
    """Parse an entry.

    Raises:
        LedgerCorrupt: it is not an entry.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    try:
        entry = read_json(data)
    except Unreadable as error:
        raise LedgerCorrupt(f"an entry of the ledger cannot be read: {error}; run 'audit verify'") from None
    version = entry.get("v")
    if isinstance(version, int) and version > ENTRY_VERSION:
        raise LedgerVersionMismatch(
            f"record {entry.get('id')!r} has version {version}; this version of the package reads {ENTRY_VERSION}: "
            "upgrade it"
        )
    if version != ENTRY_VERSION or not isinstance(entry.get("kind"), str) or not isinstance(entry.get("id"), str):
        raise LedgerCorrupt("an entry of the ledger has no version, kind or id; run 'audit verify'")
    return entry


def _shortened(value: Any) -> Any:
    """Return a copy with long texts replaced by their beginning and a hash."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_TEXT and len(value.encode("utf-8", "backslashreplace")) <= _LONGEST_TEXT:
            return value
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{_beginning(value)}…{digest[:16]}"
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value] if isinstance(value, list | tuple) else value


def _beginning(text: str) -> str:
    """Return the first characters of a text that take at most `_SHOWN` bytes in an entry."""
    size, end = 0, 0
    for end, char in enumerate(text):  # noqa: B007  its last value is the end
        size += len(json_bytes(char)) - 2
        if size > _SHOWN:
            break
    return text[:end]


def _cut(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry whose longest lists are cut at their ends until it is small enough."""
    lists = _lists(entry)
    sizes = {name: [len(json_bytes(item)) + 1 for item in items] for name, items in lists.items()}
    taken = {name: sum(each) for name, each in sizes.items()}
    room = sum(len(name) + _ROOM_FOR_A_COUNT for name in lists)
    over = len(json_bytes(entry)) + room - MOST_ENTRY_BYTES
    more: dict[str, int] = {}
    while over > 0 and any(taken.values()):
        name = max(taken, key=taken.__getitem__)
        freed = sizes[name].pop()
        lists[name].pop()
        taken[name] -= freed
        over -= freed
        more[name] = more.get(name, 0) + 1
    return {**entry, "more": more} if more else entry


def _lists(entry: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of an entry and of its caller by name."""
    own = {name: items for name, items in entry.items() if isinstance(items, list)}
    caller = entry.get("caller") or {}
    return {**own, **{f"caller.{name}": items for name, items in caller.items() if isinstance(items, list)}}


class EntryBytes(Protocol):
    """A record of the log; its entry is None if it was pruned."""

    @property
    def entry(self) -> bytes | None: ...


class Addenda(Protocol):
    """Access to addenda and to their erasures: a ledger."""

    def addenda(self, digests: Collection[bytes]) -> Mapping[bytes, Addendum]:
        """Return the addenda that are stored."""

    def erased(self, digest: bytes) -> int | None:
        """Return the index of the entry that erased an addendum, None if there is none."""

    def entry_at(self, index: int) -> EntryBytes | None:
        """Return the record at an index, None if there is none."""


class Missing(NamedTuple):
    """A part of a record that is no longer stored.

    Attributes:
        kind: question, candidates, text, card, settings or sources.
        digest: of its addendum.
        erased_by: index of the entry that records its erasure; None if none does.
        erased_on: time of that entry, UTC; None if unknown.
    """

    kind: str
    digest: bytes
    erased_by: int | None = None
    erased_on: str | None = None

    @property
    def why(self) -> str:
        """The reason, as the end of a sentence."""
        if self.erased_by is None:
            return "is not in the ledger, and no entry records its erasure: run 'audit verify'"
        when = f" of {self.erased_on}" if self.erased_on else ""
        return f"was erased (entry {self.erased_by}{when})"


def fetch(addenda: Addenda, digests: Collection[bytes], record_id: str) -> dict[bytes, bytes]:
    """Return the data of the addenda that are stored.

    Raises:
        LedgerCorrupt: one of them does not match its digest.
    """
    present = addenda.addenda(digests)
    for digest, addendum in present.items():
        if addendum.digest != digest:
            raise LedgerCorrupt(
                f"an addendum ({addendum.kind}) of record {record_id} is not the one that was recorded: "
                "run 'audit verify'"
            )
    return {digest: addendum.data for digest, addendum in present.items()}


def missing_part(addenda: Addenda, kind: str, digest: bytes) -> Missing:
    """Return what is known about an addendum that is not stored."""
    index = addenda.erased(digest)
    erasure = None if index is None else addenda.entry_at(index)
    data = None if erasure is None else erasure.entry
    return Missing(kind, digest, index, None if data is None else read_entry(data).get("time"))
