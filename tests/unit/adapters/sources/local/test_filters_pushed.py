"""Filters and days answered by the index: the same as testing every row, for every kind of field."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.queries import IndexRows, fields_held, values_of
from context_engine.adapters.sources.stores.pushdown import Pushdown, relaxed
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import And, Chunk, Condition, Filter, FilterOp, Not, Or
from context_engine.core.policy.filters import matches, own_fields, parse_filter

CHUNKS = [
    Chunk(
        content=f"limit rule {n}",
        chunk_id=f"c{n}",
        title="Limits" if n % 2 else "Large exposures",
        section=f"4.{n}",
        position=n,
        doc_type="sop_document" if n < 20 else None,
        document_version="3.2" if n % 3 else "3.10",
        effective_from=date(2025, 1, 1) + timedelta(days=n) if n % 4 else None,
        metadata={
            **({"year": 1950 + n} if n % 5 else {}),
            **({"tags": ["a", "b"] if n % 2 else ["c"]} if n % 7 else {}),
            **({"day": f"2025-01-{n + 1:02d}"} if n < 28 else {"day": "unknown"}),
            **({"live": bool(n % 2)} if n % 6 else {"live": None}),
            "mixed": n if n % 2 else str(n),
            "kind": ["Kind_a", "\u212aind_a", 'kind "B"', "kindXa", "KIND", True][n % 6],
        },
    )
    for n in range(40)
]


@pytest.fixture(scope="module")
def filled() -> Iterator[LocalBase]:
    with tempfile.TemporaryDirectory() as folder, LocalBase.open(Path(folder), create=True) as base:
        with base.writer() as writer:
            writer.put("sop", "doc", "", "h", CHUNKS)
            writer.put("other", "doc", "", "h", [Chunk(content="limit rule", chunk_id="z", metadata={"year": 1960})])
        yield base


def found(base: LocalBase, filters: Any, top_k: int = 100, **scope: Any) -> set[str]:
    wanted = Scope(source_id="sop", filters=parse_filter(filters), **scope)
    return {chunk.chunk_id for chunk in base.answer("limit", top_k=top_k, scope=wanted).chunks}


def expected(filters: Any) -> set[str]:
    wanted = parse_filter(filters)
    return {chunk.chunk_id for chunk in CHUNKS if matches(wanted, own_fields(chunk))}


@pytest.mark.parametrize(
    "written",
    [
        {"year_gte": 1960, "year_lte": 1969},
        {"year": "1961"},
        {"year_ne": 1961},
        {"year_empty": True},
        {"year_empty": False},
        "year not in 1961,1962",
        "day >= 2025-01-10; day < 2025-01-20",
        "effective_from <= 2025-01-15",
        "tags = A",
        "tags != a",
        "tags in c,d",
        "version = 3.10",
        "title ~ exposures",
        "title starts with limits",
        "doc_type is empty",
        "position < 3",
        "section = 4.7",
        {"live": True},
        "live is not empty",
        {"mixed_gt": 30},
        "absent = 1",
        "absent != 1",
        "absent is empty",
        {"or": [{"year": 1961}, {"not": {"position_lt": 39}}]},
        {"not": {"or": [{"tags": "a"}, {"tags": "c"}]}},
        {"and": []},
        {"or": []},
        {"not": {"and": []}},
        "chunk_id = c7",
        "chunk_id != c7",
        {"not": {"and": [{"chunk_id": "c7"}, {"position": 7}]}},
        "source = sop",
        "source_id = other",
    ],
)
def test_a_filter_finds_what_testing_every_row_finds(filled: LocalBase, written: Any) -> None:
    wanted = parse_filter(written)
    rows = {c.chunk_id for c in CHUNKS if matches(wanted, {**own_fields(c), "source": "sop", "source_id": "sop"})}
    assert found(filled, written) == rows


NAMES = ["year", "kind", "tags", "day", "live", "mixed", "position", "version", "title", "chunk_id", "absent"]
VALUES = st.one_of(
    st.integers(1950, 1990),
    st.sampled_from(["a", "c", "2025-01-12", "3.2", "c7", "", "7", 7, True, date(2025, 1, 9)]),
    st.sampled_from(["LIMITS", "limits", "true", "\u212aind_a", "kind_A", "kindxa", 'kind "b"', "%", "unknown"]),
)
SINGLE = [op for op in FilterOp if op not in (FilterOp.IN, FilterOp.NOT_IN)]
CONDITIONS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Condition, st.sampled_from(NAMES), st.sampled_from(SINGLE), VALUES),
    st.builds(
        Condition,
        st.sampled_from(NAMES),
        st.sampled_from([FilterOp.IN, FilterOp.NOT_IN]),
        st.lists(VALUES, max_size=3).map(tuple),
    ),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda below: st.one_of(
        st.lists(below, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(below, max_size=3).map(lambda parts: Or(tuple(parts))),
        below.map(Not),
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILTERS)
def test_any_filter_finds_what_testing_every_row_finds(filled: LocalBase, wanted: Filter) -> None:
    assert found(filled, wanted) == expected(wanted)


def test_an_answered_condition_is_answered_anew_after_a_change(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({"a": Chunk(content="limit", metadata={"year": 1960})})
    assert found(base, "year >= 1960") == {"a"} and found(base, "year != 1960") == set()
    fill({"b": Chunk(content="limit", metadata={"year": 1961})})
    assert found(base, "year >= 1960") == {"a", "b"} and found(base, "year != 1960") == {"b"}
    base.rebuild()
    assert found(base, "year >= 1960") == {"a", "b"} and found(base, "year != 1960") == {"b"}


def test_true_and_one_are_two_conditions(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({"a": Chunk(content="limit", metadata={"live": True}), "b": Chunk(content="limit", metadata={"live": 1})})
    assert found(base, {"live": True}) == {"a"} and found(base, {"live": 1}) == {"b"}


def test_a_name_that_is_no_unicode_is_a_field_that_nothing_has(filled: LocalBase) -> None:
    """It is not the base that is damaged."""
    name = json.loads('"\\ud800"')
    assert found(filled, {name: "x"}) == set()
    assert found(filled, {"not": {name: "x"}}) == {chunk.chunk_id for chunk in CHUNKS}


def test_many_conditions(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({f"c{n}": Chunk(content="limit", position=n) for n in range(3)})
    for n in range(200):
        assert found(base, {"position": n}) == ({f"c{n}"} if n < 3 else set())


def test_a_narrow_filter_still_fills_the_answer(filled: LocalBase) -> None:
    assert len(found(filled, "position >= 35", top_k=5)) == 5
    assert len(found(filled, "chunk_id in c30,c31,c32", top_k=3)) == 3


class TestStanding:
    """Tier, type and classification are the manifest's word: known, they are answered; unknown, left to the engine."""

    @pytest.mark.parametrize("written", ["tier = 1", "classification = public", {"not": {"source_type": "bank_sop"}}])
    def test_left_to_the_engine(self, filled: LocalBase, written: Any) -> None:
        assert found(filled, written) == {chunk.chunk_id for chunk in CHUNKS}

    def test_what_stands_beside_them_still_counts(self, filled: LocalBase) -> None:
        assert found(filled, "tier = 1; position < 3") == {"c0", "c1", "c2"}
        assert found(filled, "tier = 1; chunk_id = c5") == {"c5"}

    def test_answered_from_each_document_s_claim(self, base: LocalBase, fill: Callable[..., None]) -> None:
        fill({"low": Chunk(content="limit", authority_tier=4), "plain": Chunk(content="limit")})

        def standing(chunk: Chunk) -> dict[str, Any]:
            return {"tier": chunk.authority_tier or 2}

        assert found(base, "tier <= 2", standing=standing) == {"plain"}
        assert found(base, "tier > 2", standing=standing) == {"low"}

    def test_constants(self, filled: LocalBase) -> None:
        assert found(filled, "domain = NPA", constants={"domain": "ORM"}) == set()
        assert len(found(filled, "domain = NPA", constants={"domain": "NPA"})) == 40


