"""Records page by page, the newest first, against a look at all of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria, MentionCriteria
from context_engine.audit.ledger.newest import (
    WantedRecords,
    entries_of,
    matching,
    mentions_in,
    naming_newest_first,
    newest_rows,
    rows_among,
    uses_newest_first,
)

ANY = WantedRecords(criteria=Criteria())


def shown(document: str, version: str, place: int = 0) -> dict[str, str]:
    return {"source": "sops", "chunk": f"{document}@{version}#{place}", "document": document, "version": version}


@pytest.fixture
def filled(ledger: Ledger, draft: Callable[..., object]) -> Ledger:
    """Records 0 to 5; 2 and 3 have the same time, and 5 is older than 4."""
    times = ("10:00:00", "10:00:01", "10:00:02", "10:00:02", "10:00:04", "10:00:03")
    kinds = ("search", "search", "answer", "search", "refusal", "search")
    chunks = ([shown("a", "1")], [shown("a", "1"), shown("a", "2")], [], [shown("b", "1")], [], [shown("a", "2")])
    ledger.append(
        [
            draft(
                f"r-{number}",
                time=f"2026-03-02T{time}Z",
                kind=kind,
                domain="NPA" if number % 2 else "ORM",
                caller={"pseudonym": f"p{number % 3}"},
                **({"chunks": chunks[number]} if chunks[number] else {}),
            )
            for number, (time, kind) in enumerate(zip(times, kinds, strict=True))
        ]
    )
    ledger.integrate()
    return ledger


def indices(rows: list[object]) -> list[int]:
    return [row.index for row in rows]


def test_pages_follow_each_other_without_gap_or_repetition(filled):
    pages, before = [], None
    while rows := newest_rows(filled, ANY, 2, before):
        pages.append(indices(rows))
        before = rows[-1].index
    assert pages == [[4, 5], [3, 2], [1, 0]]


def test_records_can_be_read_in_the_order_of_the_log_where_a_clock_was_set_back(filled):
    since = datetime(2026, 3, 2, 10, 0, 3, tzinfo=UTC)
    assert indices(filled.rows(Criteria(since=since, newest_first=False))) == [5, 4]
    assert indices(filled.rows(Criteria(since=since, log_order=True))) == [4, 5]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ANY, [4, 5, 3, 2, 1, 0]),
        (WantedRecords(criteria=Criteria(), kinds=("answer", "refusal")), [4, 2]),
        (WantedRecords(criteria=Criteria(), callers=("p0", "p1")), [4, 3, 1, 0]),
        (WantedRecords(criteria=Criteria(), callers=()), []),
        (WantedRecords(criteria=Criteria(domain="NPA"), kinds=("search",)), [5, 3, 1]),
    ],
)
def test_each_condition_narrows(filled, wanted, expected):
    assert indices(newest_rows(filled, wanted, 10)) == expected
    assert matching(filled, wanted) == set(expected)


def test_rows_among_indices_are_read_only_as_far_as_needed(filled):
    read = []

    def backwards():
        for index in (5, 4, 3, 1, 0):
            read.append(index)
            yield index

    wanted = WantedRecords(criteria=Criteria(domain="NPA"))
    assert indices(rows_among(filled, wanted, 2, backwards())) == [5, 3]
    assert indices(rows_among(filled, wanted, 9, iter((5, 4, 3, 1, 0)))) == [5, 3, 1]


def test_records_that_name_a_document_newest_first(filled):
    assert list(naming_newest_first(filled, MentionCriteria(document_id="a"))) == [5, 1, 0]
    assert list(naming_newest_first(filled, MentionCriteria(document_id="a", document_version="1"))) == [1, 0]
    assert list(naming_newest_first(filled, MentionCriteria(document_id="a"), before=5)) == [1, 0]
    assert list(naming_newest_first(filled, MentionCriteria(document_id="nothing"))) == []


def test_uses_of_a_document_have_each_version_once(filled):
    uses = list(uses_newest_first(filled, MentionCriteria(document_id="a", source_id="sops"), ANY))
    assert [use.record for use in uses] == [5, 1, 1, 0]
    assert {(use.record, use.version) for use in uses} == {(5, "2"), (1, "1"), (1, "2"), (0, "1")}
    assert {use.fate for use in uses} == {"returned"}


def test_mentions_and_entries_are_those_of_the_records_asked_for(filled):
    named = list(mentions_in(filled, MentionCriteria(document_id="a"), {1, 4}))
    assert [(mention.record.index, mention.document_version) for mention in named] == [(1, "1"), (1, "2")]
    with filled.database.connect() as connection:
        assert set(entries_of(connection, [0, 3, 99])) == {0, 3}
