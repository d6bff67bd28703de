"""Metadata filters with Dify's 18 operators and its traps.

A value that is missing or null, and `is` with a list, are ignored: the filter then lets everything through. A field
that a document does not have drops the document, under the negative operators too, because SQL's null is neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from context_engine.testing.fake_dify.refusals import Problem, internal_error, missing_field, validation_error
from context_engine.testing.fake_dify.stored import StoredDataset

OPERATORS: Final = (
    "contains", "not contains", "start with", "end with", "is", "is not", "empty", "not empty", "in", "not in",
    "=", "≠", ">", "<", "≥", "≤", "before", "after",
)  # fmt: skip
_MODEL: Final = "MetadataFilteringCondition"
_Test = Callable[[Mapping[str, Any]], bool]
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": lambda have, want: have > want,
    "after": lambda have, want: have > want,
    "<": lambda have, want: have < want,
    "before": lambda have, want: have < want,
    "≥": lambda have, want: have >= want,
    "≤": lambda have, want: have <= want,
    "is": lambda have, want: have == want,
    "=": lambda have, want: have == want,
    "is not": lambda have, want: have != want,
    "≠": lambda have, want: have != want,
}
_LIKE: Final = {"contains": "%{}%", "not contains": "%{}%", "start with": "{}%", "end with": "%{}"}


def matching_documents(stored: StoredDataset, conditions: Mapping[str, Any]) -> set[str]:
    """Return the ids of the searchable documents that a filter lets through.

    Args:
        conditions: {"logical_operator": "and" | "or", "conditions": [{"name", "comparison_operator", "value"}]}.

    Raises:
        Refusal: 400 for an operator Dify does not have, 500 for a comparison the database cannot make.
    """
    rows = _checked(conditions)
    tests = [test for row in rows if (test := _test(row)) is not None]
    every = all if (conditions.get("logical_operator") or "and") == "and" else any
    return {
        document.id
        for document in stored.documents
        if document.searchable and (not tests or every([test(document.metadata or {}) for test in tests]))
    }


def _checked(conditions: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if not isinstance(conditions, dict):
        text = f"Input should be a valid dictionary or instance of {_MODEL}"
        raise validation_error(_MODEL, [Problem("", text, "model_type", conditions)])
    problems: list[Problem] = []
    logic = conditions.get("logical_operator", "and")
    if logic not in ("and", "or", None):
        problems.append(Problem("logical_operator", "Input should be 'and' or 'or'", "literal_error", logic))
    rows = conditions.get("conditions")
    if not isinstance(rows, list | None):
        problems.append(Problem("conditions", "Input should be a valid list", "list_type", rows))
    elif rows is not None:
        problems += [problem for place, row in enumerate(rows) for problem in _row_problems(f"conditions.{place}", row)]
    if problems:
        raise validation_error(_MODEL, problems)
    if rows is None:
        raise internal_error("'NoneType' object is not iterable")
    return list(rows)


def _row_problems(place: str, row: Any) -> list[Problem]:
    if not isinstance(row, dict):
        return [Problem(place, "Input should be a valid dictionary or instance of Condition", "model_type", row)]
    problems = [missing_field(f"{place}.{name}", row) for name in ("name", "comparison_operator") if name not in row]
    operator = row.get("comparison_operator", "is")
    if operator not in OPERATORS:
        text = "Input should be " + ", ".join(repr(name) for name in OPERATORS[:-1]) + f" or {OPERATORS[-1]!r}"
        problems.append(Problem(f"{place}.comparison_operator", text, "literal_error", operator))
    return problems


def _test(row: Mapping[str, Any]) -> _Test | None:
    """Return the test of one condition; None where Dify ignores the condition."""
    name, operator, value = row["name"], row["comparison_operator"], row.get("value")
    if operator in ("empty", "not empty"):
        return lambda metadata: (metadata.get(name) is None) is (operator == "empty")
    if value is None:
        return None
    if operator in ("in", "not in"):
        return _membership(name, _listed(value), wanted=operator == "in")
    if operator in _LIKE:
        return _likeness(name, _LIKE[operator].format(value), wanted=operator != "not contains")
    if operator in ("is", "=", "is not", "≠") and isinstance(value, str | list):
        return _equality(name, value, wanted=operator in ("is", "=")) if isinstance(value, str) else None
    return lambda metadata: (
        metadata.get(name) is not None and _COMPARE[operator](_number(metadata[name]), _number(value))
    )


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [str(part) for part in value if part is not None] if isinstance(value, list) else [str(value)]


def _membership(name: str, values: Sequence[str], *, wanted: bool) -> _Test:
    if not values:
        return lambda metadata: not wanted
    return lambda metadata: metadata.get(name) is not None and (str(metadata[name]) in values) is wanted


def _equality(name: str, value: str, *, wanted: bool) -> _Test:
    return lambda metadata: metadata.get(name) is not None and (str(metadata[name]) == value) is wanted


def _likeness(name: str, like: str, *, wanted: bool) -> _Test:
    """Return SQL's LIKE: % is any text and _ any character, in the request's value too."""
    pattern = re.compile(re.escape(like).replace("%", ".*").replace("_", "."), re.DOTALL)
    return lambda metadata: (
        metadata.get(name) is not None and (pattern.fullmatch(str(metadata[name])) is not None) is wanted
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        problem = (
            f'(psycopg2.errors.InvalidTextRepresentation) invalid input syntax for type double precision: "{value}"'
        )
        statement = "[SQL: SELECT documents.id AS documents_id \nFROM documents \nWHERE documents.dataset_id IN (...)]"
        raise internal_error(f"{problem}\n\n{statement}") from None
