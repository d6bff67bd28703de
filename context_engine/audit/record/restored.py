"""Restore the result of a search from its record: all of it, or what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from context_engine.audit.record.candidates import CANDIDATES, read_candidates
from context_engine.audit.record.entry import Addenda, Missing, fetch, missing_part, read_entry
from context_engine.audit.record.exact import Unreadable
from context_engine.audit.record.parts import join
from context_engine.audit.record.question import QUESTION, Pseudonyms, read_question
from context_engine.core.models import SearchResult
from context_engine.errors import InvalidRequest, LedgerCorrupt, QueryNotRecorded

_SEARCHES: Final = ("search", "rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A record that was read.

    Attributes:
        entry: as JSON.
        candidates: that addendum as JSON, None if missing.
        result: None if anything of it is missing.
        missing: its missing addenda, except for the question.
    """

    entry: Mapping[str, Any]
    candidates: Mapping[str, Any] | None = None
    result: SearchResult | None = None
    missing: tuple[Missing, ...] = ()

    @property
    def code_version(self) -> str | None:
        """The version of the package that made the record."""
        code = self.entry.get("code")
        return code if isinstance(code, str) else None


def restore(
    entry: bytes, addenda: Addenda, *, query: str | None = None, pseudonyms: Sequence[Pseudonyms] = ()
) -> Restored:
    """Restore the result of a recorded search.

    Args:
        entry: stored bytes.
        addenda: the ledger.
        query: the question, if only its digest was kept.
        pseudonyms: of the current and former secrets, for such a question.

    Raises:
        QueryNotRecorded: the question was not kept, was erased, or is not the one given.
        InvalidRequest: the record is not of a search.
        LedgerCorrupt: an addendum does not match the record, or cannot be read.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    read = read_entry(entry)
    if read["kind"] not in _SEARCHES:
        of = f": it is of the search {read['search']}" if read.get("search") else ""
        raise InvalidRequest(f"record {read['id']} is of kind {read['kind']!r}, not of a search{of}")
    return _RecordReading(read, addenda).restored(query, pseudonyms)


class _RecordReading:
    """The reading of one record."""

    def __init__(self, entry: Mapping[str, Any], addenda: Addenda) -> None:
        self._entry, self._addenda = entry, addenda
        self._id: str = entry["id"]

    def restored(self, query: str | None, pseudonyms: Sequence[Pseudonyms]) -> Restored:
        named = self._named()
        stored = fetch(self._addenda, [named[name] for name in (CANDIDATES, QUESTION) if name in named], self._id)
        if QUESTION not in named:
            raise QueryNotRecorded(f"record {self._id}: its question was not recorded (audit_query: none)")
        if named[QUESTION] not in stored:
            raise QueryNotRecorded(
                f"record {self._id}: its question {missing_part(self._addenda, QUESTION, named[QUESTION]).why}"
            )
        if CANDIDATES not in named:
            raise LedgerCorrupt(f"record {self._id} names no candidates; run 'audit verify'")
        if named[CANDIDATES] not in stored:
            return Restored(entry=self._entry, missing=(missing_part(self._addenda, CANDIDATES, named[CANDIDATES]),))
        try:
            return self._joined(
                read_candidates(stored[named[CANDIDATES]]),
                read_question(stored[named[QUESTION]], self._id, query=query, pseudonyms=pseudonyms),
            )
        except (Unreadable, KeyError, TypeError, ValueError) as error:
            code = self._entry.get("code")
            raise LedgerCorrupt(f"record {self._id}, made by version {code}, cannot be read: {error}") from None

    def _joined(self, candidates: Mapping[str, Any], question: Mapping[str, Any]) -> Restored:
        digests = [bytes.fromhex(digest) for digest in candidates["contents"]]
        stored = fetch(self._addenda, digests, self._id)
        missing = tuple(
            missing_part(self._addenda, _kind(number, candidates), digest)
            for number, digest in enumerate(digests)
            if digest not in stored
        )
        result = None if missing else join(candidates, question, [stored[digest] for digest in digests])
        return Restored(entry=self._entry, candidates=candidates, result=result, missing=missing)

    def _named(self) -> dict[str, bytes]:
        try:
            return {name: bytes.fromhex(digest) for name, digest in self._entry["addenda"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LedgerCorrupt(f"record {self._id} does not name its addenda; 'audit verify' tells more") from None


def _kind(number: int, candidates: Mapping[str, Any]) -> str:
    """Return the kind of the content of a number."""
    for name, kind in (("settings", "settings"), ("specs", "sources")):
        if candidates[name] == number:
            return kind
    columns = [answer["chunks"] for answer in candidates["answers"]]
    columns += [chunk["chunk"] for chunk in candidates["returned"] if isinstance(chunk["chunk"], Mapping)]
    return "text" if any(number in column["text"] for column in columns) else "card"
