"""What FakeDify does beyond the recordings: vectors, filters, versions, rate limit, log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log
from typing import Any

import httpx
import pytest

from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment

RERANKER = ("langgenius/fake/fake", "fake-rerank")
TEXTS = ["Approval needs the committee.", "Records are kept for seven years.", "The committee meets on Mondays."]
RULES = FakeDataset("Rules", documents=[FakeDocument("Rules", TEXTS, {"tier": "tier1", "year": 2024, "code": "a_b"})])
BOTH = FakeDataset(
    "Both",
    documents=[
        FakeDocument("one", ["alpha one", "beta one"], {"tier": "tier1", "year": 2024}),
        FakeDocument("two", ["alpha two"], {"tier": "tier2", "year": 2020, "code": "axb"}),
        FakeDocument("none", ["alpha none"]),
    ],
)

Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def ask(client: httpx.Client) -> Ask:
    """Retrieve; keyword arguments go into the retrieval model."""

    def retrieve(dify: FakeDify, dataset: str, query: str, method: str = "semantic_search", **more: Any) -> Any:
        model = {"search_method": method, "reranking_enable": False, "top_k": 10, "score_threshold_enabled": False}
        return client.post(
            f"{dify.base_url}/v1/datasets/{dify.dataset_id(dataset)}/retrieve",
            headers={"Authorization": f"Bearer {dify.api_key}"},
            json={"query": query, "retrieval_model": {**model, **more}},
        )

    return retrieve


def texts(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [record["segment"]["content"] for record in answer.json()["records"]]


def scores(answer: httpx.Response) -> list[float]:
    return [record["score"] for record in answer.json()["records"]]


def names(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {record["segment"]["document"]["name"] for record in answer.json()["records"]}


def filtered(*conditions: dict[str, Any], logic: str = "and") -> dict[str, Any]:
    return {"logical_operator": logic, "conditions": list(conditions)}


def condition(name: str, operator: str, value: Any) -> dict[str, Any]:
    return {"name": name, "comparison_operator": operator, "value": value}


@pytest.fixture(scope="module")
def dify() -> Iterator[FakeDify]:
    weights = {
        "vector_setting": {"vector_weight": 0.0, "embedding_provider_name": "p", "embedding_model_name": "m"},
        "keyword_setting": {"keyword_weight": 1.0},
    }
    reranked = FakeDataset("Reranked", documents=RULES.documents, reranker=RERANKER)
    saved = {"search_method": "hybrid_search", "reranking_mode": "weighted_score", "weights": weights, "top_k": 2}
    weighted = FakeDataset(
        "Weighted",
        documents=RULES.documents,
        embedding_model=("p", "m"),
        retrieval_model={**saved, "reranking_enable": False, "score_threshold_enabled": False},
    )
    parents = FakeDataset(
        "Parents",
        documents=[FakeDocument("P", [FakeSegment("A b. C d.", children=["alpha beta", "alpha gamma"]), "other text"])],
        doc_form="hierarchical_model",
    )
    legs = FakeDataset("Legs", documents=[FakeDocument("L", ["alpha", "alpha alpha alpha beta gamma delta"])])
    qa = FakeDataset(
        "QA", documents=[FakeDocument("Q", [FakeSegment("Who approves?", "The board.")])], doc_form="qa_model"
    )
    with FakeDify([RULES, BOTH, reranked, weighted, parents, legs, qa]) as dify:
        yield dify


def test_semantic_search_answers_with_top_k_however_poor(dify: FakeDify, ask: Ask) -> None:
    answer = ask(dify, "Rules", "zebra", top_k=2)
    assert len(texts(answer)) == 2
    assert max(scores(answer)) < 0.5


def test_semantic_score_is_a_cosine_and_the_threshold_is_applied(dify: FakeDify, ask: Ask) -> None:
    answer = ask(dify, "Rules", "committee approval needs", score_threshold_enabled=True, score_threshold=0.9)
    assert texts(answer) == ["Approval needs the committee."]
    assert scores(answer) == [pytest.approx(1.0)]


def test_full_text_needs_every_term_and_ignores_the_threshold(dify: FakeDify, ask: Ask) -> None:
    options = {"method": "full_text_search", "score_threshold_enabled": True, "score_threshold": 0.9}
    assert texts(ask(dify, "Rules", "committee approval", **options)) == ["Approval needs the committee."]
    assert scores(ask(dify, "Rules", "committee", **options)) == [pytest.approx(0.0607927)] * 2
    assert texts(ask(dify, "Rules", "committee zebra", **options)) == []


def test_hybrid_without_a_reranker_is_not_cut_and_mixes_scales(dify: FakeDify, ask: Ask) -> None:
    answer = ask(dify, "Legs", "alpha", "hybrid_search", top_k=1)
    assert texts(answer) == ["alpha", "alpha alpha alpha beta gamma delta"]
    assert scores(answer) == [pytest.approx(1.0), pytest.approx(0.0607927 * (1 + log(3)))]


def test_hybrid_with_a_reranker_takes_its_scores_and_is_cut(dify: FakeDify, ask: Ask) -> None:
    model = {"reranking_provider_name": RERANKER[0], "reranking_model_name": RERANKER[1]}
    options = {"method": "hybrid_search", "reranking_enable": True, "reranking_model": model, "top_k": 1}
    answer = ask(dify, "Rules", "committee meets", **options)
    assert texts(answer) == ["The committee meets on Mondays."]
    assert scores(answer) == [1.0]


@pytest.mark.parametrize(("method", "status"), [("hybrid_search", 200), ("semantic_search", 400)])
def test_a_broken_reranker_empties_hybrid_search_without_a_word(
    dify: FakeDify, ask: Ask, method: str, status: int
) -> None:
    model = {"reranking_provider_name": "no/such/one", "reranking_model_name": "x"}
    answer = ask(dify, "Rules", "committee", method, reranking_enable=True, reranking_model=model)
    assert answer.status_code == status
    assert answer.json().get("records", []) == []


def test_saved_weights_are_used_where_the_request_brings_no_model(dify: FakeDify, client: httpx.Client) -> None:
    answer = client.post(
        f"{dify.base_url}/v1/datasets/{dify.dataset_id('Weighted')}/retrieve",
        headers={"Authorization": f"Bearer {dify.api_key}"},
        json={"query": "committee meets Mondays"},
    )
    assert texts(answer)[0] == "The committee meets on Mondays."
    assert scores(answer)[0] == pytest.approx(1.0)
    assert len(texts(answer)) == 2


def test_children_come_under_their_parent_with_the_best_score(dify: FakeDify, ask: Ask) -> None:
    record = ask(dify, "Parents", "alpha beta").json()["records"][0]
    assert record["segment"]["content"] == "A b. C d."
    assert [(child["content"], child["position"]) for child in record["child_chunks"]] == [
        ("alpha beta", 1),
        ("alpha gamma", 2),
    ]
    assert record["score"] == record["child_chunks"][0]["score"] == pytest.approx(1.0)


def test_question_and_answer(dify: FakeDify, ask: Ask) -> None:
    segment = ask(dify, "QA", "approves").json()["records"][0]["segment"]
    assert (segment["content"], segment["answer"]) == ("Who approves?", "The board.")


def test_keyword_search_finds_nothing_in_a_high_quality_dataset(dify: FakeDify, ask: Ask) -> None:
    assert texts(ask(dify, "Rules", "committee", "keyword_search")) == []


@pytest.mark.parametrize("top_k", [0, -1, "5", 2.5, None])
def test_vector_search_wants_a_positive_whole_top_k(dify: FakeDify, ask: Ask, top_k: Any) -> None:
    answer = ask(dify, "Rules", "committee", top_k=top_k)
    assert (answer.status_code, answer.json()["message"]) == (400, "top_k must be a positive integer")


@pytest.mark.parametrize(
    ("operator", "name", "value", "expected"),
    [
        ("contains", "tier", "ier1", {"one"}),
        ("not contains", "tier", "ier1", {"two"}),
        ("start with", "tier", "tier", {"one", "two"}),
        ("end with", "tier", "2", {"two"}),
        ("is", "tier", "tier1", {"one"}),
        ("=", "year", 2020, {"two"}),
        ("is not", "tier", "tier1", {"two"}),
        ("≠", "year", 2020, {"one"}),
        ("empty", "tier", None, {"none"}),
        ("not empty", "tier", None, {"one", "two"}),
        ("in", "tier", ["tier1", "tier2"], {"one", "two"}),
        ("in", "tier", "tier1, tier9", {"one"}),
        ("in", "tier", [], set()),
        ("not in", "tier", ["tier1"], {"two"}),
        ("not in", "tier", [], {"one", "two", "none"}),
        (">", "year", 2020, {"one"}),
        ("≥", "year", "2020", {"one", "two"}),
        ("<", "year", 2024, {"two"}),
        ("≤", "year", 2020, {"two"}),
        ("before", "year", 2021, {"two"}),
        ("after", "year", 2021, {"one"}),
        ("is", "tier", ["tier1"], {"one", "two", "none"}),
        ("is", "tier", None, {"one", "two", "none"}),
        ("is not", "nope", "x", set()),
        ("contains", "code", "a_b", {"two"}),
    ],
)
def test_filters(dify: FakeDify, ask: Ask, operator: str, name: str, value: Any, expected: set[str]) -> None:
    conditions = filtered(condition(name, operator, value))
    assert names(ask(dify, "Both", "alpha", metadata_filtering_conditions=conditions)) == expected


def test_filters_join_with_and_or(dify: FakeDify, ask: Ask) -> None:
    rows = [condition("tier", "is", "tier1"), condition("year", "=", 2020)]
    assert names(ask(dify, "Both", "alpha", metadata_filtering_conditions=filtered(*rows))) == set()
    either = filtered(*rows, logic="or")
    assert names(ask(dify, "Both", "alpha", metadata_filtering_conditions=either)) == {"one", "two"}


def test_one_version_drops_filters(ask: Ask) -> None:
    with FakeDify([BOTH], drop_filters=True) as dify:
        conditions = filtered(condition("tier", "is", "tier9"))
        assert names(ask(dify, "Both", "alpha", metadata_filtering_conditions=conditions)) == {"one", "two", "none"}


def test_a_newer_version_checks_types(ask: Ask, client: httpx.Client) -> None:
    with FakeDify([RULES], version="1.14.0") as dify:
        url = f"{dify.base_url}/v1/datasets/{dify.dataset_id('Rules')}/retrieve"
        headers = {"Authorization": f"Bearer {dify.api_key}"}
        partial = {"query": "committee", "retrieval_model": {"search_method": "semantic_search", "top_k": 3}}
        answer = client.post(url, headers=headers, json=partial)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_param")
        assert "retrieval_model.reranking_enable\n  Field required" in answer.json()["message"]
        assert answer.headers["x-version"] == "1.14.0"
        record = ask(dify, "Rules", "committee", top_k="1").json()["records"][0]
        assert (record["child_chunks"], record["files"], record["segment"]["keywords"]) == ([], [], [])
        page = client.get(f"{dify.base_url}/v1/datasets?limit=1", headers=headers).json()
        assert (page["has_more"], page["total"]) == (False, 1)


def test_refused_calls_count_against_the_rate_limit(ask: Ask) -> None:
    now = [0.0]
    with FakeDify([RULES], rate_limit=2, clock=lambda: now[0]) as dify:
        assert [ask(dify, "Rules", "x").status_code for _ in range(3)] == [200, 200, 403]
        now[0] = 59.0
        assert ask(dify, "Rules", "x").status_code == 403
        now[0] = 60.0  # the first three are out of the window, the fourth still counts
        assert [ask(dify, "Rules", "x").status_code for _ in range(2)] == [200, 403]


def test_the_log_keeps_requests_but_no_key(ask: Ask, client: httpx.Client) -> None:
    with FakeDify([RULES], cookies=True) as dify:
        answer = ask(dify, "Rules", "committee")
        client.get(f"{dify.base_url}/v1/datasets?page=2", headers={"Authorization": "Bearer dataset-other"})
        client.cookies.clear()
        first, second = dify.requests
        assert answer.headers["set-cookie"].startswith(f"x-token={dify.api_key}")
        assert (first.method, first.body["query"], first.authorized) == ("POST", "committee", True)
        assert (second.path, second.body, second.authorized) == ("/v1/datasets?page=2", None, False)
        assert second.headers["cookie"] == "***"
        assert dify.api_key not in repr(dify) + repr(dify.requests)


def test_put_replaces_a_dataset(ask: Ask) -> None:
    with FakeDify([RULES]) as dify:
        dify.put(FakeDataset("Rules", documents=[FakeDocument("new", ["The board approves."])]))
        assert texts(ask(dify, "Rules", "board")) == ["The board approves."]
        assert list(dify.dataset_ids) == ["Rules"]


def test_unknown_dataset_name_is_named_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="Did you mean 'Rules'"):
        FakeDify([RULES]).dataset_id("Rule")


def test_nothing_listens_before_start_and_after_stop() -> None:
    dify = FakeDify([RULES])
    with pytest.raises(RuntimeError, match="with statement"):
        _ = dify.base_url
    with dify:
        url = dify.base_url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_the_demo_bank_is_served(ask: Ask) -> None:
    with FakeDify.demo() as dify:
        assert len(dify.dataset_ids) == 20
        answer = ask(dify, "npa_sops", "criteria for a New Product classification", top_k=5)
        assert len(texts(answer)) == 5
        document = answer.json()["records"][0]["segment"]["document"]
        assert document["doc_metadata"]["authority_tier"] == 2
        assert texts(ask(dify, "npa_product_register", "classification scheme", "keyword_search"))
