"""The list of recorded searches and answers, narrowed by what an auditor looks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from context_engine.apps.web.addresses import with_query
from context_engine.audit.ledger.look_up import Criteria, MentionCriteria, RecordRow
from context_engine.audit.ledger.newest import (
    WantedRecords,
    entries_of,
    matching,
    naming_newest_first,
    newest_rows,
    rows_among,
)
from context_engine.audit.record.exact import Unreadable
from context_engine.audit.record.question import ANSWER, QUESTION, read_kept
from context_engine.audit.review.overview import EXCEPTIONS, exceptions_of
from context_engine.errors import InvalidRequest, QueryNotRecorded
from context_engine.service.records import own_pseudonyms

if TYPE_CHECKING:
    from context_engine.apps.web.review.state import Reviewed
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.core.protocols import Mask

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("search", "rank", "answer", "refusal"),
    "searches": ("search", "rank"),
    "answers": ("answer",),
    "refusals": ("refusal",),
    "everything": (),
}
DECISIONS: Final = ("answered", "no_match", "out_of_scope", "incomplete")
DIFFERS: Final = "replay_differs"
_FOR_OPERATORS: Final = ("denied",)
_SIZE: Final = 50
_PSEUDONYM: Final = re.compile(r"[0-9a-f]{32}")
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is listed; an empty field accepts anything.

    Attributes:
        since, until: first and last day, UTC.
        exception: one of `EXCEPTIONS`, or `DIFFERS`.
        document: a document's id.
        passage: SOURCE/CHUNK: only records that showed it.
        person: a pseudonym or, for operators, a name.
        before: the index of the last record of the page before.
    """

    since: date | None = None
    until: date | None = None
    domain: str = ""
    decision: str = ""
    exception: str = ""
    kind: str = ""
    document: str = ""
    passage: str = ""
    person: str = ""
    before: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Return the filters of an address.

        Raises:
            InvalidRequest: a value is not of its kind.
        """
        given = {name: query.get(name, "").strip()[:_LONGEST] for name in cls.__dataclass_fields__}
        for name, allowed in (
            ("decision", DECISIONS),
            ("kind", KINDS),
            ("exception", (*EXCEPTIONS, DIFFERS)),
        ):
            if given[name] and given[name] not in allowed:
                raise InvalidRequest(f"{name} is {given[name]!r}: choose one of {', '.join(filter(None, allowed))}")
        before = given.pop("before")
        if before and not (before.isascii() and before.isdigit() and len(before) < 16):
            raise InvalidRequest(f"before is {before!r}: it is the index of a record, a whole number")
        since, until = (_day(name, given.pop(name)) for name in ("since", "until"))
        return cls(since=since, until=until, before=int(before) if before else None, **given)

    @property
    def narrowed(self) -> bool:
        """Whether anything but the page is chosen."""
        return replace(self, before=None) != Filters()

    def address(self, **changes: Any) -> str:
        """Return the address of the list with some filters changed, on its first page unless `before` is given."""
        changed = replace(self, **{"before": None, **changes})
        values = {each.name: getattr(changed, each.name) for each in fields(changed)}
        return with_query("/review", {name: "" if value is None else str(value) for name, value in values.items()})


def _day(name: str, text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidRequest(f"{name} is {text!r}: write a day such as 2026-03-31") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRecord:
    """A record in the list.

    Attributes:
        exceptions: in words.
        question: "" if it is sealed, erased or was not kept.
        error: the code of a refusal.
        shown: number of chunks shown, or of sentences; None if neither.
        replayed: whether its last replay gave the same; None if there was none.
    """

    row: RecordRow
    exceptions: tuple[str, ...] = ()
    question: str = ""
    error: str = ""
    shown: int | None = None
    replayed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list.

    Attributes:
        exceptions: name, words and number of the records with each exception, within the other filters; the number is
            None where a document is chosen, because counting would take too long.
        counted, size: how many records of the log are counted in them, and how many there are.
        more: the address of the next page; None if this is the last.
    """

    records: tuple[ListedRecord, ...]
    exceptions: tuple[tuple[str, str, int | None], ...]
    counted: int
    size: int
    more: str | None


def listing(ledger: Ledger, reviewed: Reviewed, filters: Filters, *, reader: str | None, mask: Mask | None) -> Listing:
    """Return a page of the records.

    Args:
        reader: the name of a caller who sees their own records alone; None: an operator.
        mask: masks personal data in the questions.

    Raises:
        AuditError: the ledger cannot be read.
    """
    ledger.integrate()
    wanted = _wanted(ledger, filters, reader)
    names = {name: words for name, words in EXCEPTIONS.items() if reader is None or name not in _FOR_OPERATORS}
    chosen = filters.exception if filters.exception in (*names, DIFFERS) else ""
    among = _among(ledger, reviewed, replace(filters, exception=chosen), filters.before)
    if among is None:
        rows = newest_rows(ledger, wanted, _SIZE + 1, filters.before)
    else:
        rows = rows_among(ledger, wanted, _SIZE + 1, among)
    return Listing(
        records=tuple(_listed(ledger, reviewed, rows[:_SIZE], names, mask)),
        exceptions=_counts(ledger, reviewed, wanted, filters, names, everybody=reader is None),
        counted=reviewed.overview.size,
        size=ledger.size,
        more=filters.address(before=rows[_SIZE - 1].index) if len(rows) > _SIZE else None,
    )


