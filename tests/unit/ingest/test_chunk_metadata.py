"""What stands in the metadata of every chunk, and the profile `funnel`."""

import json
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise

import pytest
from pydantic import ValidationError

from context_engine.core.chunking.fields import record_text
from context_engine.core.chunking.strategy import read_strategies
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule
from context_engine.errors import ConfigError
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument

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
        "name fields in a rule to keep them"
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


COUNTER = ApproxTokenCounter()

NOW = datetime(2026, 3, 2, 10, 0, 0, 5, tzinfo=UTC)

SOP = DocumentRule(include="*", doc_type="sop_document")

FUNNEL = DocumentRule(include="*", doc_type="sop_document", profile="funnel")

TEXT = (
    "# Vault rules\n\n## 4 Access\n\nKeys are held by two people. They never meet.\n\n"
    '### 4.1\n\n"Key holder" means a person who holds a key.\n\n## 5 Forms\n'
)


def chunks(text=TEXT, rule=SOP, now=NOW, strategies=None, **fields):
    loaded = LoadedDocument(path="sops/vault.md", text=text, fields=fields)
    return chunks_of(prepare(loaded, rule, COUNTER, strategies=strategies), COUNTER, now=now)


def values(key, **options):
    return [chunk.metadata.get(key) for chunk in chunks(**options)]


def test_tokens_and_hash_are_those_of_the_content():
    for chunk in chunks():
        assert chunk.metadata["token_count"] == COUNTER.count(chunk.content)
        assert chunk.metadata["content_sha256"] == sha256(chunk.content.encode()).hexdigest()


def test_neighbours():
    assert [chunk.chunk_id for chunk in chunks()] == ["vault#4", "vault#4.1", "vault#5"]
    assert values("previous_chunk_id") == [None, "vault#4", "vault#4.1"]
    assert values("next_chunk_id") == ["vault#4.1", "vault#5", None]


def test_a_chunk_alone_has_no_neighbours():
    assert values("previous_chunk_id", text="Alone.") == values("next_chunk_id", text="Alone.") == [None]


def test_the_title_of_the_section_is_the_innermost_there_is():
    assert values("section_title") == ["Access", "Access", "Forms"]


def test_a_heading_with_nothing_below_it():
    assert values("heading_only") == [None, None, True]


def test_definitions():
    assert values("defines") == [None, ["Key holder"], None]


def test_a_glossary_is_known_by_its_heading():
    entry = "Sponsor: the head of desk who proposes the product"
    assert values("defines", text=f"## Glossary\n\n{entry}") == [["Sponsor"]]
    assert values("defines", text=f"## Roles\n\n{entry}") == [None]


def test_funnel_carries_its_five_fields():
    found = chunks(rule=FUNNEL)
    keys = ("source_file", "section", "heading", "chunk_index", "created_at")
    assert [tuple(chunk.metadata[key] for key in keys) for chunk in found] == [
        ("sops/vault.md", "4", "4 Access", 0, "2026-03-02T10:00:00Z"),
        ("sops/vault.md", "4.1", "4.1", 1, "2026-03-02T10:00:00Z"),
        ("sops/vault.md", "5", "5 Forms", 2, "2026-03-02T10:00:00Z"),
    ]


def test_funnel_takes_the_documents_own_date_first():
    assert values("created_at", rule=FUNNEL, created="2025-01-01") == ["2025-01-01"] * 3


def test_funnel_keeps_its_800_tokens_and_150_of_overlap():
    # 14 tokens a sentence by the approximate counter
    text = "## 4 Access\n\n" + "A sentence of a dozen words stands here so that it counts. " * 200
    found = chunks(text=text, rule=FUNNEL)
    assert 700 < max(chunk.metadata["token_count"] for chunk in found) <= 800
    for first, second in pairwise(found):
        repeated = text[second.span[0] : first.span[1]]
        assert 100 < COUNTER.count(repeated) <= 150
    assert found[0].doc_type == "sop_document"


def test_a_profile_can_be_a_row_of_the_table_and_the_funnel_can_be_changed():
    table = read_strategies({"funnel": {"chunk_size": 100, "overlap": 10}, "small": {"chunk_size": 50, "overlap": 0}})
    assert table["funnel"].metadata_fields == ("source_file", "section", "heading", "chunk_index", "created_at")
    text = "## 4 Access\n\n" + "A sentence of a dozen words stands here so that it counts. " * 60
    small = DocumentRule(include="*", profile="small")
    for rule, most in ((FUNNEL, 100), (small, 50)):
        tokens = values("token_count", text=text, rule=rule, strategies=table)
        assert most * 0.6 < max(tokens) <= most


def test_an_unknown_profile_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match=r"'funel' is not known.*funnel"):
        chunks(rule=DocumentRule(include="*", profile="funel"))
