"""The agentic workflow as a graph of LangGraph: the same steps and edges, walked by its runner.

find = finder_of(deployment, asked, runner=run)
answer = answer_question(deployment, asked, principal=principal, caller=caller, finder=find)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypedDict

from context_engine.errors import MissingExtra
from context_engine.jobs.workflow import EDGES, NEXT, NODES, Kit, Node, WorkflowState
from context_engine.jobs.workflow import START as FIRST

try:
    from langgraph.graph import END, START, StateGraph
except ImportError as error:
    raise MissingExtra("the LangGraph workflow", "langgraph") from error

_NODES_A_ROUND: Final = len(NODES)


class WorkflowChannel(TypedDict):
    """The one channel of the graph: the frozen state of the workflow."""

    workflow: WorkflowState


def workflow_graph(kit: Kit) -> Any:
    """Return the compiled graph of a workflow: invoke it with `{"workflow": WorkflowState(...)}`.

    Args:
        kit: what its steps work with; each run needs one of its own, as it holds the clock of the run.
    """
    graph: Any = StateGraph(WorkflowChannel)
    for name, step in NODES.items():
        graph.add_node(name, _node(step, kit))
    graph.add_edge(START, FIRST)
    for name, following in NEXT.items():
        graph.add_conditional_edges(name, _edge(EDGES[name]), {following: following, "end": END})
    return graph.compile()


def run(state: WorkflowState, kit: Kit) -> WorkflowState:
    """Return the state after the last step, as `context_engine.jobs.workflow.run` does.

    Raises:
        ContextEngineError: as there.
    """
    most = _NODES_A_ROUND * (state.limits.rounds + 1)
    walked: WorkflowChannel = workflow_graph(kit).invoke({"workflow": state}, {"recursion_limit": most})
    return walked["workflow"]


def _node(
    step: Callable[[WorkflowState, Kit], WorkflowState], kit: Kit
) -> Callable[[WorkflowChannel], WorkflowChannel]:
    return lambda channel: {"workflow": step(channel["workflow"], kit)}


def _edge(edge: Callable[[WorkflowState], Node]) -> Callable[[WorkflowChannel], Node]:
    return lambda channel: edge(channel["workflow"])