class TestInForce:
    @pytest.fixture(autouse=True)
    def versions(self, fill: Callable[..., None]) -> None:
        fill(
            {
                "old": Chunk(content="limit", effective_from=date(2024, 1, 1), effective_to=date(2025, 7, 1)),
                "new": Chunk(content="limit", effective_from=date(2025, 7, 1)),
                "undated": Chunk(content="limit"),
                "ended": Chunk(content="limit", effective_to=date(2020, 1, 1)),
            }
        )

    @pytest.mark.parametrize(
        ("day", "there"),
        [
            (date(2019, 12, 31), {"undated", "ended"}),
            (date(2020, 1, 1), {"undated"}),
            (date(2024, 1, 1), {"old", "undated"}),
            (date(2025, 6, 30), {"old", "undated"}),
            (date(2025, 7, 1), {"new", "undated"}),
            (date(1, 1, 1), {"undated", "ended"}),
            (date(9999, 12, 31), {"new", "undated"}),
        ],
    )
    def test_from_is_inclusive_to_is_exclusive(
        self, find: Callable[..., list[str]], day: date, there: set[str]
    ) -> None:
        assert set(find("limit", as_of=day)) == there

    def test_no_day_no_bound(self, find: Callable[..., list[str]]) -> None:
        assert len(find("limit")) == 4


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ({"year": 1960}, True),
        ({"title_contains": "limits", "owner_empty": True}, True),
        ({"domain": "NPA"}, True),  # a constant of the source
        ({"chunk_id": "c1"}, False),
        ({"or": [{"year": 1960}, {"not": {"content_sha256": "x"}}]}, False),
        ({"previous_chunk_id": "c1"}, False),
        ({"next_chunk_id": "c1"}, False),
    ],
)
def test_the_index_answers_all_but_what_differs_for_each_chunk(filled: LocalBase, written: Any, exact: bool) -> None:
    wanted = parse_filter(written)
    assert wanted is not None
    with filled._viewer.view() as view:
        pushdown = Pushdown(IndexRows(), partial(values_of, view.connection), {}, {"domain": "NPA"})
        pushdown.query(wanted)
    assert pushdown.exact is exact


