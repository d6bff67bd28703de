"""The source over a real server: which calls it makes, what it makes of the answers, what it notes."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import Condition, ExaminationRequest, FilterOp, ScoreKind
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import (
    InvalidRequest,
    SourceAuthError,
    SourceForbidden,
    SourceNotFound,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment

TEXTS = [f"The approval limit of level {level}." for level in range(1, 6)]
DOCUMENTS = [FakeDocument("Limits", TEXTS, {"kind": "sop", "year": 2025})]


def documents(*kinds):
    return [
        FakeDocument(f"D{number}", [f"The approval limit number {number}."], {"kind": kind, "year": 2020 + number})
        for number, kind in enumerate(kinds)
    ]


@pytest.fixture
def serve():
    opened = []

    def run(*datasets, **options):
        dify = FakeDify(datasets, **options).start()
        opened.append(dify)
        return dify

    yield run
    for dify in opened:
        dify.stop()


@pytest.fixture
def over(make_source):
    """(server, names of datasets, settings) -> a source."""

    def make(dify, *names, connection=None, **settings):
        fields = {"api_key": dify.api_key, **(connection or {})}
        return make_source(dify.base_url, *map(dify.dataset_id, names), connection=fields, **settings)

    return make


def searches(dify):
    return [request.body for request in dify.requests if request.method == "POST"]


def model(dify, place=-1):
    return searches(dify)[place]["retrieval_model"]


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_query_without_text_is_refused_before_the_call(text, serve, over, ask):
    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    with pytest.raises(InvalidRequest):
        ask(over(dify, "D"), text)
    assert dify.requests == ()


def test_a_long_query_is_shortened_noted_and_ranked_by_the_whole(serve, over, ask):
    dify = serve(FakeDataset("D", "economy", DOCUMENTS))
    query = "Please tell me what the bank has to do about it and why " * 8 + "approval limit"
    answer = ask(over(dify, "D"), query)
    assert len(searches(dify)[0]["query"]) <= 250
    assert "approval limit" in searches(dify)[0]["query"]
    (notice,) = answer.notices
    searched = len(searches(dify)[0]["query"])
    assert notice.code == "query_shortened"
    assert notice.detail == {"given": len(query), "characters": searched, "limit": 250}
    assert len(answer.chunks) == 5


def test_an_economy_dataset_is_asked_for_more_and_ordered_here(serve, over, ask):
    dify = serve(FakeDataset("D", "economy", documents(*["sop"] * 30)), seed=3)
    answer = ask(over(dify, "D"), "approval limit number 17", top_k=4)
    assert (model(dify)["search_method"], model(dify)["top_k"]) == ("keyword_search", 100)
    assert answer.chunks[0].content == "The approval limit number 17."
    assert (len(answer.chunks), answer.cut) == (4, 26)
    assert all(chunk.scores == () for chunk in answer.chunks)


def test_an_empty_dataset_is_an_empty_answer(serve, over, ask):
    dify = serve(FakeDataset("D"), FakeDataset("E", "economy"))
    answer = ask(over(dify, "D", "E"))
    assert (answer.chunks, answer.failures) == ([], ())
    assert searches(dify) == []


def test_documents_that_came_into_an_empty_dataset_are_found_within_half_a_minute(serve, over, ask, clock):
    dify = serve(FakeDataset("D"))
    source = over(dify, "D", lookup_ttl_s=3600)
    assert ask(source).chunks == []
    dify.put(FakeDataset("D", documents=DOCUMENTS))
    clock.seconds += 31
    assert len(ask(source).chunks) == 5


@pytest.mark.parametrize(
    ("dataset", "error", "words"),
    [
        (FakeDataset("D", None, provider="external"), SourceForbidden, "never searches"),
        (FakeDataset("D", documents=DOCUMENTS, enable_api=False), SourceForbidden, "switched off"),
    ],
)
def test_datasets_that_cannot_be_searched(dataset, error, words, serve, over, ask):
    dify = serve(dataset)
    with pytest.raises(error, match=words) as raised:
        ask(over(dify, "D"))
    assert not raised.value.retryable
    assert searches(dify) == []


def test_an_index_that_is_not_there_is_an_error_not_an_empty_answer(serve, over, ask):
    dify = serve(FakeDataset("D", "economy", DOCUMENTS))
    dify.inject("status_500", endpoint="get")
    with pytest.raises(SourceNotFound, match="no index for this search method"):
        ask(over(dify, "D", indexing_technique="high_quality"))


def test_a_hybrid_search_whose_reranker_fails_is_asked_again_by_meaning(serve, over, ask):
    dify = serve(FakeDataset("D", documents=DOCUMENTS, retrieval_model=BROKEN))
    answer = ask(over(dify, "D", vector_store="pgvector"))
    assert [body["retrieval_model"]["search_method"] for body in searches(dify)] == ["hybrid_search", "semantic_search"]
    assert len(answer.chunks) == 5
    assert answer.notices[0].code == "hybrid_search_empty"
    assert {score.kind for chunk in answer.chunks for score in chunk.scores} == {ScoreKind.COSINE}


BROKEN = {
    "search_method": "hybrid_search", "reranking_enable": True, "reranking_mode": "reranking_model", "top_k": 4,
    "reranking_model": {"reranking_provider_name": "gone", "reranking_model_name": "gone"},
    "score_threshold_enabled": False,
}  # fmt: skip


def test_two_legs_where_the_budget_covers_them(serve, over, ask):
    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    settings = {"legs": ["semantic", "full_text"], "vector_store": "pgvector", "cache_ttl_s": 0}
    source = over(dify, "D", connection={"rate_per_minute": 3}, **settings)
    answer = ask(source)
    assert sorted(body["retrieval_model"]["search_method"] for body in searches(dify)) == [
        "full_text_search",
        "semantic_search",
    ]
    assert [score.kind for score in answer.chunks[0].scores] == [ScoreKind.RRF, ScoreKind.COSINE, ScoreKind.FULLTEXT]
    answer = ask(source)  # one call is left of three
    assert len(searches(dify)) == 3
    assert answer.notices[0].code == "leg_not_asked"
    assert len(answer.chunks) == 5


def test_the_rate_budget_is_kept_and_told(serve, over, ask, clock):
    dify = serve(*(FakeDataset(name, documents=DOCUMENTS) for name in "ABC"))
    source = over(dify, *"ABC", connection={"rate_per_minute": 10, "rate_share": 0.2}, cache_ttl_s=0)
    answer = ask(source)
    assert len(searches(dify)) == 2  # 10 * 0.2
    (failure,) = answer.failures
    assert isinstance(failure, SourceRateLimited)
    assert (failure.retry_after_s, failure.source_id) == (60.0, "sops")
    with pytest.raises(SourceRateLimited):
        ask(source)
    assert len(searches(dify)) == 2
    clock.seconds += 60
    assert len(ask(source).failures) == 1


def test_a_search_makes_no_more_calls_than_it_may(serve, over, ask):
    dify = serve(*(FakeDataset(name, documents=DOCUMENTS) for name in "ABC"))
    answer = ask(over(dify, *"ABC", max_calls=2))
    assert {chunk.dataset_id for chunk in answer.chunks} == {dify.dataset_id("A"), dify.dataset_id("B")}
    assert "max_calls" in str(answer.failures[0])
    assert dify.dataset_id("C") in str(answer.failures[0])


def test_retries_count_among_the_calls(serve, make_source, ask):
    dify = serve(FakeDataset("A", documents=DOCUMENTS), FakeDataset("B", documents=DOCUMENTS))
    dify.inject("status_500", dataset="A", endpoint="retrieve")
    source = make_source(
        dify.base_url, dify.dataset_id("A"), dify.dataset_id("B"), connection={"api_key": dify.api_key},
        own_clock=SystemClock(), max_calls=3, attempts=10,
    )  # fmt: skip
    assert len(ask(source).failures) == 1
    assert len(searches(dify)) == 3


def test_no_more_connections_than_allowed(serve, make_source, ask):
    dify = serve(*(FakeDataset(f"D{number}", documents=DOCUMENTS) for number in range(8)))
    dify.inject("delay", endpoint="retrieve", delay_s=0.05)
    source = make_source(
        dify.base_url, *(dify.dataset_id(f"D{number}") for number in range(8)), own_clock=SystemClock(),
        connection={"api_key": dify.api_key, "max_connections": 3},
    )  # fmt: skip
    assert len({chunk.dataset_id for chunk in ask(source, top_k=100).chunks}) == 8
    assert dify.most_connections <= 3


def test_answers_are_used_again_with_the_time_dify_gave_them(serve, over, ask, clock):
    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    source = over(dify, "D")
    first = ask(source)
    asked_at = clock.now()
    clock.seconds += 50
    again = ask(source)
    assert again.chunks == first.chunks
    assert again.retrieved_at == asked_at == clock.now() - timedelta(seconds=50)
    assert len(searches(dify)) == 1
    ask(source, top_k=11)
    clock.seconds += 11
    assert ask(source).retrieved_at == clock.now()
    assert len(searches(dify)) == 3


def test_an_old_answer_stands_in_where_the_manifest_allows_it(serve, over, ask, clock):
    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    source = over(dify, "D", stale_s=3600, attempts=1)
    first = ask(source)
    dify.inject("status_503", endpoint="retrieve")
    clock.seconds += 100
    again = ask(source)
    assert again.chunks == first.chunks
    assert again.retrieved_at == first.retrieved_at
    (notice,) = again.notices
    assert (notice.code, notice.detail["age_s"]) == ("stale_answer", 100)
    clock.seconds += 3600
    with pytest.raises(SourceUnavailable):
        ask(source)


def test_a_filter_is_pushed_down(serve, over, ask):
    dify = serve(FakeDataset("D", documents=documents("sop", "policy", "sop")))
    answer = ask(over(dify, "D"), filters=parse_filter({"kind": "sop", "year_gte": 2021}))
    assert [chunk.title for chunk in answer.chunks] == ["D2"]
    assert model(dify)["metadata_filtering_conditions"]["conditions"][1] == {
        "name": "year",
        "comparison_operator": "≥",
        "value": 2021,
    }
    assert answer.notes == ()


def test_a_filter_that_dify_drops_is_kept_here_and_that_is_noted(serve, over, ask):
    dify = serve(FakeDataset("D", documents=documents("sop", "policy", "sop")), drop_filters=True)
    answer = ask(over(dify, "D"), filters=parse_filter({"kind": "sop"}))
    assert sorted(chunk.title for chunk in answer.chunks) == ["D0", "D2"]
    assert answer.notices[0].code == "filter_ignored"


def test_under_a_filter_the_answer_says_which_fields_there_are(serve, over, ask):
    """Those that Dify describes, also where the filter leaves nothing."""
    source = over(serve(FakeDataset("D", documents=documents("sop", "policy"))), "D")
    none = ask(source, filters=parse_filter({"knd": "sop"}))
    assert list(none.chunks) == []
    assert {"kind", "year"} <= set(none.filter_fields)
    assert "knd" not in none.filter_fields
    assert ask(source).filter_fields is None


def test_a_rate_limit_halts_the_sources_of_its_key_at_its_server_and_no_others(serve, over, ask, clock):
    datasets = FakeDataset("D", documents=DOCUMENTS), FakeDataset("E", documents=DOCUMENTS)
    dify = serve(*datasets)
    other = serve(*datasets, api_key=dify.api_key)
    dify.inject("rate_limited", dataset="D", endpoint="retrieve", calls={1})
    with pytest.raises(SourceRateLimited):
        ask(over(dify, "D", attempts=1))
    clock.seconds += 1
    made = len(searches(dify))
    with pytest.raises(SourceRateLimited, match="Dify was not asked"):
        ask(over(dify, "E"))  # another source, another dataset, but the key's limit is the workspace's
    assert len(searches(dify)) == made
    with pytest.raises(SourceAuthError):  # with another key Dify is asked: it is another workspace
        ask(over(dify, "E", connection={"api_key": "dataset-of-another"}, indexing_technique="economy"))
    assert len(ask(over(other, "D")).chunks) == 5  # the same key, but another server


def test_keyword_search_filters_after_its_cut_so_it_is_asked_for_more(serve, over, ask):
    dify = serve(FakeDataset("D", "economy", documents(*["policy"] * 200, "sop")))
    answer = ask(over(dify, "D"), filters=parse_filter({"kind": "sop"}), top_k=1)
    assert model(dify)["top_k"] == 500
    assert [chunk.title for chunk in answer.chunks] == ["D200"]


def test_what_dify_cannot_test_is_tested_here_before_the_cut(serve, over, ask):
    dify = serve(FakeDataset("D", documents=documents(*["other"] * 30, "Special Case")))
    answer = ask(over(dify, "D"), filters=Condition("kind", FilterOp.CONTAINS, "special"), top_k=2)
    assert "metadata_filtering_conditions" not in model(dify)
    assert [chunk.title for chunk in answer.chunks] == ["D30"]
    answer = ask(over(dify, "D"), filters=Condition("tier", FilterOp.EQ, 2), top_k=2)
    assert len(answer.chunks) == 2
    assert ask(over(dify, "D"), filters=Condition("tier", FilterOp.EQ, 1)).chunks == []


def test_what_is_not_in_force_takes_no_place(serve, over, ask):
    rows = [
        FakeDocument(f"V{year}", ["The approval limit."], {"from": year * 10000 + 101}) for year in range(2010, 2030)
    ]
    dify = serve(FakeDataset("D", documents=rows))
    source = over(dify, "D", metadata={"effective_from": "from"})
    answer = ask(source, as_of=date(2011, 6, 1), top_k=3)
    assert sorted(chunk.title for chunk in answer.chunks) == ["V2010", "V2011"]


def test_a_dataset_named_twice_is_asked_once(serve, make_source, ask):
    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    one = dify.dataset_id("D")
    source = make_source(dify.base_url, one, one.upper(), connection={"api_key": dify.api_key})
    assert len(ask(source).chunks) == 5
    assert len(searches(dify)) == 1


def test_parents_with_their_children_and_questions_with_their_answers(serve, over, ask):
    parent = "Limits. The approval limit is 5 million. Other text."
    family = FakeSegment(parent, children=["The approval limit is 5 million.", "Other text."])
    pair = FakeSegment("What is the approval limit?", answer="5 million.")
    dify = serve(
        FakeDataset("P", documents=[FakeDocument("P", [family])], doc_form="hierarchical_model"),
        FakeDataset("Q", documents=[FakeDocument("Q", [pair])], doc_form="qa_model"),
    )
    found = {chunk.title: chunk for chunk in ask(over(dify, "P", "Q")).chunks}
    assert found["P"].content == parent
    assert [parent[start:end] for start, end in found["P"].extra["matched_spans"]] == family.children
    assert found["Q"].content == "What is the approval limit?\n\n5 million."


def test_newer_versions_answer_the_same(serve, over, ask):
    old, new = (serve(FakeDataset("D", documents=DOCUMENTS), version=version) for version in ("1.12.1", "1.14"))
    assert ask(over(old, "D")).chunks == ask(over(new, "D")).chunks


def test_all_failed_is_one_error_that_says_so(serve, over, ask):
    dify = serve(FakeDataset("A", documents=DOCUMENTS), FakeDataset("B", documents=DOCUMENTS))
    dify.inject("forbidden", endpoint="retrieve")
    with pytest.raises(SourceForbidden, match="all 2 calls failed"):
        ask(over(dify, "A", "B"))


def test_a_broken_dataset_is_left_alone_after_five_failures(serve, over, ask, clock):
    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    source = over(dify, "D", attempts=1)
    dify.inject("status_500", endpoint="retrieve", calls=range(1, 6))
    for _ in range(7):
        with pytest.raises(SourceUnavailable):
            ask(source)
    assert len(searches(dify)) == 5
    clock.seconds += 31
    assert len(ask(source).chunks) == 5


def test_part_of_an_answer_that_cannot_be_read_is_a_failure_beside_the_rest(serve, over, ask):
    from context_engine.testing.fake_dify import Fault

    dify = serve(FakeDataset("D", documents=DOCUMENTS))
    dify.inject(Fault(change=lambda body: {**body, "records": [*body["records"][:2], None]}), endpoint="retrieve")
    source = over(dify, "D")
    for _ in range(2):
        answer = ask(source)
        assert len(answer.chunks) == 2
        assert "1 record(s) could not be read" in str(answer.failures[0])
    assert len(searches(dify)) == 2, "such an answer is not kept"


def test_an_answer_says_whether_it_was_found_by_keywords_alone(serve, over, ask):
    dify = serve(
        FakeDataset("E", "economy", DOCUMENTS), FakeDataset("V", documents=DOCUMENTS), FakeDataset("0", "economy")
    )
    assert ask(over(dify, "E")).by_keywords is True
    assert ask(over(dify, "E", "0")).by_keywords is True
    assert ask(over(dify, "E", "V", vector_store="pgvector")).by_keywords is False
    assert ask(over(dify, "0")).by_keywords is False


def test_a_query_with_a_nul_is_refused_before_dify_finds_nothing_by_it(serve, over, ask):
    dify = serve(FakeDataset("E", "economy", DOCUMENTS))
    with pytest.raises(InvalidRequest, match="NUL"):
        ask(over(dify, "E"), "limit\x00")
    assert searches(dify) == []


def test_a_reranker_that_dify_does_not_know_is_named(serve, over, ask):
    unknown = {
        "search_method": "hybrid_search", "reranking_enable": True, "reranking_mode": "reranking_model",
        "reranking_model": {"reranking_provider_name": "acme", "reranking_model_name": "no-such"},
    }  # fmt: skip
    dify = serve(FakeDataset("D", documents=DOCUMENTS, retrieval_model=unknown))
    answer = ask(over(dify, "D", vector_store="pgvector"))
    assert answer.notices[0].code == "hybrid_search_empty"
    assert answer.notices[0].detail["reranker"] == "acme/no-such"


@pytest.mark.wording
def test_a_source_that_was_never_ingested_is_an_error_that_says_how(serve, make_source, ask):
    rules = [{"include": "**", "doc_type": "sop_document"}]
    source = make_source(serve().base_url, spec={"documents": rules})
    with pytest.raises(SourceNotFound, match=r"has no dataset yet: 'context-engine ingest .* --write-ids"):
        ask(source)
    examination = source.examine(ExaminationRequest(domain="NPA"))
    assert not examination.ok and "has no dataset yet" in str(examination.problem)
