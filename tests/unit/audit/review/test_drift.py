"""What became of the chunks that an answer showed, each in one word, and what has changed of it."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from context_engine.audit.review.counterpart import WordChange
from context_engine.audit.review.drift import ChunkState, FieldChange, counts, drift
from context_engine.audit.review.shown import ShownChunk
from context_engine.core.models import Chunk, Classification
from context_engine.core.text import content_sha256
from context_engine.errors import FetchUnsupported, SourceUnavailable

DAY = date(2026, 3, 2)
LIMIT = "The approval limit of the desk is 5 million a day, and the head of the desk may not raise it."
REVIEW = "Every limit is reviewed by the risk officer in May and in November of each year."


def chunk(chunk_id="L#1", text=LIMIT, document="L", version="1", **fields) -> Chunk:
    return Chunk(content=text, chunk_id=chunk_id, document_id=document, document_version=version, **fields)


def shown(given: Chunk, rank=1, source="sops", *, text_known=True) -> ShownChunk:
    return ShownChunk(
        rank, source, given.chunk_id, given.document_id, given.document_version, content_sha256(given.content),
        given if text_known else None,
    )  # fmt: skip


def become(was: Chunk, *now: Chunk, day=DAY, today=True, text_known=True):
    (one,) = drift(
        [shown(was, text_known=text_known)], lambda _source, _wanted: now, domain="NPA", day=day, today=today
    )
    return one


class TestUnchanged:
    def test_the_same_chunk(self):
        found = become(chunk(), chunk())
        assert (found.state, found.text, found.fields, found.now_id) == (ChunkState.UNCHANGED, (), (), None)

    def test_what_tells_of_the_fetching_or_the_place_is_no_change(self):
        was = chunk(position=3, span=(0, 9), metadata={"line": 4, "previous_chunk_id": "L#0"}, extra={"summary": "x"})
        now = chunk(
            position=4, span=(5, 14), metadata={"line": 9}, fetched_at=datetime(2026, 3, 1, tzinfo=UTC), scores=()
        )
        assert become(was, now).state is ChunkState.UNCHANGED

    def test_the_same_text_under_another_id_of_the_document(self):
        found = become(chunk(), chunk("L#1", REVIEW), chunk("L#2", LIMIT))
        assert (found.state, found.now_id) == (ChunkState.UNCHANGED, "L#2")

    def test_a_text_that_was_erased_is_known_by_its_hash(self):
        assert become(chunk(), chunk(), text_known=False).state is ChunkState.UNCHANGED

    def test_a_chunk_without_a_document_is_known_by_its_id(self):
        was = chunk(document=None, version=None)
        assert become(was, chunk("L#0", document=None, version=None), was).state is ChunkState.UNCHANGED

    def test_two_texts_of_one_id_are_fetched_by_that_id(self):
        was = chunk("W", document=None)
        (found,) = drift(
            [shown(was)._replace(chunk_id="W~1a2b3c4d")], lambda _source, wanted: [was], domain="NPA", day=DAY
        )
        assert (found.state, found.now_id) == (ChunkState.UNCHANGED, None)


class TestChanged:
    def test_a_number_that_is_another(self):
        found = become(chunk(), chunk(text=LIMIT.replace("5", "7")))
        assert (found.state, found.text_changed) == (ChunkState.CHANGED, True)
        assert found.text == (WordChange("of the desk is", "5", "7"),)

    def test_a_field_that_is_another(self):
        was = chunk(classification=Classification.INTERNAL, metadata={"owner": "risk", "year": 2025})
        now = chunk(classification=Classification.CONFIDENTIAL, metadata={"owner": "desk", "year": 2025})
        found = become(was, now)
        assert (found.state, found.text_changed) == (ChunkState.CHANGED, False)
        assert found.fields == (
            FieldChange("classification", "internal", "confidential"),
            FieldChange("metadata.owner", "risk", "desk"),
        )

    def test_a_document_that_was_given_a_version(self):
        found = become(chunk(version=None), chunk(version="2"))
        assert (found.state, found.fields) == (ChunkState.CHANGED, (FieldChange("document_version", None, "2"),))

    def test_an_erased_text_that_is_another_is_changed_without_words(self):
        found = become(chunk(), chunk(text=REVIEW), text_known=False)
        assert (found.state, found.text_changed, found.text) == (ChunkState.CHANGED, True, ())

    def test_a_text_that_moved_and_changed_is_found_by_its_words(self):
        found = become(chunk(), chunk("L#1", REVIEW), chunk("L#2", LIMIT.replace("5", "7")))
        assert (found.state, found.now_id) == (ChunkState.CHANGED, "L#2")
        assert found.text == (WordChange("of the desk is", "5", "7"),)

    @pytest.mark.parametrize(
        ("cut", "into"),
        [
            ([f"{LIMIT} {REVIEW}"], ("n0",)),
            ([LIMIT[:43], LIMIT[43:], REVIEW], ("n0", "n1")),
            ([REVIEW, f"{REVIEW[30:]} {LIMIT[:43]}", LIMIT[30:]], ("n1", "n2")),
        ],
    )
    def test_a_document_that_was_cut_in_another_way(self, cut, into):
        found = become(chunk(), *(chunk(f"n{n}", text, position=n) for n, text in enumerate(cut)))
        assert (found.state, found.cut_into, found.text_changed) == (ChunkState.CHANGED, into, False)


class TestGone:
    def test_a_document_that_is_not_there(self):
        found = become(chunk())
        assert (found.state, found.why) == (ChunkState.GONE, "its document no longer exists")

    def test_a_text_that_left_its_document(self):
        found = become(chunk(), chunk("L#2", REVIEW))
        assert (found.state, found.why) == (ChunkState.GONE, "its document exists without this text")

    def test_another_chunk_of_the_same_id_is_no_heir_of_a_chunk_without_a_document(self):
        assert become(chunk(document=None), chunk("L#9", document=None)).state is ChunkState.GONE


class TestSuperseded:
    def test_by_a_newer_version_beside_it(self):
        old = chunk(effective_from=date(2025, 1, 1))
        new = chunk("L2#1", LIMIT.replace("5", "7"), version="2", effective_from=date(2026, 1, 1))
        found = become(old, old, new)
        assert (found.state, found.superseded_by, found.text_changed) == (ChunkState.SUPERSEDED, "2", False)

    def test_by_a_version_that_took_its_place(self):
        found = become(chunk(), chunk("L2#1", LIMIT.replace("5", "7"), version="2"))
        assert (found.state, found.superseded_by, found.now_id) == (ChunkState.SUPERSEDED, "2", "L2#1")
        assert found.fields == (FieldChange("document_version", "1", "2"),)
        assert found.text == (WordChange("of the desk is", "5", "7"),)

    def test_by_what_it_names_itself(self):
        found = become(chunk(), chunk(superseded_by="L v2"))
        assert (found.state, found.superseded_by) == (ChunkState.SUPERSEDED, "L v2")
        assert FieldChange("superseded_by", None, "L v2") in found.fields

    def test_by_its_dates(self):
        was = chunk(effective_to=date(2026, 6, 1))
        assert become(was, was).state is ChunkState.UNCHANGED
        found = become(was, was, day=date(2026, 6, 1))
        assert (found.state, found.why) == (ChunkState.SUPERSEDED, "no longer effective: 2026-06-01")

    def test_not_on_the_day_that_was_asked_about(self):
        old = chunk(effective_from=date(2025, 1, 1))
        new = chunk("L2#1", version="2", effective_from=date(2026, 1, 1))
        assert become(old, old, new, day=date(2025, 6, 1), today=False).state is ChunkState.UNCHANGED


class TestCannotCheck:
    @pytest.mark.parametrize(
        "error", [FetchUnsupported("its adapter cannot", source_id="sops"), SourceUnavailable("it is down")]
    )
    def test_a_source_that_cannot_be_asked(self, error):
        def fetch(source_id, wanted):
            raise error

        (found,) = drift([shown(chunk())], fetch, domain="NPA", day=DAY)
        assert (found.state, found.why) == (ChunkState.CANNOT_CHECK, str(error))

    def test_a_chunk_without_an_id_of_its_own(self):
        was = chunk(content_sha256(LIMIT)[:32], document=None)
        assert become(was).state is ChunkState.CANNOT_CHECK


def test_each_source_is_asked_once_and_the_order_stays():
    asked = []
    given = [
        chunk("b#1", document="B"),
        chunk("a#1", document="A"),
        chunk("w", document=None),
        chunk("b#2", document="B"),
    ]
    answer = [shown(one, rank, source) for rank, (one, source) in enumerate(zip(given, "yxyy", strict=True), 1)]

    def fetch(source_id, wanted):
        asked.append((source_id, wanted.domain, wanted.chunk_ids, wanted.document_ids))
        return given if source_id == "y" else ()

    found = drift(answer, fetch, domain="NPA", day=DAY)
    assert asked == [("x", "NPA", (), ("A",)), ("y", "NPA", ("w",), ("B",))]
    assert [(one.shown.rank, str(one.state)) for one in found] == [
        (1, "unchanged"), (2, "gone"), (3, "unchanged"), (4, "unchanged"),
    ]  # fmt: skip
    assert counts(found) == {"unchanged": 3, "changed": 0, "gone": 1, "superseded": 0, "cannot_check": 0}


def test_what_is_published_says_everything_but_the_whole_text():
    found = become(chunk(), chunk(text=LIMIT.replace("5", "7")))
    assert found.to_dict() == {
        "rank": 1, "source_id": "sops", "chunk_id": "L#1", "document_id": "L", "document_version": "1",
        "content_sha256": content_sha256(LIMIT), "state": "changed", "text_changed": True,
        "text": [{"before": "of the desk is", "was": "5", "now": "7"}], "fields": [], "now_id": None, "cut_into": [],
        "superseded_by": None, "why": "",
    }  # fmt: skip
