"""What stands in the metadata of every chunk, and the profile `funnel`."""

from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise

import pytest

from context_engine.core.chunking import read_strategies
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule
from context_engine.errors import ConfigError
from context_engine.ingest import LoadedDocument, chunks_of, prepare

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
