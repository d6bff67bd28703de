"""The published form of a search: `search --json`, schema version 1.1. A change here changes it for every reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from context_engine.core.models import (
    SCHEMA_VERSION,
    Caller,
    Chunk,
    ScoreKind,
    SearchResult,
    Settings,
    SourceAnswer,
    SourceQuery,
)
from context_engine.errors import SourceTimeout

SCHEMAS = Path(__file__).parents[2] / "config/schemas"
SCHEMA = json.loads((SCHEMAS / "search-result-v1.1.json").read_text("utf-8"))
BEFORE = json.loads((SCHEMAS / "search-result-v1.json").read_text("utf-8"))

RESULT_KEYS = {
    "asked",
    "searched",
    "schema_version",
    "search_id",
    "request_id",
    "query",
    "domain",
    "as_of",
    "now",
    "caller",
    "status",
    "decision",
    "chunks",
    "fates",
    "swaps",
    "swap_count",
    "sources",
    "stages",
    "settings",
    "rerank_adapter",
    "warnings",
    "notices",
    "demo",
}
CHUNK_KEYS = {
    "content",
    "chunk_id",
    "source_id",
    "source_type",
    "authority_tier",
    "trust_class",
    "classification",
    "domain",
    "metadata",
    "rank",
    "confidence",
    "_rag_score",
    "_relevance_score",
    "_authority_boost",
    "_provenance",
}
TAG_KEYS = {"source_id", "source_type", "authority_tier", "trust_class", "fetched_at", "ttl_seconds", "extra"}
EXTRA_KEYS = {
    "chunk_id",
    "rag_score",
    "relevance",
    "absolute_relevance",
    "content_sha256",
    "document_id",
    "document_version",
    "dataset_id",
    "classification",
    "retrieved_at",
    "fetched_at_basis",
    "freshness",
    "also_in",
    "search_id",
    "defaulted",
    "flags",
}


def validate(published: Mapping[str, Any]) -> None:
    read_back = json.loads(json.dumps(published, allow_nan=False))
    jsonschema.validate(read_back, SCHEMA, jsonschema.Draft202012Validator)


@pytest.fixture(scope="module")
def rich(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> dict[str, Any]:
    """A result with everything in it: a merge, a swap, a drop, a failed source, a refused claim."""

    def down(_query: str, _domain: str, _top_k: int) -> list[Any]:
        raise SourceTimeout("no answer within 10 s", retryable=True, retry_after_s=1.5)

    rule = "The approval rule: a new product must be signed off by the committee before the first trade."
    standards = [
        chunk_of(
            "b", 0.80, rule, title="Approval", document_id="SOP-1", document_version="2", section="4.1", position=0
        ),
        chunk_of("c", 0.10, "The cafeteria opens at noon."),
    ]
    at = {"page": 7, "url": "https://standards.example/approval"}
    web = [
        chunk_of("d", 0.85, "An approval rule from the web: nobody needs a committee.", span=(0, 20), metadata=at),
        chunk_of("e", 0.80, rule, authority_tier=1, effective_from=date(2020, 1, 1), heading_path=("A", "B")),
    ]
    result = ask(
        [(1, down), (2, standards), (5, web)], caller=Caller(principal="p"), request_id="r-1", require_tiers=(1,)
    )
    return result.to_dict(demo=True)


def test_a_result_with_everything_in_it_keeps_the_schema(rich: dict[str, Any]) -> None:
    validate(rich)
    assert rich["swaps"]
    assert rich["warnings"]
    assert {fate["outcome"] for fate in rich["fates"]} == {"returned", "merged", "dropped"}
    assert rich["sources"][0]["error"]["code"] == "timeout"


def test_a_source_that_answered_in_part_keeps_the_schema(ask: Callable[..., SearchResult]) -> None:
    class Halved:
        score_kinds = frozenset({ScoreKind.BM25})

        def search(self, query: SourceQuery) -> SourceAnswer:
            chunks = (Chunk(content="The approval rule.", chunk_id="a"),)
            return SourceAnswer(chunks=chunks, failures=(SourceTimeout("dataset ds-2: no answer", retryable=True),))

        def close(self) -> None:
            """Nothing is open."""

    published = ask([(1, Halved())]).to_dict()
    validate(published)
    (source,) = published["sources"]
    assert (source["state"], source["asked"], source["chunks"]) == ("partial", 40, 1)


def test_an_empty_result_keeps_the_schema(ask: Callable[..., SearchResult]) -> None:
    published = ask([(1, []), (2, [])]).to_dict()
    validate(published)
    assert (published["decision"], published["chunks"], published["demo"]) == ("no_match", [], False)


def test_the_keys_of_the_object(rich: dict[str, Any]) -> None:
    assert set(rich) == RESULT_KEYS == set(SCHEMA["required"])
    assert set(SCHEMA["properties"]) == {*RESULT_KEYS, "record"}  # of `--full` alone
    assert rich["schema_version"] == SCHEMA_VERSION == SCHEMA["properties"]["schema_version"]["const"]


def test_version_1_1_only_adds_to_version_1_0(rich: dict[str, Any]) -> None:
    searched = {key: value for key, value in rich["searched"].items() if key != "corrected"}
    as_before = {key: value for key, value in rich.items() if key not in ("notices", "rerank_adapter")}
    as_before |= {"schema_version": "1.0", "searched": searched}
    jsonschema.validate(json.loads(json.dumps(as_before)), BEFORE, jsonschema.Draft202012Validator)
    assert set(SCHEMA["properties"]) - set(BEFORE["properties"]) == {"notices", "record", "rerank_adapter"}
    same = set(BEFORE["properties"]) - {"schema_version", "warnings", "searched"}
    searched_before, searched_now = (schema["properties"]["searched"] for schema in (BEFORE, SCHEMA))
    assert set(searched_now["properties"]) - set(searched_before["properties"]) == {"corrected", "translations"}
    assert searched_now["required"] == searched_before["required"]
    assert {key: SCHEMA["properties"][key] for key in same} == {key: BEFORE["properties"][key] for key in same}
    assert {**BEFORE["$defs"], "notice": SCHEMA["$defs"]["notice"], "chunk": SCHEMA["$defs"]["chunk"]} == SCHEMA[
        "$defs"
    ]
    before, chunk = BEFORE["$defs"]["chunk"], SCHEMA["$defs"]["chunk"]
    assert set(chunk["properties"]) - set(before["properties"]) == {"confidence", "page", "url"}
    assert {key: chunk["properties"][key] for key in before["properties"]} == before["properties"]
    assert set(chunk["required"]) - set(before["required"]) == {"confidence"}


def test_a_warning_is_the_sentence_of_a_notice(rich: dict[str, Any]) -> None:
    assert rich["warnings"] == [notice["message"] for notice in rich["notices"]]
    found = {(notice["code"], notice["subject"]): notice["detail"] for notice in rich["notices"]}
    assert found["required_tier_missing", "1"] == {"tier": 1}


def test_the_keys_of_a_chunk(rich: dict[str, Any]) -> None:
    described = SCHEMA["$defs"]["chunk"]
    assert set(described["required"]) == CHUNK_KEYS
    for chunk in rich["chunks"]:
        assert set(chunk) >= CHUNK_KEYS
        assert set(chunk) <= set(described["properties"])


def test_confidence_page_and_url_stand_on_the_chunk_and_not_in_its_tag(rich: dict[str, Any]) -> None:
    (web,) = (chunk for chunk in rich["chunks"] if chunk["chunk_id"] == "d")
    assert (web["confidence"], web["page"], web["url"]) == ("strong", 7, "https://standards.example/approval")
    assert not {"confidence", "page", "url"} & {*web["_provenance"], *web["_provenance"]["extra"]}
    assert all("page" not in chunk and "url" not in chunk for chunk in rich["chunks"] if chunk is not web)


def test_every_field_of_a_chunk_is_described() -> None:
    assert set(Chunk._fields) - {"extra"} <= set(SCHEMA["$defs"]["chunk"]["properties"])


def test_the_seven_keys_of_a_tag(rich: dict[str, Any]) -> None:
    assert set(SCHEMA["$defs"]["provenance"]["required"]) == TAG_KEYS
    for chunk in rich["chunks"]:
        tag = chunk["_provenance"]
        assert set(tag) == TAG_KEYS
        assert set(tag["extra"]) - {"claimed", "claimed_tier"} == EXTRA_KEYS


def test_the_settings_are_all_there_with_their_origin(rich: dict[str, Any]) -> None:
    assert set(rich["settings"]) == set(Settings.model_fields)
    assert rich["settings"]["stage2_top_k"] == {"value": 8, "origin": "default"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("status",), "fine"),
        (("schema_version",), "2.0"),
        (("more",), 1),
        (("chunks", 0, "_provenance", "more"), 1),
        (("chunks", 0, "_provenance", "ttl_seconds"), "60"),
        (("chunks", 0, "_provenance", "authority_tier"), 6),
        (("chunks", 0, "_provenance", "extra", "content_sha256"), "abc"),
        (("sources", 0, "state"), "maybe"),
    ],
)
def test_the_schema_refuses(rich: dict[str, Any], path: tuple[str | int, ...], value: Any) -> None:
    broken: Any = json.loads(json.dumps(rich))
    place = broken
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(broken)
