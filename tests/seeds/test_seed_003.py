"""Seed 003: context assembly (dedup, neighbours, order, attribution, budget)."""

import pytest

from context_engine import ApproxTokenCounter, from_result

DOCUMENT = (
    "The desk reports every breach of a limit to market risk control on the same day. "
    "Market risk control confirms the breach in writing and names the trader. "
    "The head of desk cures the breach before close of business or asks for a temporary excess. "
    "A temporary excess is recorded in the limit monitor with its reason and its end date."
)
CUTS = [DOCUMENT.index(start) for start in ("Market", "The head", "A temporary excess is")]
OTHER = "Stress results of the desk are presented to the committee each month by market risk control."


def piece(chunk_of, position, start, end, relevance, **fields):
    fields = {"title": "limits.md", "document_id": "LIMITS", "document_version": "1", **fields}
    text = DOCUMENT[start:end]
    return chunk_of(f"p{position}", relevance, text, position=position, span=(start, end), **fields)


@pytest.fixture
def answer(ask, chunk_of):
    """Three pieces of a document, of which two neighbours overlap, a copy of one of them, and another document."""
    neighbours = [
        piece(chunk_of, 2, CUTS[1], len(DOCUMENT), 0.95, section="4.2"),
        piece(chunk_of, 0, 0, CUTS[1] + 20, 0.70, section="4.1"),
    ]
    other = chunk_of("other", 0.80, OTHER, title="stress.md", document_id="STRESS", section="2")
    copy = piece(chunk_of, 2, CUTS[1], len(DOCUMENT), 0.60, title="copy.md", document_id="COPY", section="9")
    return ask([(2, [*neighbours, other]), (3, [copy])], query="breach of a limit")


def context(answer, budget=6000, **given):
    return from_result(answer, counter=ApproxTokenCounter(), budget=budget, **given)


def test_D8_duplicates_stand_once_and_name_their_other_place(answer):
    text = context(answer).text
    assert text.count("A temporary excess is recorded") == 1
    assert "Also in: COPY §9" in text


def test_D8_neighbours_are_one_passage_without_repeating_their_overlap(answer):
    made = context(answer)
    [block] = [one for one in made.blocks if len(one.chunk_ids) > 1]
    assert block.chunk_ids == ("p0", "p2")
    assert block.text == DOCUMENT
    assert block.span == (0, len(DOCUMENT))
    assert DOCUMENT in made.text


def test_D8_pieces_with_a_gap_between_them_stay_apart(ask, chunk_of):
    pieces = [
        piece(chunk_of, 0, 0, CUTS[0], 0.9, section="4"),
        piece(chunk_of, 2, CUTS[1], len(DOCUMENT), 0.8, section="4"),
    ]
    made = context(ask([(2, pieces)], query="breach of a limit"))
    assert [block.chunk_ids for block in made.blocks] == [("p0",), ("p2",)]


def test_D8_passages_stand_by_rank_and_inside_a_document_in_its_order(answer):
    """The merged passage has the rank of its best piece, 0.95; inside it the document's first piece comes first."""
    made = context(answer)
    assert [block.chunk_ids for block in made.blocks] == [("p0", "p2"), ("other",)]
    assert [block.label for block in made.blocks] == ["[1]", "[2]"]


def test_D8_each_passage_has_its_attribution(answer):
    made = context(answer)
    assert [one.attribution for one in made.citations] == [
        "[Source: limits.md, Section 4.1, 4.2]",
        "[Source: stress.md, Section 2]",
    ]
    for one in made.citations:
        assert f"{one.label} {one.attribution}" in made.text


@pytest.mark.parametrize("budget", [64, 120, 160, 250, 15_000])
def test_D8_the_token_budget_is_never_exceeded_and_cuts_by_rank(answer, budget):
    made = context(answer, budget)
    assert made.tokens == ApproxTokenCounter().count(made.text) <= budget
    placed = {name for block in made.blocks for name in block.chunk_ids}
    left_out = {one.chunk_id for one in made.left_out}
    assert placed | left_out == {chunk.chunk_id for chunk in answer.chunks}
    assert not placed & left_out
    assert "p2" in placed or not placed


def test_D8_what_was_left_out_says_why(answer):
    made = context(answer, 150)
    assert made.left_out
    for one in made.left_out:
        assert one.reason == "budget"
        assert one.tokens > one.room
