"""The arguments of the tools: parsed leniently; errors say what to send instead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.json_schema import SkipJsonSchema

from context_engine.errors import InvalidRequest, nearest

LEAST_TOKENS: Final = 256
MOST_TOKENS: Final = 7000
"""An answer holds the passages twice, as text and as structured content: twice this and the rest stay below 25,000."""

_MOST_PROBLEMS: Final = 5
A = TypeVar("A", bound=BaseModel)
Nothing = SkipJsonSchema[None]
"""Null, but not in the schema: clients expect one type for each argument."""


def _written_day(value: Any) -> Any:
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("write the day as 2025-06-30") from None


Words = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=200)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Day = Annotated[date, BeforeValidator(_written_day)]
Tokens = Annotated[int, Field(ge=LEAST_TOKENS, le=MOST_TOKENS)]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SearchArguments(_Arguments):
    """A question, or a cursor that continues an answer."""

    question: Words | Nothing = Field(
        None, description="The question in full words, in the language of the documents. Needed unless cursor is given."
    )
    query: Words | Nothing = Field(
        None, description="Alias of question, for clients that use this name; the text of the answer is then JSON."
    )
    domain: Name | Nothing = Field(
        None, description="The domain to search, from `domains`; may be omitted if there is only one."
    )
    top_k: Annotated[int, Field(ge=1, le=50)] = Field(8, description="Most passages.")
    detail: Literal["brief", "full"] = Field(
        "brief",
        description="brief: passages with what is needed to cite and judge them. full: also their metadata, scores and "
        "provenance, and the outcome of each source.",
    )
    persona: Name | Nothing = Field(None, description="A profile of search settings, from `domains`; usually omitted.")
    namespaces: Names | Nothing = Field(
        None, description="Search only these namespaces or sources of the domain, from `domains`; usually omitted."
    )
    filters: dict[str, Any] | str | Nothing = Field(
        None,
        description="Conditions on metadata, such as 'doc_type=sop_document; year>=2024' or {\"year_gte\": 2024}.",
    )
    as_of: Day | Nothing = Field(
        None, description="The day for which the answer must hold, such as 2025-06-30; default: today."
    )
    max_tokens: Tokens = Field(
        4000, description="Most tokens of the passages; get what does not fit with `cursor` or `fetch`."
    )
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=200)] | Nothing = Field(
        None, description="`cursor` of the previous answer: returns the passages that did not fit into it."
    )


class AnswerArguments(_Arguments):
    """The question to answer."""

    question: Words = Field(description="The whole question, in full words, with its subject.")
    domain: Name | Nothing = Field(
        None, description="The domain to search, from `domains`; may be omitted if there is only one."
    )
    persona: Name | Nothing = Field(None, description="A profile of search settings, from `domains`; usually omitted.")
    namespaces: Names | Nothing = Field(
        None, description="Search only these namespaces or sources of the domain, from `domains`; usually omitted."
    )
    filters: dict[str, Any] | str | Nothing = Field(None, description="Conditions on metadata, as in `search`.")
    as_of: Day | Nothing = Field(
        None, description="The day for which the answer must hold, such as 2025-06-30; default: today."
    )
    workflow: Literal["simple", "agentic"] | Nothing = Field(
        None,
        description="`agentic` if the answer stands in several documents: it searches again for parts of the question "
        "and for what passages cite. Usually omitted.",
    )
    rounds: Annotated[int, Field(strict=True, ge=1, le=20)] | Nothing = Field(
        None, description="Most searches of the agentic workflow; usually omitted."
    )


class FetchArguments(_Arguments):
    """The passage or document to read."""

    id: Id | Nothing = Field(None, description="`id` of a result of `search`; identifies domain, source and passage.")
    chunk_id: Id | Nothing = Field(None, description="`chunk_id` of a passage, instead of id.")
    document_id: Id | Nothing = Field(
        None, description="`document_id` of a result: returns the whole document, in parts if it is long."
    )
    domain: Name | Nothing = Field(
        None, description="The domain of chunk_id or document_id; may be omitted if there is only one."
    )
    source: Name | Nothing = Field(
        None, description="The source of chunk_id or document_id; default: all sources of the domain."
    )
    version: Name | Nothing = Field(
        None, description="The version of document_id; default: the one that came into force last."
    )
    max_tokens: Tokens = Field(MOST_TOKENS, description="Most tokens of the text; get the rest with `cursor`.")
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=200)] | Nothing = Field(
        None, description="`cursor` of the previous answer, with the same other arguments: returns the text after it."
    )


class ExplainArguments(_Arguments):
    """The answer to explain."""

    search_id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        description="`search_id` of an answer of `search`."
    )


class FeedbackArguments(_Arguments):
    """The judgement of a person."""

    search_id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        description="`search_id` of the answer of `search` or `answer`."
    )
    thumb: Literal["up", "down"] = Field(description="up: it answers the question. down: it does not.")
    id: Id | Nothing = Field(None, description="`id` of the result that is judged; default: the whole answer.")


JobId = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class JobStartArguments(_Arguments):
    """The job to start."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="What the job is about, in a few words."
    )
    domain: Name | Nothing = Field(
        None, description="The domain of the job, from `domains`; may be omitted if there is only one."
    )


class JobAddArguments(_Arguments):
    """The note to add to a job."""

    job_id: JobId = Field(description="`job_id` of the job, from `job_start` or `job_show`.")
    kind: Literal["constraint", "risk", "finding"] = Field(
        description="constraint: a rule for all later work; risk: what may go wrong; finding: what was found."
    )
    note: Annotated[str, StringConstraints(min_length=1, max_length=5_000)] = Field(
        description="The note, in one or two sentences."
    )


class JobShowArguments(_Arguments):
    """The job to show."""

    job_id: JobId | Nothing = Field(None, description="`job_id` of the job; omitted: your jobs are listed.")


class DomainsArguments(_Arguments):
    """No arguments."""


def read_arguments(model: type[A], arguments: Mapping[str, Any] | None) -> A:
    """Return the arguments of a call; null and "" count as omitted.

    Raises:
        InvalidRequest: invalid arguments; the message says which, why, and what to send.
    """
    values = {name: value for name, value in (arguments or {}).items() if value is not None and value != ""}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raw = error.errors(include_url=False, include_context=False)
        errors = [error for error in raw if error["type"] != "none_required"]
    more = f" (and {len(errors) - _MOST_PROBLEMS} more)" if len(errors) > _MOST_PROBLEMS else ""
    problems = [_problem(model, error) for error in errors[:_MOST_PROBLEMS]]
    raise InvalidRequest("; ".join(dict.fromkeys(problems)) + more)


def _problem(model: type[BaseModel], error: Any) -> str:
    """Return a problem with the argument's name, but not its value, which may be long or secret."""
    name = str(error["loc"][0])[:100] if error["loc"] else "arguments"
    if error["type"] == "extra_forbidden":
        return f"there is no argument {name!r}.{nearest(name, model.model_fields)}"
    if error["type"] == "missing":
        return f"{name} is missing: {model.model_fields[name].description}"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}: {message[:300]}"
