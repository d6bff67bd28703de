"""A16, A17, A18: the chunking table."""

import pytest

from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES, ChunkingStrategy, get_strategy, read_strategies
from context_engine.errors import ConfigError

TABLE = [
    ("sop_document", "section_aware", 512, 64, ("section_number", "version", "date")),
    ("regulatory_notice", "section_aware", 384, 48, ("jurisdiction", "regulator", "id")),
    ("template_document", "fixed_size", 512, 64, ("template_id", "version")),
    ("entity_record", "field_level", 256, 0, ("entity_id", "fetched_at")),
    ("default", "fixed_size", 512, 64, ()),
]


@pytest.mark.parametrize(("doc_type", "method", "size", "overlap", "fields"), TABLE)
def test_A16_A17_A18_built_in_rows(doc_type, method, size, overlap, fields):
    assert get_strategy(doc_type) == ChunkingStrategy(method, size, overlap, fields)


def test_the_table_has_these_rows_and_no_other():
    assert set(DEFAULT_STRATEGIES) == {row[0] for row in TABLE}


@pytest.mark.parametrize("doc_type", ["memo", "", None])
def test_an_unknown_type_gets_the_default_row(doc_type):
    assert get_strategy(doc_type) == get_strategy("default")


def test_the_default_row_of_a_table_given_is_used_for_unknown_types():
    mine = ChunkingStrategy("section_aware", 100, 10)
    assert get_strategy("memo", {"default": mine}) == mine
    assert get_strategy("memo", {}) == get_strategy("default")


@pytest.mark.parametrize(
    ("method", "size", "overlap", "says"),
    [
        ("fixed_size", 64, 64, "overlap 64 must be smaller than chunk_size 64"),
        ("fixed_size", 64, 65, "overlap 65 must be smaller"),
        ("fixed_size", 15, 0, "chunk_size must be a whole number from 16 to 8192, got 15"),
        ("fixed_size", 8193, 0, "got 8193"),
        ("fixed_size", 64, -1, "overlap must be a whole number from 0"),
        ("fixed_size", True, 0, "got True"),
        ("fixed_size", 64.0, 0, r"got 64\.0"),
        ("field_level", 64, 1, "overlap must be 0 for field_level"),
        ("section-aware", 64, 0, "Did you mean 'section_aware'"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(method, size, overlap, says):
    with pytest.raises(ConfigError, match=says):
        ChunkingStrategy(method, size, overlap)


def test_limits_of_the_range_are_allowed():
    assert ChunkingStrategy("fixed_size", 16, 15).overlap == 15
    assert ChunkingStrategy("fixed_size", 8192, 0).chunk_size == 8192


def test_A27_the_cap_lowers_size_and_overlap_and_leaves_smaller_ones_alone():
    assert ChunkingStrategy("fixed_size", 512, 64).capped(128) == ChunkingStrategy("fixed_size", 128, 32)
    assert ChunkingStrategy("fixed_size", 512, 64).capped(384) == ChunkingStrategy("fixed_size", 384, 64)
    assert ChunkingStrategy("fixed_size", 512, 64).capped(512) == ChunkingStrategy("fixed_size", 512, 64)


def test_rows_are_laid_over_the_table_field_by_field():
    table = read_strategies({"sop_document": {"chunk_size": 256}, "memo": {"overlap": 8, "metadata_fields": ["to"]}})
    assert table["sop_document"] == ChunkingStrategy("section_aware", 256, 64, ("section_number", "version", "date"))
    assert table["memo"] == ChunkingStrategy("fixed_size", 512, 8, ("to",))
    assert table["regulatory_notice"] == DEFAULT_STRATEGIES["regulatory_notice"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"chunk_sice": 4}, "unknown field 'chunk_sice'. Did you mean 'chunk_size'"),
        ({"overlap": 512}, "overlap 512 must be smaller"),
        ("fixed_size", "expected the fields of a strategy"),
        ({"metadata_fields": "version"}, "must be a list of names"),
        ({"metadata_fields": 3}, "must be a list of names"),
    ],
)
def test_a_wrong_row_names_file_and_key(row, says):
    with pytest.raises(ConfigError, match=says) as caught:
        read_strategies({"sop_document": row}, file="chunking.json")
    assert (caught.value.file, caught.value.key) == ("chunking.json", "chunking_strategies.sop_document")


def test_a_strategy_reads_back_from_its_dict():
    for doc_type, strategy in DEFAULT_STRATEGIES.items():
        assert read_strategies({doc_type: strategy.to_dict()}) == dict(DEFAULT_STRATEGIES)
