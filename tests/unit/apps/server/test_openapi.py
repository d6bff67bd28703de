"""The OpenAPI document is whole: every operation, every answer, every error."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema.validators import Draft202012Validator

from context_engine.apps.server.app import ROUTERS, create_app
from tests.unit.apps.server.small_service import small_client, small_service


@pytest.fixture(scope="module")
def document() -> Any:
    return small_client(small_service(server_max_top_k=17, server_max_query_chars=400)).get("/openapi.json").json()


def operations(document: Any) -> list[tuple[str, str, Any]]:
    found = [(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()]
    return [one for one in found if one[0] not in ("/api/asked", "/api/fails")]


def test_every_operation_is_named_and_described(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    ids = [one["operationId"] for _, _, one in operations(document)]
    assert len(ids) == len(set(ids)) >= 10
    for path, _, one in operations(document):
        assert one["summary"] and one["description"] and one["tags"], path
        assert one["operationId"].startswith(f"{one['tags'][0]}_"), (
            path
        )  # FastAPI itself: "query_api_v1_rag_query_post"


def test_every_app_takes_the_routes_as_they_are() -> None:
    """`include_router` would make each route anew at the first request of an app, in a tenth of a second in all."""
    taken = create_app(small_service()).routes
    for router in ROUTERS:
        assert all(any(route is other for other in taken) for route in router.routes)


def test_every_operation_tells_its_errors(document: Any) -> None:
    for path, _, one in operations(document):
        statuses = set(one["responses"])
        assert {"200", "400", "500"} <= statuses, path
        if path.startswith(("/api/", "/v1/")):
            assert one["security"] == [{"token": []}]
            assert {"401", "429", "503"} <= statuses, path
        if "requestBody" in one:
            assert {"408", "413", "415", "422"} <= statuses, path


def test_problems_are_problem_json_and_nothing_of_the_framework_shows(document: Any) -> None:
    text = str(document)
    assert "HTTPValidationError" not in text and "'ValidationError'" not in text
    for name, one in document["components"]["responses"].items():
        content = one["content"]["application/problem+json"]
        assert content["example"]["status"] == int(name.removeprefix("Problem"))
        assert "X-Request-Id" in one["headers"]
    for path, _, one in operations(document):
        for status, answer in one["responses"].items():
            assert status == "200" or "$ref" in answer or path == "/retrieval" or path.startswith("/v1/"), (
                path,
                status,
            )


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_reference_leads_somewhere_and_every_schema_is_one(document: Any) -> None:
    for reference in references(document):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place
    for one in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(one)


def test_the_limits_in_force_stand_in_it(document: Any) -> None:
    fields = document["components"]["schemas"]["RAGQueryRequest"]["properties"]
    assert fields["query"]["maxLength"] == 400
    assert [one.get("maximum") for one in fields["top_k"]["anyOf"]] == [17, None]
    answer = document["components"]["schemas"]["RAGPipelineResponse"]["properties"]
    assert "maxLength" not in answer["query"]


def test_the_document_says_what_the_service_takes(document: Any) -> None:
    fields = document["components"]["schemas"]["RAGQueryRequest"]["properties"]
    assert fields["query"]["pattern"] == "^[^\\x00]*$"
    assert [part.get("pattern") for part in fields["domain"]["anyOf"]] == ["^[^\\x00]*$", None]
    chunk = document["components"]["schemas"]["RerankRequest"]["properties"]["chunks"]["items"]
    assert chunk["required"] == ["content"]
    body = document["paths"]["/retrieval"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["metadata_condition"]["type"] == ["object", "null"]
