"""Which fields leave with a chunk: the record's own few, the type's, and those the manifest names."""

import json

import pytest
from pydantic import ValidationError

from context_engine.core.chunking import record_text
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule
from context_engine.ingest import LoadedDocument, chunks_of, prepare

COUNTER = ApproxTokenCounter()
RECORD = {"entity_id": "AC-1", "desk": "Rates", **{f"remark_{n}": f"{n} " + "word " * 60 for n in range(1, 7)}}


def rule(*fields, doc_type="entity_record"):
    return DocumentRule(include="*", doc_type=doc_type, fields=fields)


def record(fields):
    shown = {name: value for name, value in fields.items() if name != "entity_id"}
    text = record_text("AC-1", shown)
    return LoadedDocument(path="accounts.jsonl", text=text, fields=fields, record=True, line=1)


def prepared(loaded, its_rule=None):
    return prepare(loaded, its_rule, COUNTER)


def metadata(loaded, its_rule=None):
    return [chunk.metadata for chunk in chunks_of(prepared(loaded, its_rule), COUNTER)]


def own(chunk):
    return {name for name in chunk if name in RECORD}


def test_a_chunk_of_a_record_carries_the_fields_that_stand_in_it_and_no_others():
    chunks = chunks_of(prepared(record(RECORD)), COUNTER)
    assert len(chunks) > 1
    for chunk in chunks:
        there = {name for name in RECORD if f"{name.replace('_', ' ')}:" in chunk.content}
        assert own(chunk.metadata) == {"entity_id"} | there
    assert set().union(*(own(chunk.metadata) for chunk in chunks)) == set(RECORD), "each field leaves with some chunk"


def test_every_chunk_carries_what_the_manifest_names():
    for chunk in metadata(record(RECORD), rule("desk", "rating")):
        assert chunk["desk"] == "Rates"
        assert "rating" not in chunk, "a field that the record lacks is left out"


def test_a_field_that_is_cut_over_several_chunks_is_in_the_metadata_of_none():
    long = "one word after another " * 300
    chunks = metadata(record({"entity_id": "AC-1", "desk": "Rates", "history": long}))
    assert len(chunks) > 3
    assert not any("history" in chunk for chunk in chunks)
    assert sum("desk" in chunk for chunk in chunks) == 1


def test_nested_fields_are_one_field_of_the_record():
    limits = [{"kind": "spot", "amount": 5}, {"kind": "forward", "amount": 7}]
    (chunk,) = metadata(record({"entity_id": "AC-1", "limits": limits}))
    assert chunk["limits"] == limits
    several = metadata(record({**RECORD, "limits": limits}))
    assert [chunk["limits"] for chunk in several if "limits" in chunk] == [limits]


def test_a_short_record_carries_all_of_itself():
    (chunk,) = metadata(record({"entity_id": "AC-1", "desk": "Rates", "limit": 5, "live": True}))
    assert {name: chunk[name] for name in ("entity_id", "desk", "limit", "live")} == {
        "entity_id": "AC-1",
        "desk": "Rates",
        "limit": 5,
        "live": True,
    }


def test_the_metadata_of_a_wide_record_grows_with_its_text_and_not_with_its_square():
    fields = {f"key_{number}": f"value {number}" for number in range(5_000)}
    loaded = LoadedDocument(path="a.json", text=record_text("", fields), fields=fields, record=True)
    chunks = chunks_of(prepared(loaded), COUNTER)
    assert sum(len(own) for own in ([n for n in chunk.metadata if n in fields] for chunk in chunks)) == 5_000
    carried = sum(len(json.dumps(dict(chunk.metadata))) for chunk in chunks)
    assert carried < 5_000 * 60 + len(chunks) * 500, "as much as the record itself, and what each chunk is known by"


def test_a_changed_field_is_a_changed_document_even_where_the_text_is_the_same():
    number, text = record({"entity_id": "AC-1", "limit": 5}), record({"entity_id": "AC-1", "limit": "5"})
    assert number.text == text.text
    hashes = [prepared(one).content_hash for one in (number, text)]
    named = [prepared(record(RECORD), one).content_hash for one in (rule(), rule("desk"))]
    assert len({*hashes, *named}) == 4


@pytest.mark.wording
def test_front_matter_stays_on_every_chunk_as_long_as_it_is_short():
    text = "# A\n\n" + "Some words of a rule. " * 300
    short = LoadedDocument(path="a.md", text=text, fields={"owner": "Office", "tags": ["a", "b"]})
    for chunk in metadata(short):
        assert (chunk["owner"], chunk["tags"]) == ("Office", ["a", "b"])
    long = LoadedDocument(path="a.md", text=text, fields={"owner": "Office", "history": "x" * 2_001})
    assert all("history" not in chunk and chunk["owner"] == "Office" for chunk in metadata(long))
    (warning,) = prepared(long).warnings
    assert warning == (
        "the field 'history' is too long for the metadata of every chunk, and left out; "
        "what a rule names under fields is kept"
    )
    named = prepared(long, rule("history", doc_type="default"))
    assert named.warnings == ()
    assert named.base.metadata["history"] == "x" * 2_001


@pytest.mark.wording
def test_very_many_short_fields_of_front_matter_are_bounded_together():
    fields = {f"field_{number}": "x" * 98 for number in range(300)}  # 100 characters each as JSON
    found = prepared(LoadedDocument(path="a.md", text="# A\n\nText.", fields=fields))
    assert sum(name in fields for name in found.base.metadata) == 160  # 16,000 / 100
    assert found.warnings[0].startswith("140 fields ('field_160', ")


@pytest.mark.parametrize("given", ["desk", [""], [5], {"desk": 1}])
def test_fields_is_a_list_of_names(given):
    with pytest.raises(ValidationError):
        DocumentRule(include="*", fields=given)
