"""What was wrong with each field of a request, in sentences a person can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from context_engine.apps.server.problems import ProblemField
from context_engine.errors import closest
from context_engine.secrecy import hide_in_error
from context_engine.settings.messages import allowed_values, field_problem

_MOST: Final = 20
_LONGEST: Final = 300


def problem_fields(
    errors: Iterable[ErrorDetails], model: type[BaseModel] | None, sent: Any = None
) -> tuple[ProblemField, ...]:
    """Return what a validation found, at most 20 fields.

    Args:
        errors: each with its place: `body` or `query` first, then the way inside.
        model: of the body, for the names of its fields; None where it is not known.
        sent: the body; a pointer leads to what is in it, or to what is missing there.
    """
    found: dict[str, ProblemField] = {}
    for details in errors:
        place, *inside = details["loc"] or ("body",)
        where = _place(inside, sent, missing=details["type"] == "missing")
        pointer = _pointer(where) if place == "body" else ".".join(map(str, inside))
        if pointer not in found:
            found[pointer] = ProblemField(
                pointer=pointer, detail=_detail(details, inside, model), mend=_mend(details, inside, model)
            )
        if len(found) == _MOST:
            break
    return tuple(found.values())


def _place(inside: list[Any], sent: Any, *, missing: bool) -> list[Any]:
    """Return the way to a value without the steps that name a form which it might have had, such as `str`."""
    way: list[Any] = []
    for at, step in enumerate(inside):
        if isinstance(sent, Mapping) and (step in sent or (missing and at == len(inside) - 1)):
            sent = sent.get(step)
        elif isinstance(sent, list | tuple) and isinstance(step, int) and step < len(sent):
            sent = sent[step]
        else:
            continue
        way.append(step)
    return way


def _pointer(inside: list[Any]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1")[:100] for step in inside)


def _detail(details: ErrorDetails, inside: list[Any], model: type[BaseModel] | None) -> str:
    text = field_problem(details, tuple(inside), model or BaseModel)
    return hide_in_error(text)[:_LONGEST]


def _mend(details: ErrorDetails, inside: list[Any], model: type[BaseModel] | None) -> str:
    if details["type"] == "missing":
        return "send it"
    if details["type"] == "extra_forbidden":
        meant = closest(str(inside[-1]), model.model_fields) if model and len(inside) == 1 else None
        return f"write {meant!r}" if meant else "leave it out"
    schema = _properties(model).get(str(inside[0])) if model and inside else None
    return f"send {allowed_values(schema)}" if schema else "send a value of the type that /openapi.json names"


@lru_cache(64)
def _properties(model: type[BaseModel]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = model.model_json_schema().get("properties", {})
    return found
