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
"""Most entries of each list, if the full explanation is too long for a model."""


def explain(call: Call, asked: ExplainArguments) -> Reply:
    """Explain one of the caller's answers, or for an operator any recorded answer.

    Raises:
        RecordNotFound: the answer is unknown, or belongs to another caller; the two are deliberately
            indistinguishable.
        ContextEngineError: see `context_engine.service.explaining.explain`.
    """
    full = explained(call.deployment, call.caller, asked.search_id)
    explanation = Explanation.model_validate(inert_values(full.model_dump(mode="json")))
    reply = Reply(explanation, explanation_text(explanation))
    for most in _FEWER:
        if reply.fits:
            break
        less = _shortened(explanation, most)
        reply = Reply(less, explanation_text(less))
    return reply


def _shortened(explanation: Explanation, most: int) -> Explanation:
    """Return the explanation with only the first entries of each list and without the steps of chunks."""
    compared = explanation.comparison
    if compared is not None:
        changes = {
            name: tuple(
                change.model_copy(update={"steps": (), "because": ()}) for change in getattr(compared, name)[:most]
            )
            for name in ("moved", "entered", "left")
        }
        compared = compared.model_copy(update={**changes, "same": compared.same[:most]})
    lists = ("sources", "shown", "not_shown", "swaps", "settings", "notices", "missing")
    cut = {name: getattr(explanation, name)[:most] for name in lists}
    return explanation.model_copy(update={**cut, "comparison": compared})
