"""The text score of rows, with its arithmetic, and the terms that a store is asked for."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.sources.stores.chunk_rows import index_texts
from context_engine.adapters.sources.stores.options import COVERAGE_EXPONENT, SearchOptions
from context_engine.adapters.sources.stores.question import (
    INFLECTED,
    MOST_TERMS,
    FoundRow,
    ScoredCollection,
    Scorer,
    StoredTerms,
    code_words,
    kept,
    look_ups,
    question_of,
    with_synonyms,
)
from context_engine.core.models import Chunk, Expansion

PLAIN = SearchOptions(pairs_weight=0.0, head_weight=0.0, sibling_weight=0.0)
FOUR = ScoredCollection(chunks=4, words=12, in_texts={"limit": 2, "approv": 1}, in_heads={"desk": 3})


def row(rid: int, body: str, head: str = "", section: int | None = None) -> FoundRow:
    return FoundRow(rid, 1, 1, rid if section is None else section, body.split(), frozenset(head.split()))


def scorer(
    text: str, options: SearchOptions = PLAIN, expansions: Any = (), collection: ScoredCollection = FOUR
) -> Scorer:
    question = question_of(text, options, expansions)
    assert question is not None
    return Scorer(question, collection, options)


def test_one_term_has_its_bm25() -> None:
    """N = 4, df = 2; three terms, as many as on average, so that the length plays no part."""
    idf = log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    found = scorer("limit").scores([row(1, "limit of five")])
    assert found[1] == pytest.approx(idf * 1 * 2.2 / (1 + 1.2))


def test_what_a_row_does_not_cover_lowers_its_score() -> None:
    limit, approval = log(1 + 2.5 / 2.5), log(1 + 3.5 / 1.5)
    share = limit / (limit + approval)
    found = scorer("approval limit").scores([row(1, "limit of five")])
    assert found[1] == pytest.approx(limit * share**COVERAGE_EXPONENT)


def test_a_pair_of_neighbours_counts_by_the_idf_of_both() -> None:
    options = SearchOptions(pairs_weight=0.5, head_weight=0.0, sibling_weight=0.0)
    limit, approval = log(1 + 2.5 / 2.5), log(1 + 3.5 / 1.5)
    found = scorer("approval limit", options).scores([row(1, "approv limit five"), row(2, "limit approv five")])
    assert found[2] == pytest.approx(limit + approval)
    assert found[1] == pytest.approx(limit + approval + 0.5 * (limit + approval))


def test_siblings_add_the_best_of_their_section() -> None:
    options = SearchOptions(pairs_weight=0.0, head_weight=0.0, sibling_weight=0.4)
    alone = scorer("limit").scores([row(1, "limit of five")])[1]
    found = scorer("limit", options).scores([row(1, "limit of five"), row(2, "of five desks", section=1)])
    assert found == {1: pytest.approx(alone + 0.4 * alone), 2: pytest.approx(0.4 * alone)}


def test_the_best_name_of_a_term_counts_once() -> None:
    names, alike = [Expansion("limit", "ceiling", 0.5)], FOUR._replace(in_texts={"limit": 2, "ceil": 2})
    idf = log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    asked = scorer("limit", expansions=names, collection=alike)
    assert asked.scores([row(1, "limit ceil five"), row(2, "ceil of five")]) == pytest.approx({1: idf, 2: 0.5 * idf})


def test_a_code_in_a_head_counts_fully() -> None:
    collection = ScoredCollection(chunks=4, words=12, in_texts={}, in_heads={"637": 1})
    idf = log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    found = scorer("637", collection=collection).scores([row(1, "notice of board", "637")])
    assert found[1] == pytest.approx(2.0 * idf)


def test_the_rarest_terms_are_looked_up_first_and_many_rows_are_not_read() -> None:
    many = ScoredCollection(
        chunks=100_000, words=1, in_texts={"limit": 49_000, "approv": 40, "board": 30_000}, in_heads={}
    )
    question = question_of("board approval limit", PLAIN, ())
    assert question is not None
    assert [found.term for found in look_ups(question, many, PLAIN)] == ["approv", "board"]


def test_an_only_term_is_looked_up_however_frequent_it_is() -> None:
    many = ScoredCollection(chunks=1_000_000, words=1, in_texts={"limit": 900_000}, in_heads={})
    question = question_of("limit", PLAIN, ())
    assert question is not None and [found.term for found in look_ups(question, many, PLAIN)] == ["limit"]


def test_a_question_without_terms_is_none() -> None:
    assert question_of("the of and", PLAIN, ()) is None


def test_a_long_question_is_shortened() -> None:
    question = question_of(" ".join(f"word{number}" for number in range(2 * MOST_TERMS)), PLAIN, ())
    assert question is not None and question.shortened and len(question.weights) == MOST_TERMS


def test_stored_terms_are_cut() -> None:
    (text,) = index_texts([Chunk(content="x" * 300, title="Limits")])
    stored = StoredTerms.of(text)
    assert stored.body == [kept("x" * 300)] == ["x" * 200] and stored.head == ["limit"]


@given(st.lists(st.sampled_from(["limit", "approv", "five", "desk"]), min_size=1, max_size=12))
def test_a_score_is_never_negative_and_holds_only_what_is_held(body: list[str]) -> None:
    score = scorer("approval limit").scores([row(1, " ".join(body))])[1]
    assert score > 0.0 if {"limit", "approv"} & {*body} else score == 0.0


def test_a_question_of_codes_and_few_words_has_codes() -> None:
    assert code_words({"notic": 1.0, "637": 1.0}) == ["637"]
    assert code_words({"notic": 1.0, "637(4)": 1.0, "637": 0.5}) == ["637(4)"]  # a piece of a code is none
    assert code_words({"a": 1.0, "b": 1.0, "c": 1.0, "637": 1.0}) == ["637"]
    assert code_words({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "637": 1.0}) == []
    assert code_words({"notic": 1.0}) == []


def test_a_row_holds_words_of_its_text_and_its_head() -> None:
    assert row(1, "larg exposur", head="637").holds(["637", "larg"])
    assert not row(1, "larg exposur", head="637").holds(["637", "small"])


def test_the_share_of_a_title_is_that_of_the_question() -> None:
    titled = row(1, "five", head="limit desk")._replace(title=frozenset({"limit", "desk"}))
    assert scorer("approval limit").title_shares([titled, row(2, "limit")]) == {1: 1 / 2, 2: 0.0}


def test_neighbours_of_one_document_add_to_each_other() -> None:
    options = SearchOptions(pairs_weight=0.0, head_weight=0.0, sibling_weight=0.0, neighbour_weight=0.5)
    alone = scorer("limit").scores([row(1, "limit of five")])[1]
    beside = row(2, "of five desks")
    assert scorer("limit", options).scores([row(1, "limit of five"), beside]) == {
        1: pytest.approx(alone),
        2: pytest.approx(0.5 * alone),
    }
    other = beside._replace(doc_key=9)
    assert scorer("limit", options).scores([row(1, "limit of five"), other])[2] == 0.0


def test_the_synonyms_of_a_word_are_searched_for_with_less_weight() -> None:
    """ "badge: card, key" is a group. A word in the text, or with names of its own, gets none."""
    options = SearchOptions(synonym_weight=0.3)
    assert with_synonyms("lost badge", SearchOptions(synonym_weight=0.0), ()) == []
    assert {each.text: each.weight for each in with_synonyms("badge", options, ())} == {"card": 0.3, "key": 0.3}
    assert [each.text for each in with_synonyms("badge or card", options, ()) if each.term == "badge"] == ["key"]
    named = Expansion("badge", "access token", 1.0)
    assert with_synonyms("badge", options, (named,)) == [named]


def test_a_synonym_covers_a_part_of_the_word() -> None:
    """N = 4, df = 2: a third of the score of the word, times (.6 of 1) ** exponent; in a head it covers nothing."""
    options = PLAIN.model_copy(update={"synonym_weight": 1 / 3})
    cards = ScoredCollection(chunks=4, words=12, in_texts={"card": 2}, in_heads={"card": 1})
    asked = scorer("badge", options, collection=cards)
    found = asked.scores([row(1, "card of five"), row(2, "one of five", "card")])
    assert found[1] == pytest.approx(log(1 + 2.5 / 2.5) / 3 * INFLECTED**COVERAGE_EXPONENT)
    assert found[2] == 0.0
