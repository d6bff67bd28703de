"""The output of the tools: a text, the full result as JSON, and variables for the next nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from context_engine.apps.dify.dify_json import fitted, plain
from context_engine.apps.dify.node_output import (
    chunk_for_model,
    inert_values,
    missing_sources_warnings,
    node_records,
    subject_missing,
    without_passages,
    without_register,
)
from context_engine.apps.dify.reader_texts import Tongue, reader_text, tongue_of
from context_engine.core.context import NOTHING_FOUND, ApproxTokenCounter, for_a_model, from_result
from context_engine.core.context.render import Form
from context_engine.core.models import Context, SearchResult
from context_engine.core.protocols import Mask

QuestionState = Literal["complete", "needs_subject"]
JsonDetail = Literal["full", "passages", "outcome"]
_IN_THE_RECORD: Final = frozenset({"fates", "swaps", "settings"})
_LEFT_OUT: Final[Mapping[JsonDetail, frozenset[str]]] = {
    "full": frozenset(),
    "passages": _IN_THE_RECORD,
    "outcome": _IN_THE_RECORD | {"chunks"},
}
"""The fields of a search that `json` does not contain; the audit record has them under the search's id."""
DEMO_LABEL: Final = reader_text("demo", "en")
_COUNTER: Final = ApproxTokenCounter()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The messages of one tool call, each small enough for Dify.

    Attributes:
        text: never empty.
        json: the full result, with its texts made safe for a model.
        variables: name -> value, as the tool's output schema declares them. An Answer node prints only texts, so each
            list that a person may want to read also has a text, `NAME_text`.
    """

    text: str
    json: Mapping[str, Any]
    variables: Mapping[str, Any]


def search_answer(
    result: SearchResult,
    *,
    form: Form = "markdown",
    demo: bool = False,
    notices: bool = True,
    register_required: bool = True,
    mask: Mask | None = None,
    read: Callable[..., Context] | None = None,
    tongue: Tongue | None = None,
    question: QuestionState | None = None,
    detail: JsonDetail = "full",
) -> ToolOutput:
    """Return a search's answer.

    Args:
        result: the search result; its `context_max_tokens` is the budget of the text.
        demo: whether the knowledge is the fictitious bank's; every part of the answer is then labelled.
        notices: whether `result` begins with a passage about missing sources if the search is incomplete.
        register_required: whether the decision is `incomplete` if a tier-1 source failed.
        mask: masks personal data if the domain sets `mask_contexts`.
        read: makes and records the text for a model (`Engine.context`). None: the text is only masked.
        tongue: of the sentences for the reader. None: that of the question.
        question: whether it has a subject of its own. If not, no passage is shown, and the text says how to ask. None:
            there is no variable of this name.
        detail: what `json` contains: all, or no fates, swaps and settings, or no chunks either.

    Raises:
        InvalidRequest: the domain requires masking, and no mask is given.
        MaskingError: a masker failed.
        AuditUnavailable: the text could not be recorded and so must not be returned.
    """
    read = read or partial(from_result, mask=mask)
    tongue = tongue or tongue_of(result.query)
    result = without_register(result) if register_required else result
    notice = subject_missing(tongue) if question == "needs_subject" else None
    result = without_passages(result) if notice else result
    context = notice.content if notice else _worded(read(result, counter=_COUNTER, form=form), tongue)
    result = for_a_model(result, mask)
    demo_label = reader_text("demo", tongue)
    if demo:
        context = f"{demo_label}\n\n{context}"
    answer = result.to_dict(demo=demo)
    for name in ("sources", "warnings", "notices"):
        answer[name] = inert_values(answer[name])
    answer["chunks"] = [chunk_for_model(chunk, result.search_id) for chunk in result.chunks]
    warned = [demo_label] * demo + ([notice.content] if notice else [])
    warned += inert_values(missing_sources_warnings(result, tongue)) + answer["warnings"]
    parts = {
        "context": fitted("context", plain(context)),
        "result": fitted("result", plain(node_records(result, notices=notices, tongue=tongue, first=notice))),
        "json": fitted("json", plain({name: answer[name] for name in answer if name not in _LEFT_OUT[detail]})),
        "sources": fitted("sources", plain([_source(source) for source in answer["sources"]])),
        "trace": fitted("trace", plain(_trace(result, answer))),
    }
    warned += [part.cut for part in parts.values() if part.cut is not None]
    warnings = fitted("warnings", plain(warned)).value or []
    text = parts["context"].value or reader_text("nothing_found", tongue)
    variables = {
        "result": parts["result"].value or [],
        "context": text,
        **_outcome(result, parts["sources"].value or [], warnings),
        "trace": parts["trace"].value or {},
        **({"question": question} if question else {}),
    }
    return ToolOutput(text=text, json={**(parts["json"].value or {}), "warnings": warnings}, variables=variables)


def _outcome(result: SearchResult, sources: Sequence[Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Return the variables that say what the sources did and what may be concluded."""
    return {
        "status": str(result.status),
        "decision": str(result.decision),
        "sources": sources,
        "sources_text": lines("sources_text", [_source_line(source) for source in sources]),
        "warnings": warnings,
        "warnings_text": lines("warnings_text", warnings),
        "search_id": result.search_id,
    }


def _worded(context: Context, tongue: Tongue) -> str:
    """Return a context's text; "nothing found" is in the reader's language, and its notes stay English."""
    nothing = reader_text("nothing_found", tongue)
    if not context.text:
        return nothing
    return context.text if context.blocks else context.text.replace(NOTHING_FOUND, nothing, 1)


def lines(name: str, sentences: Sequence[str]) -> str:
    """Return sentences as a bulleted list, small enough for Dify.

    >>> lines("warnings_text", ["one", "two"])
    '- one\\n- two'
    """
    return str(fitted(name, "\n".join(f"- {' '.join(sentence.split())}" for sentence in sentences)).value or "")


def _source_line(source: Mapping[str, Any]) -> str:
    about = f"{source['title'] or source['source_id']} (tier {source['authority_tier']}): {source['state']}"
    if source["state"] in ("ok", "partial"):
        about += f", {source['chunks']} passage{'s' * (source['chunks'] != 1)}"
    return f"{about}. {source['error']}" if source["error"] else about


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


def _trace(result: SearchResult, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts and times, because a workflow's tool node drops log messages."""
    outcomes = [str(fate.outcome) for fate in result.fates]
    return {
        "search_id": result.search_id,
        "caller": answer["caller"],
        "stages": answer["stages"],
        "candidates": {name: outcomes.count(name) for name in ("returned", "merged", "dropped")},
        "swaps": result.swap_count,
    }
