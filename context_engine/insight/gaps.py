"""Coverage and gaps: what is asked and not answered, answered by weak sources alone or badly, never shown, or shown too
old.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria
from context_engine.audit.review.account import account_of
from context_engine.audit.review.stored import ledger_pseudonyms
from context_engine.core.text import STOP_WORDS, terms
from context_engine.insight.alike import alike_pairs
from context_engine.service.judgements import votes
from context_engine.wiring.examine import listed_domain
from context_engine.wiring.setup import Setup

_WEAK_TIER: Final = 4
_ALIKE: Final = 0.5
"""Share of the longer question's words that two questions about one subject have in common."""
_MOST_NEAREST: Final = 3
_UNANSWERED: Final = frozenset(("no_match", "out_of_scope", "incomplete"))


class DocumentName(NamedTuple):
    """A document of a source; version "" if it has none."""

    source_id: str
    document_id: str
    version: str = ""


class ShownDocument(NamedTuple):
    """A document that an answer showed, with its tier, and whether it was past its lifetime."""

    name: DocumentName
    tier: int
    expired: bool


class RecordedQuestion(NamedTuple):
    """A recorded search.

    Attributes:
        question: None if it was not kept, or was erased.
        asker: pseudonym; "" if unknown.
        shown: documents of the answer.
        nearest: documents of candidates that were not shown, best first.
    """

    search_id: str
    time: str
    asker: str
    question: str | None
    decision: str
    shown: tuple[ShownDocument, ...]
    nearest: tuple[DocumentName, ...]


class ThumbDown(NamedTuple):
    """A reader's judgement that a passage, or a whole answer, does not answer the question.

    Attributes:
        document: of the passage; None: the judgement is of the whole answer.
    """

    search_id: str
    time: str
    by: str
    question: str | None
    document: DocumentName | None


class QuestionGroup(NamedTuple):
    """Questions about one subject.

    Attributes:
        question: the one asked most often.
        searches, askers: how many.
        last: when it was asked last, ISO 8601.
        documents: nearest to an unanswered question, shown for a weakly answered one, or judged; most frequent first.
        search_ids: of every search.
    """

    question: str
    searches: int
    askers: int
    last: str
    documents: tuple[DocumentName, ...]
    search_ids: tuple[str, ...]


class StaleDocument(NamedTuple):
    """A document past its lifetime, with the number of answers that showed it."""

    name: DocumentName
    answers: int


class Gaps(NamedTuple):
    """The gaps of a domain.

    Attributes:
        unanswered: subjects that were asked and not answered, the most frequent first.
        weak: subjects that only tiers 4 and 5 answered.
        disliked: subjects with thumbs down; `searches` counts the thumbs, and `askers` who gave them.
        never_shown: documents that no answer showed.
        stale: documents past their lifetime that were shown, the most frequent first.
        searches: how many were read; `unread`: those whose question is gone.
    """

    unanswered: tuple[QuestionGroup, ...]
    weak: tuple[QuestionGroup, ...]
    disliked: tuple[QuestionGroup, ...]
    never_shown: tuple[DocumentName, ...]
    stale: tuple[StaleDocument, ...]
    searches: int
    unread: int


def gaps(
    asked: Iterable[RecordedQuestion], documents: Iterable[DocumentName], thumbs: Iterable[ThumbDown] = ()
) -> Gaps:
    """Return the gaps that recorded searches show.

    Args:
        asked: the searches of one domain and period.
        documents: those that the domain holds now.
        thumbs: the thumbs down of the same domain and period.
    """
    searches = list(asked)
    unanswered = [search for search in searches if search.decision in _UNANSWERED]
    weak = [
        search
        for search in searches
        if search.decision == "answered" and search.shown and min(each.tier for each in search.shown) >= _WEAK_TIER
    ]
    shown = {(each.name.source_id, each.name.document_id) for search in searches for each in search.shown}
    stale = Counter(name for search in searches for name in {each.name for each in search.shown if each.expired})
    return Gaps(
        tuple(_groups(unanswered, lambda search: search.nearest)),
        tuple(_groups(weak, lambda search: tuple(dict.fromkeys(each.name for each in search.shown)))),
        tuple(_groups(_judged(searches, thumbs), lambda thumb: thumb.nearest)),
        tuple(sorted({name for name in documents if (name.source_id, name.document_id) not in shown})),
        tuple(StaleDocument(name, count) for name, count in stale.most_common()),
        len(searches),
        sum(search.question is None for search in searches),
    )


def _judged(searches: Sequence[RecordedQuestion], thumbs: Iterable[ThumbDown]) -> list[RecordedQuestion]:
    """Return each thumb as a question near to the documents judged: of a whole answer, all that it showed."""
    by_id = {search.search_id: search for search in searches}
    out = []
    for thumb in thumbs:
        search = by_id.get(thumb.search_id)
        shown = () if search is None else tuple(dict.fromkeys(each.name for each in search.shown))
        names = shown if thumb.document is None else (thumb.document,)
        question = thumb.question or (search and search.question)
        out.append(RecordedQuestion(thumb.search_id, thumb.time, thumb.by, question, "judged", (), names))
    return out


