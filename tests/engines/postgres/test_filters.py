"""Filters, days and access in SQL: the same as testing every chunk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from context_engine.core.models import AccessRule, AccessScope, Chunk, Classification, SourceQuery
from context_engine.core.policy.filters import matches, own_fields, parse_filter
from context_engine.errors import RepartitionRequired
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow
CHUNKS = [
    Chunk(
        content=f"limit rule {n}",
        chunk_id=f"c{n}",
        title="Limits" if n % 2 else "Large exposures",
        section=f"4.{n}",
        position=n,
        document_version="3.2" if n % 3 else "3.10",
        effective_from=date(2025, 1, 1) + timedelta(days=n) if n % 4 else None,
        effective_to=date(2025, 1, 10) + timedelta(days=n) if n % 5 else None,
        metadata={
            **({"year": 1950 + n} if n % 5 else {}),
            **({"tags": ["a", "b"] if n % 2 else ["c"]} if n % 7 else {}),
            "mixed": n if n % 2 else str(n),
            "name": f"it's \\ {n % 3}",
            "kind": ["Kind_a", "\u212aind_a", "kindXa", "KIND", True][n % 5],
        },
    )
    for n in range(40)
]


@pytest.fixture(scope="module")
def filled(plain_server: Any) -> Iterator[Any]:
    store = Store(plain_server.dsn("postgres"))
    with store.sink(store.spec(), store.spec("other")) as sink:
        sink.put("notes", "doc", "", "1", CHUNKS)
        sink.put("other", "doc", "", "1", [Chunk(content="limit rule", chunk_id="z", metadata={"year": 1960})])
    yield store.source()


def found(source: Any, **fields: Any) -> set[str]:
    answer = source.search(SourceQuery(text="limit", domain="NPA", top_k=100, **fields))
    return {chunk.chunk_id for chunk in answer.chunks}


@pytest.mark.parametrize(
    "written",
    [
        {"year_gte": 1960, "year_lte": 1969},
        {"year_ne": 1961},
        {"year_empty": True},
        "year not in 1961,1962",
        "tags = A",
        "tags != a",
        "version = 3.10",
        "title ~ exposures",
        {"mixed_gt": 30},
        "kind = KIND_A",
        "kind != kindxa",
        "kind in kind,true",
        "absent = 1",
        "absent is empty",
        {"or": [{"year": 1961}, {"not": {"position_lt": 39}}]},
        {"not": {"or": [{"tags": "a"}, {"tags": "c"}]}},
        {"or": []},
        "chunk_id = c7",
        {"not": {"and": [{"chunk_id": "c7"}, {"position": 7}]}},
        {"name": "it's \\ 1"},
        "source = notes",
        "source_id = other",
    ],
)
def test_a_filter_finds_what_testing_every_chunk_finds(filled: Any, written: Any) -> None:
    wanted = parse_filter(written)
    fields = {"source": "notes", "source_id": "notes"}
    assert found(filled, filters=wanted) == {
        chunk.chunk_id for chunk in CHUNKS if matches(wanted, {**own_fields(chunk), **fields})
    }


@pytest.mark.parametrize("day", [date(2024, 12, 31), date(2025, 1, 10), date(2025, 1, 30), date(2030, 1, 1)])
def test_a_day_finds_what_is_in_force(filled: Any, day: date) -> None:
    in_force = {
        chunk.chunk_id
        for chunk in CHUNKS
        if (chunk.effective_from is None or chunk.effective_from <= day)
        and (chunk.effective_to is None or day < chunk.effective_to)
    }
    assert found(filled, as_of=day) == in_force


def test_many_chunks_that_fail_a_test_do_not_hide_those_that_pass(filled: Any) -> None:
    wanted = parse_filter({"or": [{"chunk_id": "c3"}, {"chunk_id": "c38"}]})
    answer = filled.search(SourceQuery(text="limit rule", domain="NPA", top_k=2, filters=wanted))
    assert {chunk.chunk_id for chunk in answer.chunks} == {"c3", "c38"}


def test_fields_are_those_of_the_source(filled: Any) -> None:
    query = SourceQuery(text="limit", domain="NPA", top_k=1, filters=parse_filter("year = 1960"))
    fields = set(filled.search(query).filter_fields)
    assert {"year", "tags", "mixed", "title", "version"} <= fields and "" not in fields


def test_sources_are_searched_together_as_alone(plain_server: Any) -> None:
    store = Store(plain_server.dsn("postgres"))
    specs = [store.spec(name) for name in ("one", "two", "three")]
    with store.sink(*specs) as sink:
        for number, spec in enumerate(specs):
            for place in range(5):
                text = f"The approval limit of desk {number * place} is {place} million."
                sink.put(spec.id, f"d{place}", "", "1", [Chunk(content=text)])
    sources = [store.source(spec) for spec in specs]
    query = SourceQuery(text="approval limit of desk 4", domain="NPA", top_k=3)
    together = sources[0].search_together(_of_one_store(sources), query)
    assert [answer.chunks for answer in together] == [source.search(query).chunks for source in sources]


def _of_one_store(sources: list[Any]) -> list[Any]:
    for source in sources:
        source._store = sources[0].store
    return sources


def test_changed_rules_are_refused_until_the_documents_are_moved(plain_server: Any) -> None:
    store = Store(plain_server.dsn("postgres"))
    with store.sink() as sink:
        sink.put("notes", "open", "", "1", [Chunk(content="The approval limit is open.")])
        secret = Chunk(content="The approval limit is secret.", classification=Classification.RESTRICTED)
        sink.put("notes", "secret", "", "1", [secret])
    closed = store.spec(access=AccessRule(roles=("board",)), classification="confidential")
    source = store.source(closed, lambda _id: "board")
    with pytest.raises(RepartitionRequired):
        source.search(SourceQuery(text="approval limit", domain="NPA", top_k=5))
    with store.sink(closed, rules_of=lambda _id: "board"):
        pass
    board = AccessScope(rules=frozenset({"board"}), clearance=Classification.CONFIDENTIAL)
    query = SourceQuery(text="approval limit", domain="NPA", top_k=5)
    assert found_by(source, query, None) == {"open", "secret"}
    assert found_by(source, query, board) == {"open"}
    assert found_by(source, query, AccessScope()) == set()


def found_by(source: Any, query: SourceQuery, access: AccessScope | None) -> set[str | None]:
    asked = SourceQuery(text=query.text, domain=query.domain, top_k=query.top_k, access=access)
    answer = source.search(asked)
    assert answer.statistics.chunks == len(answer.chunks)
    return {chunk.document_id for chunk in answer.chunks}
