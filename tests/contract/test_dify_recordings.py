"""Every recorded answer of Dify 1.12.1 to a search, read by the real source: what comes out of it, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import respx

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import FetchedAtBasis, ScoreKind, SourceQuery, SourceSpec
from context_engine.errors import (
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

RECORDINGS = Path(__file__).parent / "recordings"
BASE = "https://dify.meridian-harbour.example/v1"
DATASET = "b644b4ec-c827-43bf-b869-905045e19833"


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def is_search(name: str) -> bool:
    case = load(name)
    if not isinstance(case, dict) or "request" not in case:
        return False
    return urlsplit(case["request"]["url"]).path.rstrip("/").endswith(("/retrieve", "/hit-testing"))


NAMES = [path.stem for path in sorted(RECORDINGS.glob("*.json")) if is_search(path.stem)]
ANSWERED = [name for name in NAMES if load(name)["response"]["status"] == 200]
REFUSED = [name for name in NAMES if name not in ANSWERED]
ERRORS: dict[type[SourceError], tuple[str, ...]] = {
    SourceAuthError: ("62", "63"),
    SourceForbidden: ("151-",),
    SourceRateLimited: ("161-",),
    SourceNotFound: (
        *("122-", "150b-", "150c-", "150d-", "40-", "43d-", "43e-", "43f-", "44-", "57-"),  # no index of that kind
        *("60-", "60b-", "61-", "61b-", "65b-"),
    ),
    SourceUnavailable: ("162-", "99-", "42-", "43-", "43b-", "75g-", "77f-"),
    SourceProtocolError: (
        *("45-", "47-", "48-", "50-", "50b-", "50c-", "50e-", "50f-", "51b-", "64", "65-", "75c-", "77c-"),
    ),
}


def expected_error(name: str) -> type[SourceError]:
    (kind,) = [kind for kind, prefixes in ERRORS.items() if name.startswith(prefixes)]
    return kind


def method_of(case: dict[str, Any]) -> str:
    model = (case["request"].get("json") or {}).get("retrieval_model") or {}
    records = case["response"]["body"]["records"] if case["response"]["status"] == 200 else []
    plain = "keyword_search" if not any(record["score"] for record in records) else "semantic_search"
    return str(model.get("search_method", plain))


def description(case: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = load("32-get-dataset")["response"]["body"]
    keyword = case["response"]["status"] == 200 and method_of(case) == "keyword_search"
    technique = {"indexing_technique": "economy"} if keyword else {"indexing_technique": "high_quality"}
    return {**body, **technique, "embedding_model": "embed-1", "embedding_model_provider": "acme"}


@pytest.fixture
def replay() -> Iterator[Any]:
    """Answers a search with a recording and returns what the source makes of it."""
    opened: list[DifySource] = []

    def run(name: str, **settings: Any) -> Any:
        case = load(name)
        answer = case["response"]
        content = json.dumps(answer["body"]) if answer["body_is_json"] else answer["body"]
        headers = {"content-type": answer["headers"]["content-type"]}
        respx.get(f"{BASE}/datasets/{DATASET}").respond(json=description(case))
        route = respx.post(f"{BASE}/datasets/{DATASET}/retrieve").respond(
            answer["status"], headers=headers, content=content
        )
        connection = Connection(base_url=BASE, api_key=f"dataset-{uuid4()}")  # a rate limit outlives a source
        spec = SourceSpec(
            id="sops", type="bank_sop", adapter="dify", connection="dify", dataset_ids=(DATASET,),
            settings={"attempts": 1, "vector_store": "pgvector", **settings},
        )  # fmt: skip
        source = DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())
        opened.append(source)
        query = SourceQuery(text="provisioning norms for sub-standard NPA assets", domain="NPA", top_k=1000)
        return source.search(query), json.loads(route.calls.last.request.content)

    with respx.mock:
        yield run
    for source in opened:
        source.close()


def test_all_are_here() -> None:
    assert (len(NAMES), len(ANSWERED), len(REFUSED)) == (130, 78, 52)


@pytest.mark.parametrize("name", ANSWERED)
def test_records_become_chunks(name: str, replay: Any) -> None:
    case = load(name)
    records = {record["segment"]["id"]: record for record in case["response"]["body"]["records"]}
    answer, sent = replay(name)
    assert sorted(chunk.chunk_id for chunk in answer.chunks) == sorted(records)
    assert (answer.failures, answer.cut) == ((), 0)
    for chunk in answer.chunks:
        segment = records[chunk.chunk_id]["segment"]
        document = segment["document"]
        assert chunk.content == segment["content"]
        assert (chunk.dataset_id, chunk.document_id) == (DATASET, segment["document_id"])
        assert (chunk.title, chunk.position) == (document["name"], segment["position"] - 1)
        assert dict(chunk.metadata) == (document["doc_metadata"] or {})
        assert chunk.fetched_at == datetime.fromtimestamp(segment["completed_at"], UTC)
        assert chunk.fetched_at_basis is FetchedAtBasis.INDEXED
        assert (chunk.authority_tier, chunk.source_type) == (None, None), "read only where the manifest says so"
    assert {*sent["retrieval_model"]} == {"search_method", "reranking_enable", "top_k", "score_threshold_enabled"}
    assert sent["retrieval_model"]["score_threshold_enabled"] is False


@pytest.mark.parametrize("name", [name for name in ANSWERED if method_of(load(name)) == "keyword_search"])
def test_keyword_scores_mean_nothing(name: str, replay: Any) -> None:
    answer, sent = replay(name)
    assert sent["retrieval_model"]["search_method"] == "keyword_search"
    assert all(chunk.scores == () for chunk in answer.chunks)


@pytest.mark.parametrize("name", [name for name in ANSWERED if method_of(load(name)) == "semantic_search"])
@pytest.mark.parametrize(("store", "kind"), [("pgvector", ScoreKind.COSINE), ("chroma", ScoreKind.UNKNOWN)])
def test_semantic_scores_are_cosine_where_the_store_gives_it(name: str, store: str, kind: Any, replay: Any) -> None:
    records = load(name)["response"]["body"]["records"]
    answer, sent = replay(name, vector_store=store)
    assert sent["retrieval_model"]["search_method"] == "semantic_search"
    assert [chunk.chunk_id for chunk in answer.chunks] == [record["segment"]["id"] for record in records]
    assert [chunk.scores for chunk in answer.chunks] == [
        ((kind, record["score"], "acme/embed-1"),) for record in records
    ]


def test_metadata_under_the_names_the_manifest_gives(replay: Any) -> None:
    names = {"authority_tier": "authority_tier", "source_type": "source_type", "effective_from": "effective_date"}
    answer, _ = replay("46-top-k-1000", metadata=names, source_types={"internal_sop": "bank_sop"})
    found = {
        (chunk.title[:11], chunk.authority_tier, str(chunk.source_type), chunk.effective_from.isoformat())
        for chunk in answer.chunks
        if chunk.metadata
    }
    assert ("SOP-NPA-002", 1, "bank_sop", "2024-04-01") in found
    assert ("SOP-NPA-001", 4, "bank_sop", "2021-01-01") in found


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_become_errors_that_name_the_source(name: str, replay: Any) -> None:
    body = load(name)["response"]["body"]
    with pytest.raises(SourceError) as raised:
        replay(name)
    error = raised.value
    assert type(error) is expected_error(name)
    assert error.source_id == "sops" and "sops" in str(error) and DATASET in str(error)
    assert error.retryable is (type(error) in (SourceUnavailable, SourceRateLimited))
    words = body["message"] if isinstance(body, dict) else body
    assert words not in str(error), "what Dify says may hold SQL and hosts"
    assert error.__cause__ is None and error.__context__ is None


def test_the_rate_limit_says_when_to_come_back(replay: Any) -> None:
    with pytest.raises(SourceRateLimited) as raised:
        replay("161-rate-limited")
    assert raised.value.retry_after_s == 60
