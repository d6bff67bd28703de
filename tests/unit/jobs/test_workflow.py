"""A workflow keeps its limits whatever its policy decides, only ever adds to its state, and replays from its record."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.answer.gathering import (
    Pick,
    RunLimits,
    SearchRound,
    gathered,
    in_turns,
    keys_of,
    read_gathering,
)
from context_engine.core.models import Decision, Status
from context_engine.errors import AllSourcesFailed, ChatModelError, CostLimitReached, InvalidRequest
from context_engine.jobs.rules import replayed
from context_engine.jobs.workflow import EDGES, NODES, Kit, NextSearch, NextStep, Stop, WorkflowState, gathering_of, run
from tests.unit.jobs.library import TEXTS, Library

QUESTION = "Who signs the mandate, and when does it end?"
WORDS = sorted({word for text in TEXTS.values() for word in text.split()})


class RandomPolicy:
    """Decides by chance: searches, repeats itself, follows citations too far, stops, fails."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def decide(self, state: WorkflowState) -> NextStep:
        roll = self._chance.random()
        if roll < 0.05:
            return Stop("complete")
        if roll < 0.08:
            raise CostLimitReached("spent", setting="cost_limit_request", currency="EUR", limit="1", used="1", cost="1")
        if roll < 0.1:
            raise ChatModelError("the model is down")
        query = " ".join(self._chance.choices(WORDS, k=self._chance.randint(0, 4)))
        return NextSearch(query, "model", self._chance.choice(["", "OPS-SOP-001"]), self._chance.randint(0, 3))


class Fixed:
    """Makes the given decisions one after the other, then stops."""

    name = "fixed"

    def __init__(self, *steps: NextStep) -> None:
        self._steps = iter(steps)

    def decide(self, state: WorkflowState) -> NextStep:
        return next(self._steps, Stop("complete"))


class Spent:
    """Has no money left."""

    name = "spent"

    def decide(self, state: WorkflowState) -> NextStep:
        raise CostLimitReached("spent", setting="cost_limit_request", currency="EUR", limit="1", used="1", cost="1")


def states_of(state: WorkflowState, kit: Kit) -> list[WorkflowState]:
    """Every state of a run, in order."""
    states, node = [state], "plan"
    while node != "end":
        states.append(NODES[node](states[-1], kit))
        node = EDGES[node](states[-1])
    return states


def check_laws(seed: int, limits: RunLimits, pace: float) -> None:
    library, chance = Library(), random.Random(seed)
    kit = library.kit(RandomPolicy(seed), lasts=lambda: chance.random() * pace)
    states = states_of(WorkflowState(question=QUESTION, limits=limits), kit)

    for before, after in pairwise(states):
        assert after.rounds[: len(before.rounds)] == before.rounds
        assert after.results[: len(before.results)] == before.results
    last = states[-1]
    assert last.stopped
    assert len(library.asked) == len(last.rounds) <= limits.rounds
    assert all(0.0 < seconds <= limits.deadline_s for _, seconds in library.asked)
    assert all(searched.hops <= limits.hops for searched in last.rounds)
    assert library.read == [searched.search_id for searched in last.rounds]
    if last.rounds:
        recorded = gathering_of(last, "random", 8)
        again = read_gathering(recorded.facts(), recorded.words())
        assert replayed(again, last.results) == last
        assert gathering_of(replayed(again, last.results), "random", 8) == recorded


LIMITS = st.builds(RunLimits, st.integers(1, 6), st.integers(0, 2), st.floats(0.1, 20.0))


@given(st.integers(0, 2**32), LIMITS, st.floats(0.0, 10.0))
@settings(max_examples=20)
def test_no_policy_exceeds_the_limits_and_replay_gives_the_same_state(
    seed: int, limits: RunLimits, pace: float
) -> None:
    check_laws(seed, limits, pace)


@pytest.mark.slow
@given(st.integers(0, 2**32), LIMITS, st.floats(0.0, 10.0))
@settings(max_examples=1000, deadline=None)
def test_a_thousand_random_policies(seed: int, limits: RunLimits, pace: float) -> None:
    check_laws(seed, limits, pace)