def test_the_queries_of_64_conditions_are_kept_and_then_dropped_together(filled: LocalBase) -> None:
    kept: dict[str, Any] = {}
    with filled._viewer.view() as view:
        pushdown = Pushdown(IndexRows(), partial(values_of, view.connection), kept, {})
        for number in range(64):
            pushdown.query(Condition("year", FilterOp.EQ, number))
        assert len(kept) == 64
        pushdown.query(Condition("year", FilterOp.EQ, 0))
        assert len(kept) == 64  # it was kept already
        pushdown.query(Condition("year", FilterOp.EQ, 64))
    assert len(kept) == 1


@pytest.mark.parametrize("name", ["\ud800", "x\udfff", "\udabc"])
def test_a_field_that_cannot_be_stored_is_held_by_none(filled: LocalBase, name: str) -> None:
    with filled._viewer.view() as view:
        assert values_of(view.connection, name) == (None, [])
    assert found(filled, Condition(name, FilterOp.EMPTY)) == {chunk.chunk_id for chunk in CHUNKS}


def test_only_named_values_that_several_chunks_may_share_have_numbers(filled: LocalBase) -> None:
    """Neither ids of chunks nor a missing value; the claims of documents have a name of their own."""
    with filled._viewer.view() as view:
        names = {name for _, name in fields_held(view.connection)}
        assert {"title", "year", "tags"} <= names
        assert not names & {"", "chunk_id", "content_sha256", "content"}
        has, values = values_of(view.connection, "live")
        assert has is not None and sorted(value for _, value in values) == [False, True]


def test_fields_of_the_manifest_are_left_out_of_a_filter_in_the_way_that_admits_more() -> None:
    tier, year = Condition("tier", FilterOp.LTE, 2), Condition("year", FilterOp.EQ, 1960)
    assert relaxed(And((tier, year)), {"tier"}) == And((And(()), year))
    assert relaxed(Not(And((tier, year))), {"tier"}) == Not(And((Or(()), year)))
    assert relaxed(Or((year, Not(Not(tier)))), {"tier"}) == Or((year, Not(Not(And(())))))
    assert relaxed(year, {"tier"}) == year


def test_the_fields_of_a_source_are_those_of_its_present_chunks(base: LocalBase, fill: Callable[..., None]) -> None:
    def fields(source_id: str) -> tuple[str, ...] | None:
        scope = Scope(source_id=source_id, filters=Condition("desk", "eq", "x"))
        return base.answer("limit", top_k=1, scope=scope).filter_fields

    fill({"a": Chunk(content="limit of the desk", metadata={"desk": "x"})})
    fill({"b": Chunk(content="limit of the book", metadata={"book": "y"})}, "manual")
    for _ in range(2):  # counted, then remembered
        assert "desk" in (fields("sop") or ()) and "book" not in (fields("sop") or ())
        assert "book" in (fields("manual") or ()) and "desk" not in (fields("manual") or ())
    fill({"c": Chunk(content="limit of the fund", metadata={"fund": "z"})})
    assert {"desk", "fund"} <= set(fields("sop") or ())
