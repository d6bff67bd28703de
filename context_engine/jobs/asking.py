"""Answers a question by the workflow that the request or the settings name, over a deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from context_engine.answer.answering import FindPassages, FoundPassages
from context_engine.answer.asking import Finder, settings_of
from context_engine.answer.contract import AnswerRequest
from context_engine.answer.gathering import RunLimits, gathered
from context_engine.answer.writing import COUNTER, ModelCall, Writer
from context_engine.core.engine import SystemClock
from context_engine.core.models import SearchRequest, SearchResult, Settings
from context_engine.errors import InvalidRequest
from context_engine.jobs.model_policy import ModelPolicy, TranslatingPolicy
from context_engine.jobs.rules import RuleBasedPolicy
from context_engine.jobs.workflow import AGENTIC, Kit, Policy, WorkflowState, gathering_of, run
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer

Runner = Callable[[WorkflowState, Kit], WorkflowState]
_DEADLINE: Final = "deadline_s"


class ChosenPolicy(NamedTuple):
    """A policy with the parts of it that ask a model."""

    policy: Policy
    asking: tuple[ModelPolicy | TranslatingPolicy, ...] = ()

    def calls(self) -> Iterator[ModelCall]:
        """Yield what a model was asked."""
        for each in self.asking:
            yield from each.calls


def finder_of(deployment: Deployment, asked: AnswerRequest, *, runner: Runner = run) -> Finder:
    """Return what finds the passages of an answer as a request or the settings of its domain say.

    Args:
        runner: walks the steps of the workflow.
    """
    return workflow_finder(
        deployment, workflow=asked.workflow, rounds=asked.rounds, compare=asked.compare, runner=runner
    )


def workflow_finder(
    deployment: Deployment,
    *,
    workflow: str | None,
    rounds: int | None,
    compare: bool = False,
    most_s: float | None = None,
    runner: Runner = run,
) -> Finder:
    """Return what finds the passages of an answer by a workflow.

    Args:
        workflow: simple or agentic; None: as the settings of the domain say.
        rounds: most searches, 1 or more; None: as the settings say.
        compare: a comparison is asked for, which needs the result of one search.
        most_s: most seconds for the searches; None: as the settings say.
        runner: as for `finder_of`.

    The finder raises `InvalidRequest` for more rounds than the settings allow, rounds without a workflow that has any,
    or a comparison with a workflow.
    """

    def finder(request: SearchRequest, writer: Writer | None) -> FindPassages | None:
        settings = settings_of(deployment, request)
        if (workflow or settings.workflow) != AGENTIC:
            if rounds is not None:
                raise InvalidRequest("rounds are for the agentic workflow: set workflow to agentic, or leave them out")
            return None
        if compare:
            raise InvalidRequest("a comparison is of one search: leave compare out, or set workflow to simple")
        limits = _limits(settings, rounds, most_s)
        return lambda searched: _found(deployment, searched, limits, _policy(settings, writer), runner)

    return finder


def _limits(settings: Settings, rounds: int | None, most_s: float | None) -> RunLimits:
    if rounds is not None and rounds > settings.workflow_rounds:
        raise InvalidRequest(
            f"rounds may be at most {settings.workflow_rounds} here (workflow_rounds), got {rounds}: ask for fewer"
        )
    most = settings.workflow_rounds if rounds is None else rounds
    seconds = min(settings.workflow_deadline_s, most_s or settings.workflow_deadline_s)
    return RunLimits(most, settings.workflow_hops, seconds).checked()


def _policy(settings: Settings, writer: Writer | None) -> ChosenPolicy:
    """Return the policy that the settings name; without a chat model it is that of the rules."""
    if writer is None:
        return ChosenPolicy(RuleBasedPolicy())
    model = ModelPolicy(writer) if settings.workflow_policy == "model" else None
    inner: Policy = model or RuleBasedPolicy()
    asking = () if model is None else (model,)
    if not settings.workflow_languages:
        return ChosenPolicy(inner, asking)
    translating = TranslatingPolicy(inner, writer, settings.workflow_languages)
    return ChosenPolicy(translating, (translating, *asking))


def _found(
    deployment: Deployment, request: SearchRequest, limits: RunLimits, chosen: ChosenPolicy, runner: Runner
) -> FoundPassages:
    """Run the workflow for a question, and return its passages."""
    engine, clock = deployment.engine, SystemClock()
    started = clock.monotonic()
    most_s = settings_of(deployment, request).deadline_s

    made: list[str] = []  # ids of the searches

    def search(query: str, seconds: float) -> SearchResult:
        late = seconds < float(request.overrides.get(_DEADLINE, most_s))
        overrides = {**request.overrides, _DEADLINE: seconds} if late else request.overrides
        part_of = made[0] if made else request.part_of
        result = engine.search(replace(request, query=query, overrides=overrides, part_of=part_of))
        made.append(result.search_id)
        return result

    def read(result: SearchResult) -> None:
        engine.context(result, counter=COUNTER)
        deployment.kept.keep(request.principal, KeptAnswer(result=result))

    kit = Kit(chosen.policy, search, read, lambda: clock.monotonic() - started)
    state = runner(WorkflowState(question=request.query, limits=limits), kit)
    most = state.results[0].settings.values.stage2_top_k
    gathering = gathering_of(state, chosen.policy.name, most, tuple(chosen.calls()))
    return FoundPassages(gathered(state.results, gathering.picks), gathering)