def _wanted(ledger: Ledger, filters: Filters, reader: str | None) -> WantedRecords:
    criteria = Criteria(
        since=None if filters.since is None else datetime.combine(filters.since, time(), UTC),
        until=None if filters.until is None else datetime.combine(filters.until + timedelta(days=1), time(), UTC),
        domain=filters.domain or None,
        decision=filters.decision or None,
    )
    callers: frozenset[str] | None = None if reader is None else own_pseudonyms(ledger, reader)
    if filters.person:
        named = _PSEUDONYM.fullmatch(filters.person)
        person = frozenset((filters.person,)) if named else own_pseudonyms(ledger, filters.person)
        callers = person if callers is None else person & callers
    return WantedRecords(
        criteria=criteria, kinds=KINDS[filters.kind], callers=None if callers is None else tuple(sorted(callers))
    )


def _among(ledger: Ledger, reviewed: Reviewed, filters: Filters, before: int | None) -> Iterator[int] | None:
    """Return the indices that exception and document leave, the largest first; None if they leave all."""
    excepted = _excepted(reviewed, filters.exception, before) if filters.exception else None
    named = _naming(ledger, filters, before)
    if named is None:
        return excepted
    if excepted is None:
        return named
    kept = frozenset(excepted)
    return (index for index in named if index in kept)


def _naming(ledger: Ledger, filters: Filters, before: int | None) -> Iterator[int] | None:
    """Return the indices of the records that name a document or showed a passage; None if neither is chosen."""
    if filters.passage:
        source, _, chunk = filters.passage.partition("/")
        wanted = MentionCriteria(
            document_id=filters.document or None, source_id=source, chunk_id=chunk, fates=("returned",)
        )
        showing = {mention.record.index for mention in ledger.mentions(wanted)}
        return iter(sorted((index for index in showing if before is None or index < before), reverse=True))
    if filters.document:
        return naming_newest_first(ledger, MentionCriteria(document_id=filters.document), before)
    return None


def _excepted(reviewed: Reviewed, exception: str, before: int | None) -> Iterator[int]:
    if exception == DIFFERS:
        return (index for index in reviewed.differing() if before is None or index < before)
    return reviewed.overview.newest_first(exception, before)


def _counts(
    ledger: Ledger,
    reviewed: Reviewed,
    wanted: WantedRecords,
    filters: Filters,
    names: Mapping[str, str],
    *,
    everybody: bool,
) -> tuple[tuple[str, str, int | None], ...]:
    """Return the number of records with each exception, within all other filters but a document's."""
    others = replace(filters, exception="", before=None)
    every = {**names, DIFFERS: "Replay differs"} if reviewed.differing() else names
    if others.document or others.passage:
        return tuple((name, words, None) for name, words in every.items())
    if everybody and others in (Filters(), Filters(kind="everything")):
        numbers = {name: reviewed.overview.count(name) for name in names} | {DIFFERS: len(reviewed.differing())}
        return tuple((name, words, numbers[name]) for name, words in every.items())
    kept = matching(ledger, wanted)
    return tuple(
        (name, words, sum(index in kept for index in _excepted(reviewed, name, None))) for name, words in every.items()
    )


def _listed(
    ledger: Ledger, reviewed: Reviewed, rows: Sequence[RecordRow], names: Mapping[str, str], mask: Mask | None
) -> Iterator[ListedRecord]:
    with ledger.database.connect() as connection:
        stored = entries_of(connection, [row.index for row in rows])
    entries = {index: entry for index, data in stored.items() if (entry := _read(data)) is not None}
    questions = _questions(ledger, entries.values(), mask)
    for row in rows:
        entry = entries.get(row.index)
        if entry is None:  # pruned, or damaged
            yield ListedRecord(row=row, error="no longer in the ledger")
            continue
        apply = exceptions_of(entry)
        listed = entry.get("sentences", entry.get("chunks"))
        yield ListedRecord(
            row=row,
            exceptions=tuple(words for name, words in names.items() if name in apply),
            question=questions.get(row.record_id, ""),
            error=str((entry.get("error") or {}).get("code") or entry.get("refusal") or ""),
            shown=None if listed is None else len(listed),
            replayed=reviewed.replays.get(row.index),
        )


def _read(data: bytes) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(data)
        exceptions_of(entry)
    except (ValueError, KeyError, TypeError, AttributeError):  # `audit verify` reports it
        return None
    return entry


def _questions(ledger: Ledger, entries: Iterable[Mapping[str, Any]], mask: Mask | None) -> dict[str, str]:
    """Return the questions that can be read, by record id."""
    named = {
        entry["id"]: bytes.fromhex(digest)
        for entry in entries
        for kind, digest in (entry.get("addenda") or {}).items()
        if kind in (QUESTION, ANSWER)
    }
    present = ledger.addenda(list(named.values()))
    questions = {}
    for record_id, digest in named.items():
        if digest not in present:
            continue
        try:
            question = _words(read_kept(present[digest].data, record_id))
        except (QueryNotRecorded, Unreadable):
            continue
        questions[record_id] = question if mask is None else mask(question)
    return questions


def _words(kept: Mapping[str, Any]) -> str:
    """Return the question of a search, a refusal or an answer."""
    asked = kept.get("asked") or kept.get("query") or (kept.get("result") or {}).get("query")
    return str(asked or (kept.get("request") or {}).get("query") or "")[:_LONGEST]
