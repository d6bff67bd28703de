"""A stored chunk becomes the same row again, with the same digest, wherever it is copied to."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis.strategies import (
    dates,
    datetimes,
    dictionaries,
    fixed_dictionaries,
    integers,
    just,
    none,
    sampled_from,
    text,
    tuples,
)

from context_engine.adapters.sources.stores.chunk_rows import as_written, decode, encode
from context_engine.core.models import Chunk, Classification, FetchedAtBasis, SourceType
from context_engine.errors import StoreCorrupt

WORDS = text("aé\n\"'\\ 1", min_size=1).filter(str.strip)
CHUNKS = fixed_dictionaries(
    {
        "content": WORDS,
        "chunk_id": WORDS,
        "title": none() | WORDS,
        "heading_path": tuples(WORDS, WORDS) | just(()),
        "span": none() | tuples(integers(0, 9), integers(10, 20)),
        "source_type": none() | sampled_from(SourceType),
        "classification": none() | sampled_from(Classification),
        "fetched_at": none() | datetimes(timezones=just(UTC)),
        "effective_from": none() | dates(),
        "metadata": dictionaries(WORDS, WORDS | integers() | dates()),
    }
).map(lambda fields: Chunk(**fields))


@given(CHUNKS)
def test_a_row_is_read_and_written_again_as_it_was(chunk: Chunk) -> None:
    row = encode(chunk, "document", "1")
    assert encode(as_written(row), "document", "1") == row


def test_the_time_of_ingestion_is_not_taken_for_a_time_that_the_chunk_states() -> None:
    row = encode(Chunk(content="Text", effective_from=date(2025, 6, 30)), "document", "")
    assert as_written(row).fetched_at is None and as_written(row).effective_from == date(2025, 6, 30)
    read = decode(row[:3], "2026-01-05T08:00:00+00:00")
    assert (read.fetched_at, read.fetched_at_basis) == (datetime(2026, 1, 5, 8, tzinfo=UTC), FetchedAtBasis.INDEXED)


def test_a_damaged_row_is_not_copied() -> None:
    row = encode(Chunk(content="The limit is five million.", chunk_id="c1"), "document", "")
    with pytest.raises(StoreCorrupt, match="'c1' is damaged"):
        as_written(row._replace(content="The limit is nine million."))
