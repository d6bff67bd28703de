"""Dify's error bodies and its checks of the body of a retrieve request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

RATE_LIMITED: Final = "Sorry, you have reached the knowledge base request rate limit of your subscription."

NOT_FOUND_PAGE: Final = (
    "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>The requested URL was not "
    "found on the server. If you entered the URL manually please check your spelling and try again.</p>\n"
)


class DifyRefusal(Exception):
    """A refusal with Dify's error body {"code", "message", "status"}."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def body(self) -> dict[str, Any]:
        """Return the error body."""
        return {"code": self.code, "message": self.message, "status": self.status}


def invalid_param(message: str) -> DifyRefusal:
    """Return Dify's 400 for bad parameters, also used for outages behind it."""
    return DifyRefusal(400, "invalid_param", message)


def internal_error(message: str) -> DifyRefusal:
    """Return a 500 with the text of the exception, as in Dify."""
    return DifyRefusal(500, "internal_server_error", message)


class RefusedField(NamedTuple):
    """One line of a validation error: place, message, machine name, the rejected value."""

    place: str
    text: str
    kind: str
    value: Any


def missing_field(place: str, holder: Any) -> RefusedField:
    """Return the problem of a missing field."""
    return RefusedField(place, "Field required", "missing", holder)


def wrong_type(place: str, wanted: str, kind: str, value: Any) -> RefusedField:
    """Return the problem of a value of the wrong type."""
    return RefusedField(place, f"Input should be a valid {wanted}", kind, value)


def validation_error(model: str, problems: Sequence[RefusedField]) -> DifyRefusal:
    """Return a 400 in the validator's wording; the rejected value is echoed, shortened in the middle."""
    lines = [f"{len(problems)} validation error{'s' * (len(problems) > 1)} for {model}"]
    for problem in problems:
        shown = f"[type={problem.kind}, input_value={_short(problem.value)}, input_type={type(problem.value).__name__}]"
        lines += [problem.place] * bool(problem.place)
        lines.append(f"  {problem.text} {shown}")
        lines.append(f"    For further information visit https://errors.pydantic.dev/2.11/v/{problem.kind}")
    return invalid_param("\n".join(lines))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else f"{text[:25]}...{text[-24:]}"


def no_vector_table(dataset_id: str, *, full_text: bool = False) -> DifyRefusal:
    """Return the refusal for a dataset without vectors: the message of the vector store."""
    name = f"embedding_vector_index_{dataset_id.replace('-', '_')}_nod"
    where = "LINE 1: ..., 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]' AS distance FROM embedding_..."
    if full_text:
        where = f"LINE 2:                     FROM embedding_Vector_index_{dataset_id.replace('-', '_')[:12]}..."
    return invalid_param(f'relation "{name}" does not exist\n{where}\n{" " * (33 if full_text else 61)}^\n')


MOST_QUERY: Final = 250
METHODS: Final = ("semantic_search", "full_text_search", "hybrid_search", "keyword_search")

DEFAULT_MODEL: Final[Mapping[str, Any]] = {
    "search_method": "semantic_search",
    "reranking_enable": False,
    "top_k": 4,
    "score_threshold_enabled": False,
}

_REQUIRED: Final = ("search_method", "reranking_enable", "top_k", "score_threshold_enabled")
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True)
class RetrievePlan:
    """How to search; `top_k` and `threshold` are still as sent in the request."""

    query: str
    method: str
    top_k: Any
    threshold: Any
    reranking_model: Any
    reranking_mode: str
    weights: Any
    conditions: Any


def plan(body: Any, saved: Mapping[str, Any] | None, *, typed: bool) -> RetrievePlan:
    """Return the retrieve plan of a request.

    Args:
        saved: the dataset's retrieval model, for requests without one.
        typed: whether the types of the retrieval model are checked, as in newer versions.

    Raises:
        DifyRefusal: the request is invalid.
    """
    payload = _payload(body or {}, typed)
    query = payload["query"]
    if not query and not payload.get("attachment_ids"):
        raise invalid_param("Query or attachment_ids is required")
    return _read(query, payload.get("retrieval_model") or saved or DEFAULT_MODEL)


def _payload(body: object, typed: bool) -> Mapping[str, Any]:
    """Return the body with its types checked."""
    if not isinstance(body, dict):
        text = "Input should be a valid dictionary or instance of HitTestingPayload"
        raise validation_error("HitTestingPayload", [RefusedField("", text, "model_type", body)])
    problems = [*_query_problems(body), *_object_problems(body), *_attachment_problems(body)]
    model = body.get("retrieval_model")
    if typed and isinstance(model, dict):
        body = {**body, "retrieval_model": _coerced(model)}
        problems += _model_problems(body["retrieval_model"])
    if problems:
        raise validation_error("HitTestingPayload", problems)
    return body


