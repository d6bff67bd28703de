"""What the query of a question finds, and with which score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tantivy import Query

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.candidates import scores_in
from context_engine.adapters.sources.local.queries import MOST_TERMS, TextQuery, rows, text_query
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import Chunk, Expansion

Score = Callable[[Query], dict[str, float]]


@pytest.fixture
def score(base: LocalBase) -> Score:
    """Returns what a query scores, by chunk."""

    def of(query: Query) -> dict[str, float]:
        with base._viewer.view() as view:
            names = dict(view.connection.execute("SELECT rid, chunk_id FROM chunks"))
            return {names[rid]: found for rid, found in scores_in(view, query, list(names)).items()}

    return of


def of(text: str, *expansions: Expansion, **options: Any) -> TextQuery:
    query = text_query(text, SearchOptions(**options), expansions)
    assert query is not None
    return query


def held(query: TextQuery, term: str) -> Query:
    return next(word.query for word in query.held_words if word.term == term)


def test_a_word_is_held_whole_in_the_text_by_six_tenths_in_another_form_and_by_half_in_a_heading(
    fill: Callable[..., None], score: Score
) -> None:
    fill(
        {
            "same": "rates desk",
            "other": "rated desk",
            "headed": Chunk(content="a desk", heading_path=("Rates",)),
            "none": "cost desk",
        }
    )
    found = score(held(of("rates"), "rate"))
    assert found == {"same": pytest.approx(1.0), "other": pytest.approx(0.6), "headed": pytest.approx(0.5)}


def test_a_code_in_a_heading_is_held_whole(fill: Callable[..., None], score: Score) -> None:
    fill({"text": "notice 637", "headed": Chunk(content="a rule", heading_path=("Notice 637",))})
    assert score(held(of("637"), "637")) == {"text": 1.0, "headed": 1.0}


@pytest.mark.parametrize(("weight", "found"), [(0.0, set()), (0.5, {"headed"})])
def test_headings_without_a_weight_are_not_searched(
    fill: Callable[..., None], score: Score, weight: float, found: set[str]
) -> None:
    fill({"headed": Chunk(content="a rule", heading_path=("Haircut",)), "none": "a fee"})
    assert set(score(of("haircut", head_weight=weight).text)) == found


def test_a_code_in_a_heading_counts_twice_whatever_headings_weigh(fill: Callable[..., None], score: Score) -> None:
    fill({"headed": Chunk(content="a rule", heading_path=("Haircut 637",))})
    (code,), (word,) = (score(of(text, head_weight=0.5).text).values() for text in ("637", "haircut"))
    assert code == pytest.approx(word * 2.0 / 0.5)


def test_a_name_of_several_words_is_found_by_its_pairs(fill: Callable[..., None], score: Score) -> None:
    fill({"pair": "the market risk desk", "apart": "risk of a market", "own": "vega"})
    assert set(score(of("vega", Expansion("vega", "market risk", 1.0)).text)) == {"pair", "own"}
    assert set(score(of("vega", Expansion("vega", "market", 1.0)).text)) == {"pair", "apart", "own"}


@pytest.mark.parametrize(
    ("text", "has_codes"),
    [
        ("637", True),
        ("limits fees books 637", True),  # three words beside it
        ("limits fees books desks 637", False),
        ("limits fees books desks 637 638", False),
        ("limits", False),
    ],
)
def test_a_code_decides_with_three_words_beside_it_at_most(text: str, has_codes: bool) -> None:
    assert (of(text).codes is not None) is has_codes


def test_every_code_must_be_there_in_text_or_heading(fill: Callable[..., None], score: Score) -> None:
    fill(
        {
            "both": "notice 637 and 638",
            "split": Chunk(content="notice 638", heading_path=("Notice 637",)),
            "one": "notice 637",
        }
    )
    codes = of("637 638").codes
    assert codes is not None and score(codes) == {"both": 0.0, "split": 0.0}


def test_256_terms_of_a_question_are_searched_for() -> None:
    words = [f"w{chr(97 + number // 26)}{chr(97 + number % 26)}x" for number in range(MOST_TERMS + 1)]
    assert MOST_TERMS == 256
    short, long = of(" ".join(words[:256])), of(" ".join(words))
    assert (len(short.terms), short.shortened) == (256, False)
    assert (len(long.terms), long.shortened) == (256, True)


def test_a_question_without_a_term_has_no_query_unless_its_expansions_have_one() -> None:
    assert text_query("?!", SearchOptions()) is None
    assert text_query("?!", SearchOptions(), [Expansion("", "!", 1.0)]) is None
    assert of("?!", Expansion("", "haircut", 1.0)).terms == ("haircut",)


def test_a_title_scores_the_share_of_the_words_that_it_has(fill: Callable[..., None], score: Score) -> None:
    fill({"half": Chunk(content="x", title="Haircut"), "all": Chunk(content="x", title="Haircut fee")})
    assert score(of("haircut fee").title) == {"half": pytest.approx(0.5), "all": pytest.approx(1.0)}


@pytest.mark.parametrize("extra", [0, 401])
def test_rows_are_found_by_number_with_score_0_however_many(
    fill: Callable[..., None], base: LocalBase, extra: int
) -> None:
    fill({"a": "x", "b": "y"})
    with base._viewer.view() as view:
        first, second = (rid for (rid,) in view.connection.execute("SELECT rid FROM chunks ORDER BY rid"))
        numbers = [second, *range(second + 1, second + 1 + extra)]
        assert scores_in(view, rows(numbers), [first, second]) == {second: 0.0}
