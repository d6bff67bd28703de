"""How a dataset is searched."""

import pytest

from context_engine.adapters.sources.dify import DifySettings
from context_engine.adapters.sources.dify.dataset import choose, possible_kinds, read_info
from context_engine.core.models import ScoreKind
from context_engine.errors import SourceUnavailable

MODEL = {"reranking_provider_name": "acme", "reranking_model_name": "rank"}

WEIGHTS = {
    "vector_setting": {"vector_weight": 0.7, "embedding_provider_name": "acme", "embedding_model_name": "embed"},
    "keyword_setting": {"keyword_weight": 0.3},
}

COSINE = DifySettings(vector_store="qdrant")


def info(technique="high_quality", **model):
    body = {"id": "d", "name": "D", "indexing_technique": technique, "retrieval_model_dict": model}
    return read_info({**body, "embedding_model": "embed", "embedding_model_provider": "acme"})


def test_economy_is_searched_by_keyword_without_scores():
    method = choose("d", info("economy", reranking_enable=True, reranking_model=MODEL), DifySettings())
    assert (method.name, method.kind, method.ordered) == ("keyword_search", None, False)
    assert method.retrieval_model(5, None) == {
        "search_method": "keyword_search", "reranking_enable": False, "top_k": 5, "score_threshold_enabled": False,
    }  # fmt: skip


@pytest.mark.parametrize(("settings", "kind"), [(COSINE, ScoreKind.COSINE), (DifySettings(), ScoreKind.UNKNOWN)])
def test_high_quality_without_a_reranker_is_searched_by_meaning_alone(settings, kind):
    method = choose("d", info(search_method="hybrid_search", reranking_enable=False), settings)
    assert (method.name, method.kind, method.scorer) == ("semantic_search", kind, "acme/embed")


def test_high_quality_with_a_reranker_is_searched_both_ways():
    method = choose("d", info(reranking_enable=True, reranking_model=MODEL), COSINE)
    assert (method.name, method.kind, method.scorer) == ("hybrid_search", ScoreKind.RERANK, "acme/rank")
    assert method.retrieval_model(5, {"x": 1}) == {
        "search_method": "hybrid_search", "reranking_enable": True, "reranking_mode": "reranking_model",
        "reranking_model": MODEL, "top_k": 5, "score_threshold_enabled": False,
        "metadata_filtering_conditions": {"x": 1},
    }  # fmt: skip


@pytest.mark.parametrize(("settings", "kind"), [(COSINE, ScoreKind.WEIGHTED), (DifySettings(), ScoreKind.UNKNOWN)])
def test_high_quality_with_weights_is_searched_both_ways(settings, kind):
    method = choose("d", info(reranking_mode="weighted_score", weights=WEIGHTS), settings)
    assert (method.name, method.kind) == ("hybrid_search", kind)
    assert method.reranking["weights"] == WEIGHTS


@pytest.mark.parametrize(
    "model",
    [
        {"reranking_enable": True, "reranking_model": {"reranking_provider_name": "acme", "reranking_model_name": ""}},
        {"reranking_enable": True, "reranking_model": None},
        {"reranking_mode": "weighted_score", "weights": None},
        {
            "reranking_mode": "weighted_score",
            "weights": {"vector_setting": {"vector_weight": 1}, "keyword_setting": {}},
        },
        {"reranking_mode": "nonsense", "reranking_enable": True, "reranking_model": MODEL},
    ],
)
def test_what_would_give_an_empty_or_mixed_hybrid_answer_is_searched_by_meaning(model):
    assert choose("d", info(**model), COSINE).name == "semantic_search"


def test_legs():
    settings = DifySettings(legs=("semantic", "full_text"), vector_store="qdrant")
    described = info(reranking_enable=True, reranking_model=MODEL)
    semantic, text = (choose("d", described, settings, leg) for leg in ("semantic", "full_text"))
    assert (semantic.name, text.name) == ("semantic_search", "full_text_search")
    assert (text.kind, text.scorer) == (ScoreKind.FULLTEXT, "dify:d")
    assert choose("d", info("economy"), settings, "full_text") is None
    assert choose("d", info("economy"), settings, "semantic").name == "keyword_search"


def test_without_difys_word_the_manifest_decides():
    assert choose("d", None, DifySettings(indexing_technique="economy")).name == "keyword_search"
    assert choose("d", None, DifySettings(indexing_technique="high_quality")).name == "semantic_search"
    assert choose("d", info(None), DifySettings(indexing_technique="economy")).name == "keyword_search"
    with pytest.raises(SourceUnavailable, match="indexing_technique"):
        choose("d", None, DifySettings())


def test_declared_kinds():
    assert possible_kinds(DifySettings()) == {ScoreKind.RERANK, ScoreKind.UNKNOWN}
    assert ScoreKind.COSINE in possible_kinds(COSINE)
    assert {ScoreKind.FULLTEXT, ScoreKind.RRF} <= possible_kinds(DifySettings(legs=("semantic", "full_text")))
