"""The terms of a chunk as the server keeps them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("psycopg")

from context_engine.adapters.sources.postgres.attributes import (
    holding,
    holding_all,
    lexemes_of,
    parts_of,
    read_row,
    tsvector,
)
from context_engine.adapters.sources.stores.question import StoredTerms

TERMS = st.lists(st.text("aä1.(", min_size=1, max_size=3), max_size=3)


@given(body=TERMS, title=TERMS, rest=TERMS, defined=TERMS)
def test_the_parts_of_a_row_are_read_as_they_were_written(
    body: list[str], title: list[str], rest: list[str], defined: list[str]
) -> None:
    stored = StoredTerms(body, sorted({*title, *rest}), frozenset(title))
    row = read_row(5, 1, 3, 4, parts_of(stored, defined))
    assert (row.rid, row.source_key, row.doc_key, row.section) == (5, 1, 3, 4)
    assert (row.body, row.head, row.title, row.defined) == (
        body,
        frozenset(stored.head),
        frozenset(title),
        frozenset(defined),
    )


def test_a_word_as_written_and_a_term_of_the_head_are_lexemes_of_their_own() -> None:
    stored = StoredTerms(["limit", "approv", "limit"], ["desk"])
    lexemes = lexemes_of(stored, ["approval", "limit"])
    assert lexemes == ["limit", "approv", "#desk", "~approval", "~limit"]
    assert tsvector(["o'clock", "a\\b"]) == "'o''clock' 'a\\\\b'"


def test_a_term_is_held_by_text_or_head() -> None:
    assert holding(["637"]) == "'637' | '#637'"
    assert holding_all(["637", "4b"]) == "('637' | '#637') & ('4b' | '#4b')"
