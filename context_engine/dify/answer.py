"""What the tools give back: a text, the whole as JSON, and variables for the next nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from context_engine.context import NOTHING_FOUND, ApproxTokenCounter, from_result
from context_engine.context.render import Form
from context_engine.dify.node_output import node_records
from context_engine.dify.size import fitted
from context_engine.models import SearchResult

__all__ = ["DEMO_LABEL", "Answer", "search_answer"]

DEMO_LABEL: Final = "DEMO: an invented bank, none of it is true."
_COUNTER: Final = ApproxTokenCounter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The messages of one tool call, each small enough for Dify.

    Attributes:
        text: never empty.
        json: the whole result.
        variables: name -> value, as the tool's output schema declares them.
    """

    text: str
    json: Mapping[str, Any]
    variables: Mapping[str, Any]


def search_answer(result: SearchResult, *, form: Form = "markdown", demo: bool = False) -> Answer:
    """Return a search's answer.

    Args:
        result: what was found; its `context_max_tokens` is the budget of the text.
        form: of the text.
        demo: the knowledge is the fictitious bank's, and everything says so.
    """
    context = from_result(result, counter=_COUNTER, form=form).text or NOTHING_FOUND
    if demo:
        context = f"{DEMO_LABEL}\n\n{context}"
    whole = result.to_dict(demo=demo)
    told = [DEMO_LABEL] * demo + list(result.warnings)
    parts = {
        "context": fitted("context", context),
        "result": fitted("result", node_records(result)),
        "json": fitted("json", whole),
        "sources": fitted("sources", [_source(source) for source in whole["sources"]]),
        "trace": fitted("trace", _trace(result, whole)),
    }
    told += [part.cut for part in parts.values() if part.cut is not None]
    warnings = fitted("warnings", told).value or []
    text = parts["context"].value or NOTHING_FOUND
    return Answer(
        text=text,
        json={**(parts["json"].value or {}), "warnings": warnings},
        variables={
            "result": parts["result"].value or [],
            "context": text,
            "status": str(result.status),
            "decision": str(result.decision),
            "sources": parts["sources"].value or [],
            "warnings": warnings,
            "search_id": result.search_id,
            "trace": parts["trace"].value or {},
        },
    )


def _source(status: Mapping[str, Any]) -> dict[str, Any]:
    error = status["error"]
    return {
        "source_id": status["source_id"],
        "title": status["title"],
        "source_type": status["source_type"],
        "authority_tier": status["authority_tier"],
        "state": status["state"],
        "chunks": status["chunks"],
        "elapsed_ms": status["elapsed_ms"],
        "error": error["message"] if error else None,
        "notes": list(status["notes"]),
    }


def _trace(result: SearchResult, whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts and times: a workflow's tool node drops log messages."""
    outcomes = [str(fate.outcome) for fate in result.fates]
    return {
        "search_id": result.search_id,
        "caller": whole["caller"],
        "stages": whole["stages"],
        "candidates": {name: outcomes.count(name) for name in ("returned", "merged", "dropped")},
        "swaps": result.swap_count,
    }
