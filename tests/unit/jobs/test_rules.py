"""The policy without a model: the question, its parts, what passages cite, what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from context_engine.answer.gathering import RunLimits, gathered
from context_engine.core.models import TrustClass
from context_engine.jobs.rules import RuleBasedPolicy, changed_decision
from context_engine.jobs.workflow import WorkflowState, gathering_of, run
from tests.unit.jobs.library import Library

LIMITS = RunLimits()
LEADS_ON = "What is due after the review of an incident?"


def walked(question: str, limits: RunLimits = LIMITS) -> WorkflowState:
    return run(WorkflowState(question=question, limits=limits), Library().kit(RuleBasedPolicy()))


def steps_of(state: WorkflowState) -> list[tuple[str, str]]:
    return [(searched.why, searched.query) for searched in state.rounds]


def test_the_parts_of_a_question_are_searched_one_by_one():
    state = walked("Who signs the mandate and when is a loss reported?")
    assert steps_of(state) == [
        ("question", "Who signs the mandate and when is a loss reported?"),
        ("part", "Who signs the mandate"),
        ("part", "when is a loss reported"),
    ]
    assert state.stopped == "complete"


def test_a_question_that_one_passage_covers_is_searched_once():
    assert steps_of(walked("Who signs the mandate?")) == [("question", "Who signs the mandate?")]


def test_a_citation_is_followed_while_something_is_missing():
    state = walked(LEADS_ON)
    assert steps_of(state)[1:] == [("citation", "OPS-SOP-001 7 due")]
    assert (state.rounds[1].cites, state.rounds[1].hops) == ("OPS-SOP-001", 1)
    assert state.rounds[1].keys == (("ops", "OPS-SOP-001"),)


def test_citations_are_followed_as_far_as_the_limits_allow():
    question = "When does a mandate of a zeppelin end?"
    assert max(searched.hops for searched in walked(question, RunLimits(hops=2)).rounds) == 2
    assert max(searched.hops for searched in walked(question, RunLimits(hops=1)).rounds) == 1
    assert max(searched.hops for searched in walked(question, RunLimits(hops=0)).rounds) == 0


def test_what_no_passage_has_is_searched_at_last():
    state = walked("Who signs the mandate of a zeppelin with helium?")
    assert steps_of(state)[-1] == ("gap", "zeppelin helium")
    assert state.stopped == "nothing_new"


@pytest.mark.parametrize("question", ["!!!", "?" * 3_000, "loss " * 600, "Who? What? And how?"])
def test_any_question_ends(question):
    state = walked(question)
    assert state.rounds
    assert state.stopped


def test_what_an_unverified_text_cites_is_not_followed():
    kit = Library().kit(RuleBasedPolicy())

    def search(query, seconds):
        result = kit.search(query, seconds)
        chunks = tuple(replace(chunk, trust_class=TrustClass.UNTRUSTED) for chunk in result.chunks)
        return replace(result, chunks=chunks)

    state = run(WorkflowState(question=LEADS_ON, limits=LIMITS), kit._replace(search=search))
    assert [searched.why for searched in state.rounds] == ["question"]


def test_the_rules_decide_from_the_record_as_they_did():
    state = walked(LEADS_ON)
    recorded = gathering_of(state, RuleBasedPolicy.name, 8)
    other = recorded._replace(rounds=(recorded.rounds[0], recorded.rounds[1]._replace(query="another")))

    assert changed_decision(recorded, state.results) == ""
    assert changed_decision(other, state.results[:2]) == (
        "instead of search 2 the rules would now make another one (citation)"
    )
    assert changed_decision(other._replace(policy="model"), state.results[:2]) == ""
    assert {chunk.chunk_id for chunk in gathered(state.results, recorded.picks).chunks} >= {
        "OPS-SOP-001",
        "OPS-SOP-002",
    }
