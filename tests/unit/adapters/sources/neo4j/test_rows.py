"""The nodes of a document, and conditions on them."""

from __future__ import annotations

from datetime import date

import pytest

pytest.importorskip("neo4j")

from context_engine.adapters.sources.neo4j.conditions import NOTHING, TRUE, NodeConditions, all_in_head, lucene
from context_engine.adapters.sources.neo4j.rows import NewDocument, embed, new_document
from context_engine.adapters.sources.stores.chunk_rows import encode
from context_engine.adapters.sources.stores.sinks import WrittenDocument
from context_engine.core.models import Chunk
from context_engine.testing import FakeEmbedder

CHUNKS = [
    Chunk(content="# Limits", title="Limits", section="1", chunk_id="1", metadata={"is_heading": True}),
    Chunk(
        content="The limit is set, see section 3.1.", title="Limits", section="2", chunk_id="2",
        effective_from=date(2025, 1, 1), metadata={"project_id": "p", "source_file": "a.md"},
    ),
    Chunk(content="It ends.", title="Limits", section="3.1", chunk_id="3"),
]  # fmt: skip


def written(chunks: list[Chunk]) -> NewDocument:
    rows = [encode(chunk, "a", "") for chunk in chunks]
    document = WrittenDocument(("notes", "a", ""), "h", "", "2025-01-01T00:00:00+00:00", rows)
    return new_document(document, key=4, first=10, commit=7)


def test_the_nodes_of_a_document_have_consecutive_numbers() -> None:
    new = written(CHUNKS)
    assert (new.record["row"], new.record["last"]) == (10, 13)
    assert [node["row"] for node in new.chunks] == [11, 12, 13]
    assert {node["born"] for node in (new.record, *new.chunks)} == {7}
    assert new.cites == [(12, 13)]


def test_a_bare_heading_is_not_searched() -> None:
    heading, limit, _ = written(CHUNKS).chunks
    assert "words" not in heading and "attributes" not in heading
    assert limit["words"].split()[:2] == ["limit", "set"] and limit["title_words"] == "2 limit"
    assert limit["from_day"] == date(2025, 1, 1).toordinal() and limit["to_day"] is None


def test_a_document_of_headings_is_searched() -> None:
    (heading,) = written(CHUNKS[:1]).chunks
    assert heading["words"] == "limit"


def test_the_record_names_project_file_and_fields() -> None:
    record = written(CHUNKS[1:]).record
    assert (record["project"], record["source_file"]) == ("p", "a.md")
    assert "project_id" in record["fields"]


def test_equal_values_of_a_field_have_one_number() -> None:
    first, second = written(CHUNKS), written(CHUNKS)
    assert first.fields == second.fields and all(0 <= number < 2**63 for number in first.fields)


def test_a_long_text_has_further_vectors() -> None:
    new = written([CHUNKS[1], Chunk(content="many words " * 300, chunk_id="long")])
    further = embed([new], FakeEmbedder(8))
    assert len(new.chunks[0]["embedding"]) == 8
    assert {node["row"] for node in further} == {12} and all(len(node["embedding"]) == 8 for node in further)


def test_without_an_embedder_a_document_is_marked() -> None:
    new = written(CHUNKS)
    assert embed([new], None) == [] and new.record["unembedded"] is True
    assert all("embedding" not in node for node in new.chunks)


def test_conditions_are_joined_with_their_values() -> None:
    sets = NodeConditions()
    first, second = sets.having([1]), sets.having([2, 3])
    both = sets.in_all([first, sets.without(second)])
    assert both.text == (
        "(any(number IN n.attributes WHERE number IN $numbers_0)"
        " AND NOT (any(number IN n.attributes WHERE number IN $numbers_1)))"
    )
    assert both.values == {"numbers_0": [1], "numbers_1": [2, 3]}
    assert sets.in_any([sets.nothing, sets.everything]).text == "(false OR true)"


@pytest.mark.parametrize(
    ("term", "clause"),
    [("limit", "words:limit^1.5000"), ("4.2(b)", r"words:4.2\(b\)^1.5000"), ('a:"b"', r"words:a\:\"b\"^1.5000")],
)
def test_marks_of_the_query_language_are_escaped(term: str, clause: str) -> None:
    assert lucene("words", term, 1.5) == clause


def test_a_head_that_holds_every_word() -> None:
    assert all_in_head(["npa"]) == "+(title_words:npa^1.0000 head_words:npa^1.0000)"


def test_what_the_index_of_words_is_asked_admits_all_that_meets_the_condition() -> None:
    sets = NodeConditions()
    one, two, many = sets.having([1]), sets.having([2, 3]), sets.having(range(1000))
    assert (one.lucene, two.lucene, many.lucene) == ("numbers:1", "numbers:2 numbers:3", "")
    assert sets.in_all([one, sets.without(two), many]).lucene == "+(numbers:1)"
    assert sets.in_any([one, two]).lucene == "(numbers:1) (numbers:2 numbers:3)"
    assert {sets.in_any([one, other]).lucene for other in (many, TRUE, sets.without(two))} == {""}
    assert sets.in_all([sets.in_any([one, two]), one]).lucene == "+((numbers:1) (numbers:2 numbers:3)) +(numbers:1)"
    assert sets.in_all([NOTHING]).lucene == sets.in_all([sets.having(range(150))] * 2).lucene == ""
