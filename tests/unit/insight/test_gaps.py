"""Gaps that recorded searches reveal: unanswered and weakly answered subjects, documents never shown or shown stale."""

from __future__ import annotations

from typing import Any

from context_engine.insight.gaps import (
    DocumentName,
    RecordedQuestion,
    ShownDocument,
    StaleDocument,
    ThumbDown,
    asked_question,
    gaps,
)

SOP, WEB, OLD = DocumentName("sops", "SOP-1", "2"), DocumentName("web", "page"), DocumentName("sops", "SOP-9", "1")


def search(number: int, question: str | None, decision: str = "no_match", **fields: Any) -> RecordedQuestion:
    row = {"asker": "", "shown": (), "nearest": (), "time": f"2026-03-{number:02}T10:00:00Z", **fields}
    return RecordedQuestion(search_id=str(number), question=question, decision=decision, **row)


def shown(name: DocumentName, tier: int = 2, expired: bool = False) -> ShownDocument:
    return ShownDocument(name, tier, expired)


def test_unanswered_questions_are_grouped_by_subject() -> None:
    asked = [
        search(1, "Which limit applies to crypto assets?", asker="a", nearest=(SOP, WEB)),
        search(2, "limit for crypto assets", "out_of_scope", asker="b", nearest=(SOP,)),
        search(3, "Which limit applies to crypto assets?", asker="a"),
        search(4, "parental leave"),
        search(5, "answered", "answered", shown=(shown(SOP),)),
        search(6, None),
    ]
    report = gaps(asked, [])
    first, second = report.unanswered
    assert (first.question, first.searches, first.askers) == ("Which limit applies to crypto assets?", 3, 2)
    assert (first.documents, first.search_ids, first.last[:10]) == ((SOP, WEB), ("1", "2", "3"), "2026-03-03")
    assert second.question == "parental leave"
    assert (report.searches, report.unread) == (6, 1)


def test_what_only_weak_sources_answer_is_named() -> None:
    asked = [
        search(1, "fees of transfers", "answered", shown=(shown(WEB, 5), shown(WEB, 5))),
        search(2, "limits of desks", "answered", shown=(shown(WEB, 5), shown(SOP, 2))),
    ]
    (weak,) = gaps(asked, []).weak
    assert (weak.question, weak.documents) == ("fees of transfers", (WEB,))


def test_documents_never_shown_and_shown_stale() -> None:
    asked = [
        search(1, "a", "answered", shown=(shown(OLD, expired=True), shown(OLD, expired=True))),
        search(2, "b", "answered", shown=(shown(OLD, expired=True),)),
    ]
    report = gaps(asked, [SOP, OLD, DocumentName("sops", "SOP-9", "2")])
    assert report.never_shown == (SOP,)  # another version of SOP-9 was shown
    assert report.stale == (StaleDocument(OLD, 2),)


def test_a_record_becomes_a_search() -> None:
    chunk = {"source": "sops", "chunk": "c1", "document": "SOP-1", "version": "2", "tier": 2, "flags": ["expired"]}
    entry = {"id": "x", "time": "t", "caller": {"pseudonym": "p"}, "decision": "answered", "chunks": [chunk]}
    fates = [
        {"source_id": "sops", "chunk_id": "c1", "document_id": "SOP-1", "outcome": "returned"},
        {"source_id": "web", "chunk_id": "page", "outcome": "dropped"},
        {"source_id": "web", "chunk_id": "page", "outcome": "dropped"},
    ]
    account = {"entry": entry, "question": {"result": {"query": "limit?"}}, "fates": fates}
    made = asked_question(account)
    assert made == RecordedQuestion("x", "t", "p", "limit?", "answered", (shown(SOP, 2, True),), (WEB,))
    assert asked_question({**account, "question": None}).question is None


def test_thumbs_down_are_grouped_by_subject_with_what_was_judged() -> None:
    asked = [
        search(1, "Which limit applies to crypto assets?", "answered", shown=(shown(SOP), shown(WEB, 5))),
        search(2, "parental leave", "answered", shown=(shown(OLD),)),
    ]
    thumbs = [
        ThumbDown("1", "2026-03-05T10:00:00Z", "ana", "Which limit applies to crypto assets?", None),
        ThumbDown("1", "2026-03-06T10:00:00Z", "ben", "limit for crypto assets", SOP),
        ThumbDown("2", "2026-03-06T10:00:00Z", "ben", None, OLD),
        ThumbDown("gone", "2026-03-06T10:00:00Z", "", None, None),
    ]
    first, second = gaps(asked, [], thumbs).disliked
    assert (first.question, first.searches, first.askers) == ("Which limit applies to crypto assets?", 2, 2)
    assert (first.documents, first.last[:10]) == ((SOP, WEB), "2026-03-06")
    assert (second.question, second.documents) == ("parental leave", (OLD,)), "the question stands in the record"
