"""The OpenAPI document: the routes, and the headers and errors that all share."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from context_engine.apps.server.problems import PROBLEM_JSON, Problem, kinds
from context_engine.core.models import ServerSettings

DESCRIPTION: Final = (
    "Retrieval for a bank's knowledge: ranked by relevance and authority, every chunk with its provenance. "
    "Errors are problem details (RFC 9457); their types are listed in the documentation under Problems."
)
_TAGS: Final = {
    "rag": "Questions, contexts and comparisons.",
    "answers": "Answers whose sentences show their evidence, and the OpenAI chat API.",
    "jobs": "Work over many documents: memory, findings, cost, documents of its own.",
    "records": "What was recorded of an answer, and its proof.",
    "dify": "What Dify and its plugin ask.",
    "health": "For probes.",
}
_REF: Final = "#/components/schemas/{model}"
_UNUSED: Final = ("HTTPValidationError", "ValidationError")
_RECORD: Final = {
    "record": ("records_record", "The record of this answer."),
    "explanation": ("records_explanation", "How this answer came about."),
    "proof": ("records_proof", "The proof that the record is in the log."),
}
_PERSONA: Final = "persona_key"
_NO_NUL: Final = "^[^\\x00]*$"
_METHODS: Final = ("get", "put", "post", "delete", "patch")
_EVERYWHERE: Final = (400, 500)
_WITH_TOKEN: Final = (401, 403, 429, 503)
_WITH_FIELDS: Final = (422,)
_WITH_BODY: Final = (408, 413, 415)


def openapi_document(app: FastAPI, limits: ServerSettings, personas: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of an app.

    Args:
        limits: the limits in force, which the document states.
        personas: those in force; empty: the document does not list them.
    """
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary="Two-stage retrieval with authority, provenance and audit",
        description=app.description,
        routes=app.routes,
    )
    _complete(document)
    for properties in _asked(document):
        _limit(properties, limits)
        for field in properties.values():
            _without_nul(field)
    if personas:
        _list_personas(document, personas)
    return document


def operation_id(route: APIRoute) -> str:
    """Return the name of an operation: the part of the API and the action."""
    return "_".join([*map(str, route.tags[:1]), route.name])


def _complete(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _UNUSED:
        schemas.pop(name, None)
    model = Problem.model_json_schema(ref_template=_REF, mode="serialization")
    schemas.update(model.pop("$defs", {}))
    schemas["Problem"] = model
    components["headers"] = _HEADERS
    components["responses"] = {f"Problem{status}": _problem(status) for status in _statuses()}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token of this service, or an OIDC token."}
    }
    document["tags"] = [{"name": name, "description": description} for name, description in _TAGS.items()]
    for path, operation in _operations(document):
        _complete_operation(operation, guarded=path.startswith(("/api/", "/v1/")))
        _describe(operation["responses"]["200"], schemas)
        if links := _links(operation["operationId"]):
            operation["responses"]["200"]["links"] = links


def _links(operation_id: str) -> dict[str, Any]:
    """Return what an answer leads to: its record, its chunks, or a search of a listed domain."""
    if operation_id == "rag_domains":
        body = {"domain": "$response.body#/domains/0/domain"}
        return {"search": {"operationId": "rag_query", "requestBody": body, "description": "A search of a domain."}}
    if operation_id not in ("rag_query", "rag_retrieve"):
        return {}
    chunk = {"domain": "$response.body#/domain", "chunk_ids": ["$response.body#/chunks/0/chunk_id"]}
    fetch = {"operationId": "rag_fetch_chunks", "requestBody": chunk, "description": "The current text of a chunk."}
    parameters = {"record_id": "$response.body#/search_id"}
    records = {
        name: {"operationId": target, "parameters": parameters, "description": meaning}
        for name, (target, meaning) in _RECORD.items()
    }
    return {**records, "chunk": fetch}


