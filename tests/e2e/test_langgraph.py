"""The workflow walked by LangGraph ends in the same state as walked by its own loop."""

from __future__ import annotations

import random

import pytest

from context_engine.answer.gathering import RunLimits
from context_engine.errors import AllSourcesFailed
from context_engine.jobs import workflow
from context_engine.jobs.rules import RuleBasedPolicy
from context_engine.jobs.workflow import Kit, Policy, WorkflowState
from tests.unit.jobs.library import Library
from tests.unit.jobs.test_workflow import RandomPolicy

pytest.importorskip("langgraph")
from context_engine.apps.integrations.langgraph import run, workflow_graph

pytestmark = pytest.mark.slow
QUESTIONS = (
    "Who signs the mandate?",
    "Who signs the mandate and when is a loss reported?",
    "What is due after the review of an incident?",
    "When does a mandate of a zeppelin end?",
)


def told(state: WorkflowState) -> list[object]:
    """A state without the ids of its searches, which are new in each run."""
    rounds = [searched._replace(search_id="") for searched in state.rounds]
    chunks = [[chunk.chunk_id for chunk in result.chunks] for result in state.results]
    return [state.question, state.step, rounds, chunks]


def both(question: str, limits: RunLimits, policy: type[Policy], seed: int = 0) -> None:
    def kit() -> Kit:
        chance = random.Random(seed)
        made = RandomPolicy(seed) if policy is RandomPolicy else RuleBasedPolicy()
        return Library().kit(made, lasts=chance.random)

    state = WorkflowState(question=question, limits=limits)
    assert told(run(state, kit())) == told(workflow.run(state, kit()))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "limits",
    [RunLimits(), RunLimits(rounds=1), RunLimits(rounds=20, hops=2), RunLimits(deadline_s=0.5)],
)
def test_the_rules_lead_to_the_same_state(question, limits):
    both(question, limits, RuleBasedPolicy)


def test_random_policies_lead_to_the_same_state():
    for seed in range(100):
        both(
            QUESTIONS[1],
            RunLimits(rounds=1 + seed % 6, hops=seed % 3, deadline_s=1.0 + seed % 5),
            RandomPolicy,
            seed,
        )


def test_the_error_of_the_first_search_is_raised():
    def search(query, seconds):
        raise AllSourcesFailed("none answered")

    with pytest.raises(AllSourcesFailed):
        run(
            WorkflowState(question=QUESTIONS[0], limits=RunLimits()),
            Library().kit(RuleBasedPolicy())._replace(search=search),
        )


def test_the_graph_has_the_steps_of_the_workflow():
    names = set(workflow_graph(Library().kit(RuleBasedPolicy())).get_graph().nodes)
    assert names == {"__start__", "__end__", *workflow.NODES}
