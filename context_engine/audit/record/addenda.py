"""The addenda of a record as a ledger gives them, and what is known of those that are gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from context_engine.audit.record.entry import read_entry
from context_engine.audit.values import Addendum
from context_engine.errors import LedgerCorrupt


class EntryBytes(Protocol):
    """A record of the log; its entry is None where it was pruned."""

    @property
    def entry(self) -> bytes | None: ...


class Addenda(Protocol):
    """Where addenda are, and what is known of those that were erased: a ledger."""

    def addenda(self, digests: Collection[bytes]) -> Mapping[bytes, Addendum]:
        """Return those that are there."""
        ...

    def erased(self, digest: bytes) -> int | None:
        """Return the index of the entry that says an addendum was erased, None where none says so."""
        ...

    def entry_at(self, index: int) -> EntryBytes | None:
        """Return the record at an index, None where there is none."""
        ...


class Missing(NamedTuple):
    """A part of a record that is not there any more.

    Attributes:
        kind: question, candidates, text, card, settings or sources.
        digest: of its addendum.
        erased_by: index of the entry that says so; None where no entry does.
        erased_on: time of that entry, UTC; None where it is not known.
    """

    kind: str
    digest: bytes
    erased_by: int | None = None
    erased_on: str | None = None

    @property
    def why(self) -> str:
        """Why it is not there, as the end of a sentence."""
        if self.erased_by is None:
            return "is not in the ledger, and no entry says that it was erased: 'audit verify' tells more"
        when = f" of {self.erased_on}" if self.erased_on else ""
        return f"was erased (entry {self.erased_by}{when})"


def fetch(addenda: Addenda, digests: Collection[bytes], record_id: str) -> dict[bytes, bytes]:
    """Return the data of those that are there.

    Args:
        digests: as the record names them.
        record_id: for the error.

    Raises:
        LedgerCorrupt: one of them is not what was recorded.
    """
    found = addenda.addenda(digests)
    for digest, addendum in found.items():
        if addendum.digest != digest:
            raise LedgerCorrupt(
                f"an addendum ({addendum.kind}) of record {record_id} is not the one that was recorded: "
                "'audit verify' tells more"
            )
    return {digest: addendum.data for digest, addendum in found.items()}


def missing_part(addenda: Addenda, kind: str, digest: bytes) -> Missing:
    """Return what is known of an addendum that is not there."""
    index = addenda.erased(digest)
    said = None if index is None else addenda.entry_at(index)
    data = None if said is None else said.entry
    return Missing(kind, digest, index, None if data is None else read_entry(data).get("time"))