def _asked(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of each request body model."""
    for _, operation in _operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        yield document["components"]["schemas"].get(name, {}).get("properties", {})


def _limit(properties: dict[str, Any], limits: ServerSettings) -> None:
    bounds = (
        ("query", "string", "maxLength", limits.server_max_query_chars),
        ("top_k", "integer", "maximum", limits.server_max_top_k),
        ("rerank_top_n", "integer", "maximum", limits.server_max_top_k),
    )
    for name, kind, key, most in bounds:
        field = properties.get(name, {})
        for part in (field, *field.get("anyOf", ())):
            if part.get("type") == kind:
                part[key] = most


def _list_personas(document: dict[str, Any], personas: tuple[str, ...]) -> None:
    """State the names that a persona may have."""
    fields = [properties[_PERSONA] for properties in _asked(document) if _PERSONA in properties]
    for part in (part for field in fields for part in field["anyOf"]):
        if part.get("type") == "string":
            part["enum"] = list(personas)
    for _, operation in _operations(document):
        for value in operation.get("parameters", ()):
            if value["name"] == "persona":  # /retrieval answers an unknown one too, with a notice
                value["examples"] = {name: {"value": name} for name in personas}


def _without_nul(schema: Any) -> None:
    """State that the texts of a field hold no NUL, which no request may."""
    if not isinstance(schema, dict) or not schema:  # true, false or missing
        return
    if schema.get("type") == "string" and not {"pattern", "enum", "format"} & schema.keys():
        schema["pattern"] = _NO_NUL
    parts = [*schema.get("anyOf", ()), schema.get("items", {}), *schema.get("properties", {}).values()]
    for part in parts:
        _without_nul(part)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document.get("paths", {}).items():
        for method in _METHODS:
            if method in methods:
                yield path, methods[method]


def _complete_operation(operation: dict[str, Any], *, guarded: bool) -> None:
    responses = operation["responses"]
    if guarded:
        operation["security"] = [{"token": []}]
    default_422 = responses.get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if default_422.get("$ref", "").endswith("HTTPValidationError"):
        del responses["422"]
    own = responses.get("400", {})
    for status in _possible(operation, guarded=guarded):
        if str(status) not in responses or _is_problem(str(status), responses[str(status)]):
            usual = {"$ref": f"#/components/responses/Problem{status}"}
            responses[str(status)] = usual if _is_problem("400", own) else deepcopy(own)
    for response in responses.values():
        if "$ref" not in response:
            response.setdefault("headers", {}).update(_answer_headers(limited=guarded))


def _describe(answer: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Copy the description of an answer from its model."""
    refs = (media.get("schema", {}).get("$ref", "") for media in answer.get("content", {}).values())
    model = schemas.get(next(refs, "").rpartition("/")[2], {})
    answer["description"] = model.get("description", "What was asked for.").partition("\n\n")[0]


def _possible(operation: dict[str, Any], *, guarded: bool) -> set[int]:
    """Return the error statuses of an operation."""
    has_body = "requestBody" in operation
    return {
        *(int(status) for status, answer in operation["responses"].items() if _is_problem(status, answer)),
        *_EVERYWHERE,
        *(_WITH_TOKEN if guarded else ()),
        *(_WITH_FIELDS if has_body or "parameters" in operation else ()),
        *(_WITH_BODY if has_body else ()),
    }


def _is_problem(status: str, response: dict[str, Any]) -> bool:
    """Whether an answer is an error in the common format."""
    if int(status) < 400:
        return False
    schemas = [media.get("schema", {}).get("$ref", "") for media in response.get("content", {}).values()]
    return all(not ref or ref.endswith("/Problem") for ref in schemas)


def _statuses() -> list[int]:
    return sorted({kind.status for kind in kinds()})


def _problem(status: int) -> dict[str, Any]:
    of_status = [kind for kind in kinds() if kind.status == status]
    meanings = " ".join(f"`{kind.code}`: {kind.meaning}" for kind in of_status)
    example = of_status[0]
    headers = _answer_headers(limited=False)
    if status in (429, 503):
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if status == 401:
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/WWWAuthenticate"}
    value = Problem(
        type=example.type,
        title=example.title,
        status=status,
        detail=example.meaning,
        instance="5f0c2a7e9b1d4c38",
        code=example.code,
        mend=example.mend,
    )
    return {
        "description": meanings,
        "headers": headers,
        "content": {
            PROBLEM_JSON: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": value.model_dump(mode="json"),
            }
        },
    }


def _answer_headers(*, limited: bool) -> dict[str, Any]:
    names = {"X-Request-Id": "RequestId"}
    if limited:
        names |= {"RateLimit": "RateLimit", "RateLimit-Policy": "RateLimitPolicy"}
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}


def _header(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "schema": schema or {"type": "string"}}


_HEADERS: Final = {
    "RequestId": _header("The id of the request: the one sent, or a new one."),
    "RateLimit": _header("The remaining allowance: r requests now, the full rate in t seconds."),
    "RateLimitPolicy": _header("The rate of the principal: q requests in w seconds."),
    "RetryAfter": _header("Seconds after which to ask again.", type="integer", minimum=1),
    "WWWAuthenticate": _header("The scheme to authenticate with: Bearer."),
}
