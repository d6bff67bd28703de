"""A workflow: plan, search, read, check, and again or stop, as typed steps over a frozen state.

The steps and the edges between them are plain functions; `run` walks them, and any other runner of graphs can. A
policy decides what is searched next. The limits hold whatever a policy decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

from context_engine.answer.gathering import Gathering, RunLimits, SearchRound, in_turns, keys_of
from context_engine.answer.writing import ModelCall
from context_engine.core.models import RankedChunk, SearchResult
from context_engine.errors import AuditUnavailable, ChatModelError, ContextEngineError, CostLimitReached

AGENTIC: Final = "agentic"
Why = Literal["question", "part", "citation", "gap", "translation", "model"]
_MOST_QUERY: Final = 2_000


class NextSearch(NamedTuple):
    """A decision to search.

    Attributes:
        query: what is searched, 1 to 2,000 characters.
        cites: the document or clause that a passage cites and that is searched; "" without one.
        hops: citations between the question and this search.
    """

    query: str
    why: Why
    cites: str = ""
    hops: int = 0


class Stop(NamedTuple):
    """A decision to stop.

    Attributes:
        why: complete, nothing_new, rounds, hops, deadline, budget, policy_failed or search_failed.
    """

    why: str


NextStep = NextSearch | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowState:
    """Everything that a workflow knows; rounds and results are only ever added.

    Attributes:
        question: as searched first.
        step: what was decided last; None at the beginning.
        rounds: the searches whose passages were read.
        results: one of each search, in the order of the rounds; before it is read, one more than rounds.
    """

    question: str
    limits: RunLimits
    step: NextStep | None = None
    rounds: tuple[SearchRound, ...] = ()
    results: tuple[SearchResult, ...] = ()

    @property
    def stopped(self) -> str:
        """Why the workflow ended; "" while it goes on."""
        return self.step.why if isinstance(self.step, Stop) else ""

    def passages(self, number: int) -> tuple[RankedChunk, ...]:
        """Return the passages that were read in a round, best first."""
        keys = dict.fromkeys(self.rounds[number].keys)
        return tuple(chunk for chunk in self.results[number].chunks if (chunk.source_id, chunk.chunk_id) in keys)


class Policy(Protocol):
    """Decides what is searched after the question.

    Attributes:
        name: for the record.
    """

    name: str

    def decide(self, state: WorkflowState) -> NextStep:
        """Return the next search, or why there is none.

        Raises:
            ChatModelError: the model that decides failed.
            CostLimitReached: asking it would cost more than a limit leaves.
        """
        ...


class Kit(NamedTuple):
    """What the steps work with.

    Attributes:
        search: searches a query within some seconds, and records it.
        read: records that the passages of a result are read.
        seconds: how long the workflow has run.
    """

    policy: Policy
    search: Callable[[str, float], SearchResult]
    read: Callable[[SearchResult], object]
    seconds: Callable[[], float]


Node = Literal["plan", "search", "read", "check", "end"]


def plan(state: WorkflowState, kit: Kit) -> WorkflowState:
    """Decide on the next search; the first one is for the question itself."""
    if not state.rounds:
        return replace(state, step=NextSearch(state.question, "question"))
    try:
        step = kit.policy.decide(state)
    except CostLimitReached:
        step = Stop("budget")
    except ChatModelError:
        step = Stop("policy_failed")
    late = kit.seconds() >= state.limits.deadline_s and isinstance(step, NextSearch)
    return replace(state, step=_refused(state, step) or (Stop("deadline") if late else step))


def search(state: WorkflowState, kit: Kit) -> WorkflowState:
    """Carry out the search. The first one may fail; a later one that fails ends the workflow with what is found."""
    assert isinstance(state.step, NextSearch)
    left = state.limits.deadline_s - (kit.seconds() if state.results else 0.0)
    if left <= 0.0:
        return replace(state, step=Stop("deadline"))
    try:
        result = kit.search(state.step.query, left)
    except AuditUnavailable:
        raise
    except ContextEngineError:
        if not state.results:
            raise
        return replace(state, step=Stop("search_failed"))
    return replace(state, results=(*state.results, result))


def read(state: WorkflowState, kit: Kit) -> WorkflowState:
    """Read the passages of the search; after a citation, those of the cited document."""
    kit.read(state.results[-1])
    return with_round(state)


def check(state: WorkflowState, kit: Kit) -> WorkflowState:
    """Stop at a limit."""
    if len(state.rounds) >= state.limits.rounds:
        return replace(state, step=Stop("rounds"))
    return replace(state, step=Stop("deadline")) if kit.seconds() >= state.limits.deadline_s else state


def with_round(state: WorkflowState) -> WorkflowState:
    """Return the state after its newest result was read for its step."""
    assert isinstance(state.step, NextSearch)
    result = state.results[-1]
    keys = keys_of(result, state.step.cites)
    return replace(state, rounds=(*state.rounds, SearchRound(*state.step, result.search_id, keys)))


def _refused(state: WorkflowState, step: NextStep) -> Stop | None:
    """Return why a decision cannot be carried out, or None."""
    if isinstance(step, Stop):
        return None
    if not 0 < len(step.query.strip()) <= _MOST_QUERY or step.hops < 0:
        return Stop("policy_failed")
    if step.hops > state.limits.hops:
        return Stop("hops")
    return Stop("nothing_new") if step.query in {done.query for done in state.rounds} else None


def after(name: Node) -> Callable[[WorkflowState], Node]:
    """Return the edge that leads to one step, unless the workflow has stopped."""
    return lambda state: "end" if state.stopped else name


NODES: Final[Mapping[Node, Callable[[WorkflowState, Kit], WorkflowState]]] = MappingProxyType(
    {"plan": plan, "search": search, "read": read, "check": check}
)
"""The steps of a workflow by name."""

NEXT: Final[Mapping[Node, Node]] = MappingProxyType(
    {"plan": "search", "search": "read", "read": "check", "check": "plan"}
)
"""The step after each step, while the workflow goes on."""

EDGES: Final[Mapping[Node, Callable[[WorkflowState], Node]]] = MappingProxyType(
    {node: after(following) for node, following in NEXT.items()}
)
"""What leads from each step to the next one, or to the end."""

START: Final[Node] = "plan"


def run(state: WorkflowState, kit: Kit) -> WorkflowState:
    """Return the state after the last step.

    Raises:
        AuditUnavailable: a search or a reading could not be recorded.
        ContextEngineError: the first search failed; as `Engine.search`.
    """
    node = START
    while node != "end":
        state = NODES[node](state, kit)
        node = EDGES[node](state)
    return state


def gathering_of(state: WorkflowState, policy: str, most: int, calls: Sequence[ModelCall] = ()) -> Gathering:
    """Return what an answer takes from a workflow: at most `most` passages, in turns of its searches.

    Args:
        policy: its name.
        calls: what a model was asked to decide.
    """
    picks = in_turns([searched.keys for searched in state.rounds], most)
    return Gathering(AGENTIC, policy, state.limits, state.rounds, state.stopped, picks, tuple(calls))