def asked_question(account: Mapping[str, Any]) -> RecordedQuestion:
    """Return a recorded search from its published account."""
    entry, question = account["entry"], account["question"]
    shown = tuple(
        ShownDocument(
            DocumentName(chunk["source"], chunk.get("document") or chunk["chunk"], chunk.get("version") or ""),
            int(chunk.get("tier") or _WEAK_TIER),
            "expired" in chunk.get("flags", ()),
        )
        for chunk in entry["chunks"]
    )
    left = [fate for fate in account["fates"] if fate.get("outcome") != "returned"]
    names = (
        DocumentName(fate["source_id"], fate.get("document_id") or fate["chunk_id"], fate.get("document_version") or "")
        for fate in left
    )
    return RecordedQuestion(
        search_id=entry["id"],
        time=entry["time"],
        asker=(entry.get("caller") or {}).get("pseudonym") or "",
        question=None if question is None else question["result"]["query"],
        decision=entry.get("decision") or "",
        shown=shown,
        nearest=tuple(dict.fromkeys(names))[:_MOST_NEAREST],
    )


def _groups(
    searches: Sequence[RecordedQuestion], documents: Callable[[RecordedQuestion], Iterable[DocumentName]]
) -> Iterator[QuestionGroup]:
    """Yield the groups of questions that share most of their words, the most frequent first."""
    known = [search for search in searches if search.question is not None]
    members: defaultdict[int, list[RecordedQuestion]] = defaultdict(list)
    for root, search in zip(_joined([_words(search.question or "") for search in known]), known, strict=True):
        members[root].append(search)
    for group in sorted(members.values(), key=lambda group: (-len(group), group[0].time)):
        questions = Counter(search.question for search in group)
        near = Counter(name for search in group for name in documents(search))
        yield QuestionGroup(
            question=questions.most_common(1)[0][0] or "",
            searches=len(group),
            askers=len({search.asker for search in group}),
            last=max(search.time for search in group),
            documents=tuple(name for name, _ in near.most_common(_MOST_NEAREST)),
            search_ids=tuple(search.search_id for search in group),
        )


def _joined(sets: Sequence[frozenset[str]]) -> list[int]:
    """Return the group of each set, by number; equal and similar sets share a group, also through a third set."""
    root = list(range(len(sets)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = index = root[root[index]]
        return index

    first: dict[frozenset[str], int] = {}
    for index, words in enumerate(sets):
        root[index] = first.setdefault(words, index)
    different = list(first)
    for index, other in alike_pairs(different, _ALIKE):
        low, high = sorted((find(first[different[index]]), find(first[different[other]])))
        root[high] = low
    return [find(index) for index in range(len(sets))]


def _words(question: str) -> frozenset[str]:
    return frozenset(terms(question)) - STOP_WORDS


def revealed_gaps(setup: Setup, data_dir: Path, ledger: Ledger, domain: str, since: datetime) -> tuple[Gaps, list[str]]:
    """Return the gaps of a domain, and the sources that cannot list their documents.

    Args:
        data_dir: holds the judgements.
        since: searches and judgements before it are left out.

    Raises:
        ConfigError: a file of judgements cannot be read.
        AuditError: the ledger cannot be read.
    """
    listed, unread = listed_domain(setup, data_dir, setup.registry.domain(domain))
    documents = {
        DocumentName(source.id, chunk.document_id or chunk.chunk_id, chunk.document_version or "")
        for source, chunk in listed
    }
    return gaps(_asked(ledger, domain, since), documents, thumbs_down(data_dir, domain, since)), unread


def thumbs_down(data_dir: Path, domain: str, since: datetime) -> list[ThumbDown]:
    """Return the passages and answers that readers judged not to answer; see `votes`.

    Raises:
        ConfigError: a file of judgements cannot be read.
    """
    rows = (row for row in votes(data_dir) if row.get("domain") == domain and row.get("grade") == 0)
    return [_thumb(row) for row in rows if _is_since(row.get("at"), since)]


def _is_since(at: Any, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(str(at)).astimezone(UTC) >= since
    except ValueError:
        return False


def _thumb(row: Mapping[str, Any]) -> ThumbDown:
    document = None
    if "chunk_id" in row:
        name, version = row.get("document_id") or row["chunk_id"], row.get("document_version") or ""
        document = DocumentName(row.get("source_id") or "", name, version)
    return ThumbDown(
        str(row.get("search_id") or ""), str(row["at"]), str(row.get("by") or ""), row.get("query"), document
    )


def _asked(ledger: Ledger, domain: str, since: datetime) -> Iterator[RecordedQuestion]:
    ledger.integrate()
    pseudonyms = ledger_pseudonyms(ledger)
    for row in ledger.rows(Criteria(since=since, domain=domain, kind="search")):
        stored = ledger.entry_at(row.index)
        if stored is None or stored.entry is None:
            continue
        account = account_of(stored.entry, row.index, ledger, pseudonyms=pseudonyms)
        if not account.entry.get("part_of"):  # nobody asked it: a workflow or a job did
            yield asked_question(account.to_dict())
