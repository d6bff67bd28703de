"""Replays a recorded workflow from its record and the records of its searches; no source, model or clock is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from context_engine.answer.gathering import Gathering, SearchRound
from context_engine.core.models import SearchResult
from context_engine.jobs.rules import RuleBasedPolicy
from context_engine.jobs.workflow import NextSearch, NextStep, Stop, Why, WorkflowState, with_round


def replayed(recorded: Gathering, results: Sequence[SearchResult]) -> WorkflowState:
    """Return the state in which a recorded workflow ended.

    Args:
        results: of the recorded searches, one for each round, in order.
    """
    state = _begun(recorded)
    for searched, result in zip(recorded.rounds, results, strict=True):
        state = _again(state, searched, result)
    return replace(state, step=Stop(recorded.stopped))


def changed_decision(recorded: Gathering, results: Sequence[SearchResult]) -> str:
    """Return which recorded decision the rules would now make otherwise, for people; "" if none, or a model decided.

    Args:
        results: as for `replayed`.
    """
    if recorded.policy != RuleBasedPolicy.name:
        return ""
    policy, state = RuleBasedPolicy(), _begun(recorded)
    for number, (searched, result) in enumerate(zip(recorded.rounds, results, strict=True), start=1):
        if number > 1 and (step := policy.decide(state)) != _step_of(searched):
            return f"instead of search {number} the rules would now {_told(step)}"
        state = _again(state, searched, result)
    return ""


def _begun(recorded: Gathering) -> WorkflowState:
    return WorkflowState(question=recorded.rounds[0].query, limits=recorded.limits)


def _step_of(searched: SearchRound) -> NextSearch:
    return NextSearch(searched.query, cast(Why, searched.why), searched.cites, searched.hops)


def _again(state: WorkflowState, searched: SearchRound, result: SearchResult) -> WorkflowState:
    return with_round(replace(state, step=_step_of(searched), results=(*state.results, result)))


def _told(step: NextStep) -> str:
    return f"stop ({step.why})" if isinstance(step, Stop) else f"make another one ({step.why})"
