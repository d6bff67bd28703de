"""The numbers of field values: one for each (field, value), the same whenever it is asked for again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, queries
from context_engine.adapters.sources.local.queries import Dictionary, fields_held, values_of
from context_engine.adapters.sources.local.schema import connect
from context_engine.core.models import Chunk, Condition, FilterOp

Fill = Callable[..., None]


@pytest.fixture
def connection(base: LocalBase, fill: Fill, folder: Path) -> Iterator[sqlite3.Connection]:
    """A writer's connection to a base with one chunk, which has an owner."""
    fill({"a": Chunk(content="Limits of the desk.", metadata={"owner": "Treasury"})})
    with closing(connect(folder, write=True)) as opened:
        yield opened


def test_a_value_has_two_numbers_one_for_the_field_and_one_for_itself(connection: sqlite3.Connection) -> None:
    dictionary = Dictionary(connection)
    plain = dictionary.numbers(Chunk(content="x"))
    owned = dictionary.numbers(Chunk(content="x", metadata={"owner": "Treasury"}))
    assert len(plain) == 1, "the claims of authority alone"
    assert owned[:1] == plain and len(set(owned)) == 3


def test_the_same_value_keeps_its_number_across_rows_writers_and_an_emptied_cache(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    treasury, custody = (Chunk(content="x", metadata={"owner": name}) for name in ("Treasury", "Custody"))
    dictionary = Dictionary(connection)
    first = dictionary.numbers(treasury)
    assert dictionary.numbers(treasury) == first
    assert Dictionary(connection).numbers(treasury) == first, "another writer finds it in the table"
    monkeypatch.setattr(queries, "_MOST_REMEMBERED", 1)
    other = dictionary.numbers(custody)
    assert other[1] == first[1], "the number of having an owner"
    assert other[2] != first[2], "the number of the owner"
    assert dictionary.numbers(treasury) == first


def test_a_number_that_was_rolled_back_is_not_given_again_from_memory(connection: sqlite3.Connection) -> None:
    dictionary, chunk = Dictionary(connection), Chunk(content="x", metadata={"desk": "Rates"})
    connection.execute("BEGIN")
    dictionary.numbers(chunk)
    connection.execute("ROLLBACK")
    dictionary.forget()
    numbers = dictionary.numbers(chunk)
    stored = {number for (number,) in connection.execute("SELECT attr_id FROM attributes")}
    assert set(numbers) <= stored


def test_the_values_of_a_field_are_found_by_its_name(connection: sqlite3.Connection) -> None:
    has, values = values_of(connection, "owner")
    assert has is not None
    assert [value for _, value in values] == ["Treasury"]
    assert values_of(connection, "nowhere") == (None, [])
    assert values_of(connection, "bad\ud800name") == (None, [])
    assert (has, "owner") in list(fields_held(connection))


def test_of_many_values_only_those_are_read_that_may_equal_a_text(connection: sqlite3.Connection) -> None:
    owners = ("Custody", "TREASURY", "Tr\u00e9sor", "Treasury Europe")
    Dictionary(connection).numbers(Chunk(content="x", metadata={"owner": list(owners)}))
    for owner in owners:
        Dictionary(connection).numbers(Chunk(content="x", metadata={"owner": owner}))
    _, values = values_of(connection, "owner", ["treasury"])
    named = [value for _, value in values if isinstance(value, str)]
    assert sorted(named) == ["TREASURY", "Treasury", "Treasury Europe", "Tr\u00e9sor"]


def test_a_filter_leaves_the_scores_of_what_it_admits(base: LocalBase, fill: Fill) -> None:
    fill(
        {
            "a": Chunk(content="The limit of the desk is reviewed.", metadata={"owner": "Treasury"}),
            "b": Chunk(content="The limit of the bank is reviewed by the board.", metadata={"owner": "Board"}),
        }
    )
    everything = {chunk.chunk_id: chunk.scores for chunk in base.search("limit reviewed", source_id="sop", top_k=5)}
    only = Condition("owner", FilterOp.EQ, "Board")
    (kept,) = base.search("limit reviewed", source_id="sop", top_k=5, filters=only)
    assert kept.chunk_id == "b"
    assert kept.scores == everything["b"]