def test_what_a_budget_leaves_ends_a_workflow():
    library = Library()
    state = run(WorkflowState(question=QUESTION, limits=RunLimits()), library.kit(Spent()))
    assert (state.stopped, len(library.asked)) == ("budget", 1)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (NextSearch("mandate", "model"), "nothing_new"),
        (NextSearch("desk", "model", hops=2), "hops"),
        (NextSearch(" ", "model"), "policy_failed"),
        (NextSearch("x" * 2_001, "model"), "policy_failed"),
    ],
)
def test_a_decision_that_cannot_be_carried_out_ends_a_workflow(step, why):
    state = run(WorkflowState(question="mandate", limits=RunLimits(hops=1)), Library().kit(Fixed(step)))
    assert (len(state.rounds), state.stopped) == (1, why)


def test_the_first_search_is_made_however_late_it_is():
    library = Library()
    library.now = 99.0
    state = run(WorkflowState(question="mandate", limits=RunLimits(deadline_s=0.5)), library.kit(Fixed()))
    assert (library.asked, state.stopped) == ([("mandate", 0.5)], "deadline")


def failing(kit: Kit, after: int) -> Kit:
    def search(query: str, seconds: float):
        if len(done) == after:
            raise AllSourcesFailed("none answered")
        done.append(query)
        return kit.search(query, seconds)

    done: list[str] = []
    return kit._replace(search=search)


def test_the_first_search_may_fail_and_a_later_one_ends_the_workflow():
    desk = NextSearch("desk", "model")
    with pytest.raises(AllSourcesFailed):
        run(WorkflowState(question=QUESTION, limits=RunLimits()), failing(Library().kit(Fixed(desk)), 0))
    state = run(WorkflowState(question=QUESTION, limits=RunLimits()), failing(Library().kit(Fixed(desk)), 1))
    assert (len(state.rounds), len(state.results), state.stopped) == (1, 1, "search_failed")


@pytest.mark.parametrize(
    "limits",
    [RunLimits(rounds=0), RunLimits(rounds=21), RunLimits(hops=3), RunLimits(deadline_s=0.0)],
)
def test_limits_out_of_range_are_refused(limits):
    with pytest.raises(InvalidRequest, match="of a workflow must be"):
        limits.checked()


A, B, C = ("s", "a"), ("s", "b"), ("s", "c")


def test_searches_give_their_passages_in_turns_each_once():
    assert in_turns([[A, B], [A, C], [B]], 3) == (Pick(0, A), Pick(2, B), Pick(1, C))
    assert in_turns([[A, B], [C]], 2) == (Pick(0, A), Pick(1, C))
    assert in_turns([], 2) == ()


def test_after_a_citation_the_passages_of_the_cited_document_are_read():
    result = Library().search("review of a loss", 1.0)
    assert [key[1] for key in keys_of(result, "")] == ["OPS-SOP-001", "OPS-SOP-002"]
    assert [key[1] for key in keys_of(result, "ops-sop-001")] == ["OPS-SOP-001"]
    assert [key[1] for key in keys_of(result, "OPS-SOP-009")] == ["OPS-SOP-001", "OPS-SOP-002"]
    assert keys_of(replace(result, decision=Decision.OUT_OF_SCOPE), "") == ()


def test_a_gathered_result_is_as_good_as_its_searches():
    library = Library()
    first, second = library.search("mandate", 1.0), library.search("loss", 1.0)
    none = replace(first, chunks=(), decision=Decision.NO_MATCH)
    picks = [Pick(1, ("ops", "OPS-SOP-001"))]

    assert [(chunk.rank, chunk.chunk_id) for chunk in gathered([none, second], picks).chunks] == [(1, "OPS-SOP-001")]
    assert gathered([none, second], picks).decision is Decision.ANSWERED
    assert gathered([none, second], []).decision is Decision.NO_MATCH
    assert gathered([replace(first, decision=Decision.INCOMPLETE), second], picks).decision is Decision.INCOMPLETE
    assert gathered([first, replace(second, status=Status.DEGRADED)], picks).status is Status.DEGRADED


def test_the_parts_of_a_question_are_known_from_its_searches():
    state = run(
        WorkflowState(question=QUESTION, limits=RunLimits()),
        Library().kit(Fixed(NextSearch("desk signs", "part"))),
    )
    gathering = gathering_of(state, "fixed", 8)
    assert gathering.parts == ("desk signs",)
    assert isinstance(gathering.rounds[0], SearchRound)