def _query_problems(body: Mapping[str, Any]) -> list[RefusedField]:
    if "query" not in body:
        return [missing_field("query", body)]
    query = body["query"]
    if not isinstance(query, str):
        return [wrong_type("query", "string", "string_type", query)]
    if len(query) > MOST_QUERY:
        return [RefusedField("query", f"String should have at most {MOST_QUERY} characters", "string_too_long", query)]
    return []


def _object_problems(body: Mapping[str, Any]) -> list[RefusedField]:
    names = ("retrieval_model", "external_retrieval_model")
    return [
        wrong_type(name, "dictionary", "dict_type", body[name])
        for name in names
        if not isinstance(body.get(name), dict | None)
    ]


def _attachment_problems(body: Mapping[str, Any]) -> list[RefusedField]:
    attachments = body.get("attachment_ids")
    if not isinstance(attachments, list | None):
        return [wrong_type("attachment_ids", "list", "list_type", attachments)]
    return [
        wrong_type(f"attachment_ids.{place}", "string", "string_type", value)
        for place, value in enumerate(attachments or ())
        if not isinstance(value, str)
    ]


def _coerced(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model with "5" as 5 and "false" as False, as the typed check reads them."""
    out = dict(model)
    top_k = out.get("top_k")
    if isinstance(top_k, str) and top_k.strip().lstrip("+-").isdecimal():
        out["top_k"] = int(top_k)
    if isinstance(top_k, float) and top_k.is_integer():
        out["top_k"] = int(top_k)
    for name in ("reranking_enable", "score_threshold_enabled"):
        value = out.get(name)
        if not isinstance(value, bool):
            out |= {name: _FLAGS[str(value).lower()]} if str(value).lower() in _FLAGS else {}
    return out


def _model_problems(model: Mapping[str, Any]) -> list[RefusedField]:
    problems = [missing_field(f"retrieval_model.{name}", model) for name in _REQUIRED if name not in model]
    if model.get("search_method", METHODS[0]) not in METHODS:
        text = "Input should be " + ", ".join(repr(name) for name in METHODS[:-1]) + f" or {METHODS[-1]!r}"
        problems.append(RefusedField("retrieval_model.search_method", text, "enum", model["search_method"]))
    problems += _number_problems(model)
    for name in ("reranking_enable", "score_threshold_enabled"):
        if not isinstance(model.get(name, False), bool):
            problems.append(wrong_type(f"retrieval_model.{name}", "boolean", "bool_type", model[name]))
    return problems


def _number_problems(model: Mapping[str, Any]) -> list[RefusedField]:
    problems: list[RefusedField] = []
    top_k, threshold = model.get("top_k", 1), model.get("score_threshold")
    whole, number = "Input should be a valid integer", "Input should be a valid number"
    if isinstance(top_k, float):
        text = f"{whole}, got a number with a fractional part"
        problems.append(RefusedField("retrieval_model.top_k", text, "int_from_float", top_k))
    elif isinstance(top_k, str):
        text = f"{whole}, unable to parse string as an integer"
        problems.append(RefusedField("retrieval_model.top_k", text, "int_parsing", top_k))
    elif not isinstance(top_k, int):
        problems.append(wrong_type("retrieval_model.top_k", "integer", "int_type", top_k))
    if isinstance(threshold, str) and not _is_number(threshold):
        text = f"{number}, unable to parse string as a number"
        problems.append(RefusedField("retrieval_model.score_threshold", text, "float_parsing", threshold))
    return problems


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read(query: str, model: Mapping[str, Any]) -> RetrievePlan:
    """Read an unchecked model in Dify's order: the method, then the threshold's flag, then the reranker's."""
    method = model.get("search_method", "semantic_search")
    if method not in METHODS:
        raise invalid_param(f"{method!r} is not a valid RetrievalMethod")
    for name in ("score_threshold_enabled", "reranking_enable"):
        if name not in model:
            raise internal_error(repr(name))
    return RetrievePlan(
        query=query,
        method=method,
        top_k=model.get("top_k", 4),
        threshold=model.get("score_threshold", 0.0) if model["score_threshold_enabled"] else 0.0,
        reranking_model=model.get("reranking_model") if model["reranking_enable"] else None,
        reranking_mode=model.get("reranking_mode") or "reranking_model",
        weights=model.get("weights"),
        conditions=model.get("metadata_filtering_conditions"),
    )


def segment_problems(body: Mapping[str, Any]) -> list[RefusedField]:
    """Return what newer versions refuse in a body with chunks."""
    sent = body.get("segments")
    if sent is None:
        return [missing_field("segments", body)]
    if not sent:
        text = "List should have at least 1 item after validation, not 0"
        return [RefusedField("segments", text, "too_short", sent)]
    text = "String should have at least 1 character"
    return [
        RefusedField(f"segments.{place}.content", text, "string_too_short", segment["content"])
        for place, segment in enumerate(sent)
        if segment.get("content") == ""
    ]
