"""The arguments of the tools: read leniently; a refusal says what to send instead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.json_schema import SkipJsonSchema

from context_engine.errors import InvalidRequest, nearest

LEAST_TOKENS: Final = 256
MOST_TOKENS: Final = 7000
"""Both forms of an answer, text and structured, hold the passages: twice this and the rest stay below 25,000."""

_MOST_PROBLEMS: Final = 5

A = TypeVar("A", bound=BaseModel)
Nothing = SkipJsonSchema[None]
"""A value that may be null without the schema saying so: clients read one type of each argument."""


def _written_day(value: Any) -> Any:
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("write the day as 2025-06-30") from None


Words = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Day = Annotated[date, BeforeValidator(_written_day)]
Tokens = Annotated[int, Field(ge=LEAST_TOKENS, le=MOST_TOKENS)]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SearchArguments(_Arguments):
    """A question, or the cursor of an answer that goes on."""

    question: Words | Nothing = Field(
        None, description="The question in full words, in the language of the documents. Needed unless cursor is given."
    )
    query: Words | Nothing = Field(
        None, description="The same as question, for clients that call it so; the text of the answer is JSON then."
    )
    domain: Name | Nothing = Field(
        None, description="The domain to search, as `domains` lists it; may be left out where there is only one."
    )
    top_k: Annotated[int, Field(ge=1, le=50)] = Field(8, description="Most passages.")
    detail: Literal["brief", "full"] = Field(
        "brief",
        description="brief: passages with what is needed to cite and judge them. full: also their metadata, scores and "
        "provenance, and what each source did.",
    )
    persona: Name | Nothing = Field(
        None, description="A profile of search settings, as `domains` lists them; usually left out."
    )
    filters: dict[str, Any] | str | Nothing = Field(
        None,
        description="Conditions on metadata, such as 'doc_type=sop_document; year>=2024' or {\"year_gte\": 2024}.",
    )
    as_of: Day | Nothing = Field(
        None, description="The day the answer must be true for, such as 2025-06-30; left out: today."
    )
    max_tokens: Tokens = Field(
        4000, description="Most tokens of the passages; what does not fit is given by `cursor` or by `fetch`."
    )
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=200)] | Nothing = Field(
        None, description="`cursor` of the answer before: gives the passages that did not fit into it."
    )


class FetchArguments(_Arguments):
    """Which passage or document is wanted."""

    id: Id | Nothing = Field(None, description="`id` of a result of `search`; names domain, source and passage.")
    chunk_id: Id | Nothing = Field(None, description="`chunk_id` of a passage, in place of id.")
    document_id: Id | Nothing = Field(
        None, description="`document_id` of a result: gives the whole document, in parts where it is long."
    )
    domain: Name | Nothing = Field(
        None, description="The domain of chunk_id or document_id; may be left out where there is only one."
    )
    source: Name | Nothing = Field(
        None, description="The source of chunk_id or document_id; left out, every source of the domain is looked in."
    )
    version: Name | Nothing = Field(
        None, description="The version of document_id; left out, the one that came into force last."
    )
    max_tokens: Tokens = Field(MOST_TOKENS, description="Most tokens of the text; the rest is given by `cursor`.")
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=200)] | Nothing = Field(
        None, description="`cursor` of the answer before, with the same other arguments: gives the text after it."
    )


class ExplainArguments(_Arguments):
    """Whose account is wanted."""

    search_id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        description="`search_id` of an answer of `search`."
    )


class DomainsArguments(_Arguments):
    """Nothing: the list is the caller's."""


def read_arguments(model: type[A], arguments: Mapping[str, Any] | None) -> A:
    """Return the arguments of a call; null and "" stand for what is left out.

    Raises:
        InvalidRequest: some cannot be used; says which, why, and what to send.
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
    """Return one problem with the argument's name; never the value, which may be long or secret."""
    name = str(error["loc"][0])[:100] if error["loc"] else "arguments"
    if error["type"] == "extra_forbidden":
        return f"there is no argument {name!r}.{nearest(name, model.model_fields)}"
    if error["type"] == "missing":
        return f"{name} is missing: {model.model_fields[name].description}"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}: {message[:300]}"
