"""What a reader must know of the question: a quoted phrase that no text holds, a filter's field that nobody has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.engine import Engine
from context_engine.core.models import (
    And,
    Chunk,
    Condition,
    FilterOp,
    Not,
    Notice,
    NoticeCode,
    SearchRequest,
    SearchResult,
)

RULE = Chunk(
    content="A material change to a product is approved by the committee.",
    chunk_id="rule",
    title="Approval of products",
    metadata={"owner": "Operations", "region": "North"},
)


@pytest.fixture
def engine(tmp_path: Path, make_engine: Callable[..., Engine]) -> Iterator[Engine]:
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            writer.put("t2", "rule", "1", "rule", [RULE])
        with make_engine([(2, LocalSource(base, "t2"))]) as engine:
            yield engine


def of_code(result: SearchResult, code: NoticeCode) -> list[Notice]:
    return [notice for notice in result.notices if notice.code is code]


def find(engine: Engine, query: str, **fields: Any) -> SearchResult:
    return engine.search(SearchRequest(query=query, domain="NPA", **fields))


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ('"material change" to a product', []),
        ('"Material  change" to a product', []),
        ('"change material" to a product', ["change material"]),
        ('"minor change" or "material change"', ["minor change"]),
        ('"approval of products"', []),  # the title
        ('"pizza" dough', []),  # one word is only set off
    ],
)
def test_a_quoted_phrase_that_no_text_holds_is_said(engine: Engine, query: str, missing: list[str]) -> None:
    notices = of_code(find(engine, query), NoticeCode.PHRASE_NOT_FOUND)
    assert [notice.detail["phrase"] for notice in notices] == missing


@pytest.mark.wording
def test_the_field_nearest_to_the_unknown_one_is_named_and_those_there_are(engine: Engine) -> None:
    (notice,) = of_code(
        find(engine, "material change", filters=Condition("titel", FilterOp.EQ, "Foo")),
        NoticeCode.FILTER_FIELD_UNKNOWN,
    )
    assert notice.message.startswith("no source is known to have the field 'titel' that the filter names. ")
    assert "Did you mean 'title'? Fields: " in notice.message
    assert {"owner", "region", "title"} <= set(notice.detail["fields"])


def test_every_unknown_field_of_a_filter_is_named_once(engine: Engine) -> None:
    conditions = [Condition(name, FilterOp.EQ, "x") for name in ("owner", "ownr", "titel", "tier", "version")]
    result = find(engine, "material change", filters=And((*conditions, Not(conditions[1]))))
    unknown = of_code(result, NoticeCode.FILTER_FIELD_UNKNOWN)
    assert [notice.detail["field"] for notice in unknown] == ["ownr", "titel"]
    assert of_code(result, NoticeCode.FILTER_LEFT_NOTHING)


def test_a_field_that_another_source_has_is_known(make_engine: Callable[..., Engine]) -> None:
    """Two functions: what they gave shows their fields."""
    one, two = [RULE._replace(chunk_id="a")], [RULE._replace(chunk_id="b", metadata={"desk": "Rates"})]
    wanted = Condition("desk", FilterOp.EQ, "Rates")
    with make_engine([(2, one), (3, two)]) as engine:
        assert not of_code(find(engine, "material change", filters=wanted), NoticeCode.FILTER_FIELD_UNKNOWN)
    with make_engine([(2, one)]) as engine:
        assert of_code(find(engine, "material change", filters=wanted), NoticeCode.FILTER_FIELD_UNKNOWN)


def test_where_no_source_knows_its_fields_none_is_called_unknown(make_engine: Callable[..., Engine]) -> None:
    with make_engine([(2, [])]) as engine:
        result = find(engine, "material change", filters=Condition("desk", FilterOp.EQ, "Rates"))
    assert [notice.code for notice in result.notices] == [NoticeCode.FILTER_LEFT_NOTHING]
