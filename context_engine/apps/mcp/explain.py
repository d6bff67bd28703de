"""The `explain` tool: how an answer was made, for the caller who received it."""

from __future__ import annotations

from typing import Final

from context_engine.apps.dify.node_output import inert_values
from context_engine.apps.mcp.arguments import ExplainArguments
from context_engine.apps.mcp.reply import Call, Reply
from context_engine.service.contract.explanation import Explanation
from context_engine.service.explaining.explain import explain as explained
from context_engine.service.explaining.words import explanation_text

_FEWER: Final = (20, 8, 3, 0)
"""Most entries of each list where all of them are too long for a model."""


def explain(call: Call, asked: ExplainArguments) -> Reply:
    """Return how an answer came to be: one of the caller's own, to an operator any that was recorded.

    Raises:
        RecordNotFound: it is neither kept nor recorded, or is somebody else's: these look alike.
        ContextEngineError: see `context_engine.service.explaining.explain`.
    """
    explanation = explained(call.deployment, call.caller, asked.search_id)
    told = Explanation.model_validate(inert_values(explanation.model_dump(mode="json")))
    reply = Reply(told, explanation_text(told))
    for most in _FEWER:
        if reply.fits:
            break
        less = _shortened(told, most)
        reply = Reply(less, explanation_text(less))
    return reply


def _shortened(told: Explanation, most: int) -> Explanation:
    """Return an explanation with the first entries of each list, and the way of no chunk in steps."""
    compared = told.comparison
    if compared is not None:
        changes = {
            name: tuple(
                change.model_copy(update={"steps": (), "because": ()}) for change in getattr(compared, name)[:most]
            )
            for name in ("moved", "entered", "left")
        }
        compared = compared.model_copy(update={**changes, "same": compared.same[:most]})
    lists = ("sources", "shown", "not_shown", "swaps", "settings", "notices", "missing")
    cut = {name: getattr(told, name)[:most] for name in lists}
    return told.model_copy(update={**cut, "comparison": compared})
