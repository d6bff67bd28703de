"""The searches of an answer as the pages show them: in order, why each was made, and what it gave."""

from __future__ import annotations

from typing import Any

from context_engine.answer.gathering import Gathering, Pick, RunLimits, SearchRound
from context_engine.apps.web.steps import recorded_steps, steps_view

KEYS = [("sops", "a"), ("sops", "b"), ("board", "c")]
GATHERING = Gathering(
    workflow="agentic",
    policy="rules",
    limits=RunLimits(),
    rounds=(
        SearchRound("Who signs, and when?", "question", "", 0, "s-1", (KEYS[0], KEYS[1])),
        SearchRound("OPS-SOP-002", "citation", "OPS-SOP-002", 1, "s-2", (KEYS[0], KEYS[2])),
    ),
    stopped="complete",
    picks=(Pick(0, KEYS[0]), Pick(1, KEYS[2]), Pick(0, KEYS[1])),
)


def test_each_search_says_why_it_was_made_and_how_many_of_its_passages_are_used() -> None:
    first, second = steps_view(GATHERING).steps
    assert (first.number, first.why, first.used, first.passages) == (1, "the question itself", 2, 2)
    assert (second.number, second.why, second.used, second.passages) == (2, "a passage cites OPS-SOP-002", 1, 2)
    assert second.address == "/searches/s-2"


def test_each_passage_belongs_to_the_search_that_found_it() -> None:
    view = steps_view(GATHERING)
    assert [view.of(rank).search_id for rank in (1, 2, 3)] == ["s-1", "s-2", "s-1"]
    assert view.counted == "2 searches"


def test_the_record_of_an_answer_shows_the_same_searches() -> None:
    facts: dict[str, Any] = {"workflow": GATHERING.facts()}
    assert recorded_steps(facts, {"searches": GATHERING.words()}) == steps_view(GATHERING)
    assert recorded_steps({}, {}) is None
