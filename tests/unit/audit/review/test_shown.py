"""What a record still has of the chunks that an answer showed, with and without its question, texts and candidates."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from context_engine.audit.record.drafts import loss_draft, search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.review.shown import recorded_answer, shown_chunks
from context_engine.audit.values import Addendum, Draft
from context_engine.core.models import NOBODY, AccessRecord, SearchResult
from context_engine.errors import InvalidRequest, LedgerCorrupt


class Held:
    """The addenda of one record."""

    def __init__(self, draft: Draft) -> None:
        shared = {one.key: Addendum.of(one.kind, one.data) for one in draft.contents}
        made = draft.compose({key: addendum.digest for key, addendum in shared.items()})
        self.entry = made.entry
        self.there = {one.digest: one for one in (*shared.values(), *made.addenda)}

    def erase(self, kind: str) -> None:
        self.there = {digest: one for digest, one in self.there.items() if one.kind != kind}

    def addenda(self, digests: Any) -> dict[bytes, Addendum]:
        return {digest: self.there[digest] for digest in digests if digest in self.there}

    def erased(self, digest: bytes) -> int | None:
        return None

    def entry_at(self, index: int) -> None:
        return None


@pytest.fixture
def result(ask: Any, chunk_of: Any) -> SearchResult:
    chunks = [
        chunk_of("a", 0.9, document_id="A", document_version="v2", metadata={"owner": "risk"}),
        chunk_of("b", 0.8, document_id="B"),
    ]
    answer: SearchResult = ask([(1, chunks), (3, [chunk_of("c", 0.7)])], "approval rule")
    return answer


def held(result: SearchResult, kept: Any = "text") -> Held:
    secret = Pseudonyms(b"0" * 32)
    return Held(search_draft(result, AccessRecord(principal=NOBODY), pseudonyms=secret, code_version="1", kept=kept))


@pytest.mark.parametrize("kept", ["text", "digest", "none"])
def test_the_chunks_are_those_of_the_result_whether_or_not_its_question_was_kept(kept: str, result: Any) -> None:
    record = held(result, kept)
    found = recorded_answer(record.entry, record)
    assert found.chunks == shown_chunks(result) and [one.rank for one in found.chunks] == [1, 2, 3]
    assert (found.search_id, found.domain, found.past_day, found.listed_short) == (result.search_id, "NPA", None, 0)


def test_without_the_question_all_the_same(result: Any) -> None:
    record = held(result)
    record.erase("question")
    assert recorded_answer(record.entry, record).chunks == shown_chunks(result)


def test_erased_texts_leave_ids_versions_and_hashes(result: Any) -> None:
    record = held(result)
    record.erase("text")
    found = recorded_answer(record.entry, record)
    assert found.chunks == tuple(one._replace(chunk=None) for one in shown_chunks(result))


def test_erased_candidates_leave_what_the_entry_lists(result: Any) -> None:
    record = held(result)
    record.erase("candidates")
    found = recorded_answer(record.entry, record)
    assert found.chunks == tuple(one._replace(chunk=None) for one in shown_chunks(result))
    entry = {**json.loads(record.entry), "more": {"chunks": 4}}
    assert recorded_answer(json.dumps(entry).encode(), record).listed_short == 4


def test_a_day_that_was_past_is_the_day_to_look_at(result: Any) -> None:
    record = held(replace(result, as_of=date(2025, 6, 30), today=False))
    assert recorded_answer(record.entry, record).past_day == date(2025, 6, 30)


def test_a_record_of_something_else_shows_no_chunks(result: Any) -> None:
    loss = Held(loss_draft(3, result.now, result.now, record_id="L1", now=result.now, code_version="1"))
    with pytest.raises(InvalidRequest, match="shows no chunks"):
        recorded_answer(loss.entry, loss)


def test_a_record_that_cannot_be_read_is_told_as_damage(result: Any) -> None:
    record = held(result)
    candidates = next(digest for digest, one in record.there.items() if one.kind == "candidates")
    record.there[candidates] = record.there[candidates]._replace(data=b"nonsense")
    with pytest.raises(LedgerCorrupt, match="not the one that was recorded"):
        recorded_answer(record.entry, record)
    entry = {**json.loads(record.entry), "addenda": {}}
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        recorded_answer(json.dumps(entry).encode(), record)
