"""Seed 000 through its own API: `context_engine.rag` on plain dicts."""

import copy
import json
import math
import threading
import warnings

import pytest

from context_engine import rag
from context_engine.errors import (
    AllSourcesFailed,
    ConfigError,
    ContextEngineError,
    DegradedRetrieval,
    InvalidFilter,
    InvalidRequest,
)
from context_engine.rag import create_rag_pipeline, get_chunking_strategy, get_rag_config, rerank, retrieve

pytestmark = pytest.mark.usefixtures("nothing_configured")

QUERY = "NPA classification criteria"
SOURCE_TYPES = ("system_of_record", "bank_sop", "industry_standard", "external_official", "general_web")
SUBJECTS = ("classification", "notional", "tenor", "collateral", "custody", "valuation", "liquidity", "conduct")
SEED_KEYS = {
    "stage1_top_k": 40,
    "stage2_top_k": 8,
    "min_relevance_score": 0.15,
    "max_chunk_tokens": 512,
    "dedup_threshold": 0.85,
    "reranking_enabled": True,
}
MANIFEST = """\
version: 1
domain: HANDBOOK
sources:
  - id: sops
    type: bank_sop
    documents:
      - include: "sops/*.md"
        doc_type: sop_document
  - id: web
    type: general_web
    documents:
      - include: "web/*.md"
"""


@pytest.fixture
def handbook(monkeypatch, tmp_path):
    """A domain HANDBOOK of two sources; `ingest(path)` fills them."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/handbook.yaml").write_text(MANIFEST)
    for name, text in {
        "sops/travel.md": "# Travel\n\n## 1 Hotels\n\nThe hotel limit is USD 250 a night.\n",
        "web/travel.md": "# Travel tips\n\nMany firms set no hotel limit at all.\n",
    }.items():
        (tmp_path / "documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "documents" / name).write_text(text)
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))

    def fill(*sources):
        from context_engine.adapters.sources.local import LocalBase
        from context_engine.ingest.run import ingest
        from context_engine.wiring.embedded_base import base_path
        from context_engine.wiring.setup import load_setup

        specs = [spec for spec in load_setup().registry.domain("HANDBOOK").sources if spec.id in sources]
        with LocalBase.open(base_path(tmp_path / "data"), create=True) as base, base.writer() as writer:
            ingest(tmp_path / "documents", specs, writer)

    return fill


def chunk(name, relevance=0.8, tier=2, **fields):
    words = SUBJECTS[sum(map(ord, name)) % len(SUBJECTS)]
    return {
        "content": f"Rule {name}: the {words} of product {name} is approved by desk {name}.",
        "chunk_id": name,
        "source_id": f"source_{tier}",
        "source_type": SOURCE_TYPES[tier - 1],
        "relevance_score": relevance,
        **fields,
    }


def adapter_of(*chunks):
    return lambda _query, _domain, _top_k: list(chunks)


def noting(asked, *chunks):
    """An adapter that notes the top_k it is asked for."""
    return lambda _query, _domain, top_k: asked.append(top_k) or list(chunks)


def ids(chunks):
    return [one["chunk_id"] for one in chunks]


# -- the pipeline -----------------------------------------------------------------------------------------------------


def test_A2_the_seeds_import_path_and_names():
    assert {"create_rag_pipeline", "retrieve", "rerank"} <= set(rag.__all__)


def test_A3_A6_the_adapter_is_called_once_positionally_with_three_arguments():
    calls = []

    def adapter(*given, **named):
        calls.append((given, named))
        return [chunk("a")]

    retrieve(QUERY, domain="NPA", options={"adapter": adapter})
    assert calls == [((QUERY, "NPA", 40), {})]


def test_A4_stage1_top_k_is_what_the_adapter_is_asked_for():
    asked = []
    adapter = noting(asked)
    retrieve(QUERY, options={"adapter": adapter})
    retrieve(QUERY, options={"adapter": adapter, "stage1_top_k": 50})
    create_rag_pipeline({"stage1_top_k": 60})["retrieve"](QUERY, options={"adapter": adapter})
    assert asked == [40, 50, 60]


def test_A4_an_adapter_that_gives_more_is_cut_at_stage1_top_k():
    found = retrieve(QUERY, options={"adapter": adapter_of(*map(chunk, "abcdef")), "stage1_top_k": 2})
    assert sorted(ids(found)) == ["a", "b"]
    assert found.result.sources[0].cut == 4


def test_A5_without_an_adapter_the_registered_sources_are_asked(handbook):
    handbook("sops", "web")
    found = retrieve("hotel limit", domain="HANDBOOK")
    assert [(one["source_id"], one["authority_tier"]) for one in found] == [("sops", 2), ("web", 5)]
    assert {source.source_id for source in found.result.sources} == {"sops", "web"}


def test_A5_an_unregistered_domain_gives_nothing_and_a_warning():
    with pytest.warns(UserWarning, match="unknown domain 'NPX'"):
        found = retrieve(QUERY, domain="NPX")
    assert found == []
    assert found.result is None


def test_A5_with_an_adapter_any_domain_may_be_named():
    [found] = retrieve(QUERY, domain="ANYTHING", options={"adapter": adapter_of(chunk("a"))})
    assert found["domain"] == "ANYTHING"


def test_A8_a_mock_adapter_may_be_a_generator():
    found = retrieve(QUERY, options={"adapter": lambda *_: (chunk(name) for name in "ab")})
    assert ids(found) == ["a", "b"]


def test_A9_eight_chunks_unless_told_otherwise():
    adapter = adapter_of(*(chunk(name, 0.9 - number / 100) for number, name in enumerate("abcdefghijkl")))
    assert ids(retrieve(QUERY, options={"adapter": adapter})) == list("abcdefgh")
    assert ids(retrieve(QUERY, options={"adapter": adapter, "stage2_top_k": 10})) == list("abcdefghij")


def test_A10_the_least_relevance_is_015_and_has_an_alias():
    adapter = adapter_of(chunk("at", 0.15), chunk("below", 0.1499), chunk("high", 0.9))
    assert ids(retrieve(QUERY, options={"adapter": adapter})) == ["high", "at"]
    for name in ("min_relevance", "min_relevance_score"):
        assert ids(retrieve(QUERY, options={"adapter": adapter, name: 0.5})) == ["high"]


def test_A10_both_names_of_the_least_relevance_are_one_too_many():
    with pytest.raises(InvalidRequest, match="min_relevance"):
        retrieve(QUERY, options={"adapter": adapter_of(), "min_relevance": 0.2, "min_relevance_score": 0.2})


def test_A10_a_record_without_relevance_is_not_carried_by_its_boost():
    """0.6 * 0 + 0.4 * 0.4 = 0.16 would be above 0.15."""
    assert ids(retrieve(QUERY, options={"adapter": adapter_of(chunk("record", 0.0, 1), chunk("web", 0.2, 5))})) == [
        "web"
    ]


def test_A13_a_record_above_a_standard_of_similar_relevance():
    found = rerank(QUERY, [chunk("standard", 0.80, 3), chunk("record", 0.70, 1)])
    assert ids(found) == ["record", "standard"]  # 0.42 + 0.16 = 0.58 against 0.48 + 0.08 = 0.56
    assert [one["_rag_score"] for one in found] == [0.58, 0.56]


def test_A14_the_first_200_characters_alone_do_not_decide():
    head = "Meridian Harbour Bank, group procedure, internal use only. " * 4
    assert len(head) > 200
    chunks = [chunk("a", content=head + "The limit is 5 %."), chunk("b", content=head + "The limit is 7 %.")]
    assert ids(rerank(QUERY, chunks)) == ["a", "b"]


RULE = (
    "A proposal that exceeds the materiality threshold is presented to the product approval committee together with "
    "the risk assessment, the legal opinion, the readiness checklist and the signed term sheet of the desk."
)


def test_A15_a_near_duplicate_is_merged_into_the_higher_tier_and_listed():
    chunks = [chunk("web", 0.9, 5, content=RULE.replace("signed ", "")), chunk("sop", 0.7, 2, content=RULE)]
    [found] = rerank(QUERY, chunks)
    assert found["chunk_id"] == "sop"
    assert [one["chunk_id"] for one in found["_provenance"]["extra"]["also_in"]] == ["web"]
    assert found["_relevance_score"] == 0.9  # the best of its members


def test_A15_the_threshold_is_a_setting():
    near = RULE.replace("risk assessment", "impact study").replace("term sheet", "draft")
    pair = [chunk("a", content=RULE), chunk("b", content=near)]
    strict = create_rag_pipeline({"dedup_threshold": 1.0})["rerank"](QUERY, pair)
    loose = create_rag_pipeline({"dedup_threshold": 0.5})["rerank"](QUERY, pair)
    assert (len(strict), len(loose)) == (2, 1)


# -- chunking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doc_type", "method", "size", "overlap", "metadata"),
    [
        ("sop_document", "section_aware", 512, 64, ["section_number", "version", "date"]),
        ("regulatory_notice", "section_aware", 384, 48, ["jurisdiction", "regulator", "id"]),
        ("template_document", "fixed_size", 512, 64, ["template_id", "version"]),
        ("entity_record", "field_level", 256, 0, ["entity_id", "fetched_at"]),
        ("default", "fixed_size", 512, 64, []),
    ],
)
def test_A16_A17_A18_chunking_by_document_type(doc_type, method, size, overlap, metadata):
    row = {"method": method, "chunk_size": size, "overlap": overlap, "metadata_fields": metadata}
    assert get_chunking_strategy(doc_type) == row
    assert get_rag_config()["chunking_strategies"][doc_type] == row


@pytest.mark.parametrize("doc_type", ["no_such_type", "", "SOP_DOCUMENT"])
def test_A16_an_unknown_type_gets_the_default_row(doc_type):
    assert get_chunking_strategy(doc_type) == get_chunking_strategy("default")


def test_A16_a_row_can_be_changed_for_one_pipeline():
    pipeline = create_rag_pipeline({"chunking_strategies": {"sop_document": {"chunk_size": 256}}})
    assert pipeline["get_chunking_strategy"]("sop_document")["chunk_size"] == 256
    assert pipeline["get_chunking_strategy"]("sop_document")["overlap"] == 64
    assert get_chunking_strategy("sop_document")["chunk_size"] == 512


# -- provenance -------------------------------------------------------------------------------------------------------


TAG = ["source_id", "source_type", "authority_tier", "trust_class", "fetched_at", "ttl_seconds", "extra"]


@pytest.mark.parametrize("tier", [1, 2, 3, 4, 5])
def test_A19_every_chunk_has_the_seven_keys_and_its_numbers(tier):
    boost = (0.40, 0.30, 0.20, 0.10, 0.00)[tier - 1]
    [found] = rerank(QUERY, [chunk("a", 0.87654321, tier)])
    assert list(found["_provenance"]) == TAG
    assert found["_rag_score"] == round(0.6 * 0.87654321 + 0.4 * boost, 4)
    assert found["_relevance_score"] == 0.8765
    assert found["_authority_boost"] == boost
    tag = found["_provenance"]
    assert (tag["source_id"], tag["source_type"], tag["authority_tier"]) == (
        f"source_{tier}",
        SOURCE_TYPES[tier - 1],
        tier,
    )
    assert (tag["extra"]["chunk_id"], tag["extra"]["rag_score"]) == ("a", found["_rag_score"])


def test_A19_a_bare_text_gets_a_whole_tag_that_says_what_was_filled_in():
    [found] = retrieve(QUERY, options={"adapter": adapter_of({"content": "The classification criteria."})})
    tag = found["_provenance"]
    assert list(tag) == TAG
    assert (tag["source_type"], tag["authority_tier"], tag["trust_class"], tag["ttl_seconds"]) == (
        "general_web",
        5,
        "UNTRUSTED",
        3600,
    )
    assert tag["fetched_at"].endswith("Z")
    assert {"source_type", "authority_tier", "trust_class", "fetched_at", "ttl_seconds"} <= set(
        tag["extra"]["defaulted"]
    )


def test_A20_A21_trust_and_freshness_are_read_from_top_level_then_tag_then_metadata():
    given = chunk("a", fetched_at="2025-06-15T05:30:00Z", metadata={"ttl_seconds": 60, "fetched_at": "2020-01-01"})
    given["_provenance"] = {"trust_class": "UNTRUSTED", "fetched_at": "2021-01-01T00:00:00Z"}
    [found] = rerank(QUERY, [given])
    tag = found["_provenance"]
    assert (tag["fetched_at"], tag["ttl_seconds"], tag["trust_class"]) == ("2025-06-15T05:30:00Z", 60, "UNTRUSTED")
    assert tag["extra"]["freshness"] == "expired"


def test_what_was_ranked_can_be_ranked_again_with_the_same_result():
    once = rerank(QUERY, [chunk("a", 0.8, 1), chunk("b", 0.9, 5)])
    twice = rerank(QUERY, once)
    strip = {"fetched_at": None, "extra": None}
    assert ids(twice) == ids(once)
    assert [one["_provenance"] | strip for one in twice] == [one["_provenance"] | strip for one in once]
    assert [one["_rag_score"] for one in twice] == [one["_rag_score"] for one in once]


# -- the calls --------------------------------------------------------------------------------------------------------


def test_A22_create_rag_pipeline():
    pipeline = create_rag_pipeline({"stage2_top_k": 3})
    assert set(pipeline) == {"retrieve", "rerank", "get_config", "get_chunking_strategy"}
    found = pipeline["retrieve"](QUERY, domain="NPA", options={"adapter": adapter_of(*map(chunk, "abcdef"))})
    assert ids(found) == ["a", "b", "c"]
    assert pipeline["get_config"]()["stage2_top_k"] == 3


def test_A22_overrides_belong_to_one_pipeline_alone():
    config = {"stage2_top_k": 3, "min_relevance": 0.5}
    first, second = create_rag_pipeline(config), create_rag_pipeline({"stage2_top_k": 5})
    config["stage2_top_k"] = 1
    adapter = adapter_of(*(chunk(name, 0.4 if name == "a" else 0.8) for name in "abcdef"))

    def returned(pipeline):
        return ids(pipeline["retrieve"](QUERY, options={"adapter": adapter}))

    assert returned(first) == ["b", "c", "d"]
    assert returned(second) == ["b", "c", "d", "e", "f"]
    assert returned(first) == ["b", "c", "d"]
    assert len(retrieve(QUERY, options={"adapter": adapter})) == 6
    assert get_rag_config()["stage2_top_k"] == 8


def test_A22_a_pipeline_cannot_be_changed_from_outside():
    pipeline = create_rag_pipeline()
    with pytest.raises(TypeError):
        pipeline["retrieve"] = None
    pipeline["get_config"]()["stage2_top_k"] = 1
    pipeline["get_config"]()["authority_boosts"]["tier_5"] = 1.0
    assert pipeline["get_config"]()["stage2_top_k"] == 8
    assert pipeline["get_config"]()["authority_boosts"]["tier_5"] == 0.0


def test_A22_options_win_over_the_pipeline():
    pipeline = create_rag_pipeline({"stage2_top_k": 3})
    adapter = adapter_of(*map(chunk, "abcdef"))
    found = pipeline["retrieve"](QUERY, options={"adapter": adapter, "stage2_top_k": 2})
    assert len(found) == 2
    assert found.result.settings.origins["stage2_top_k"] == "call"


def test_A23_retrieve_with_the_seeds_options():
    calls = []

    def my_dify_adapter(query, domain, top_k):
        calls.append((query, domain, top_k))
        return [chunk(f"c{number}", 0.9 - number / 100) for number in range(20)]

    options = {"adapter": my_dify_adapter, "stage1_top_k": 50, "stage2_top_k": 10}
    found = retrieve("risk assessment framework", domain="NPA", options=options)
    assert calls == [("risk assessment framework", "NPA", 50)]
    assert len(found) == 10
    assert options == {"adapter": my_dify_adapter, "stage1_top_k": 50, "stage2_top_k": 10}


def test_A23_the_list_carries_the_whole_result():
    found = retrieve(QUERY, options={"adapter": adapter_of(chunk("a"), chunk("b", 0.1))})
    assert isinstance(found, list)
    assert json.loads(json.dumps(found)) == found
    assert {fate.chunk_id: fate.reason for fate in found.result.fates} == {"a": "returned", "b": "below_min_relevance"}


def test_A23_scope_applies_where_asked_for():
    adapter = adapter_of({"content": "Canteen and approval hours.", "chunk_id": "c"})
    options = {"adapter": adapter, "scope_threshold": 0.9, "min_relevance": 0.0}
    assert retrieve("approval limit for swaps", options=options) == []
    lenient = {"adapter": adapter, "min_relevance": 0.1}
    assert ids(retrieve("approval hours of the canteen", options=lenient)) == ["c"]
    weak = {"adapter": adapter_of(chunk("c", 0.1)), "min_relevance": 0.05}
    assert ids(retrieve(QUERY, options=weak)) == ["c"]
    assert retrieve(QUERY, options=weak | {"out_of_scope": True, "scope_threshold": 0.15}) == []


@pytest.mark.parametrize("config", [{"scope_threshold": 0.9}, {"search": {"scope_threshold": 0.9}}])
def test_A23_a_scope_threshold_of_a_pipeline_holds_flat_or_in_its_group(config):
    adapter = adapter_of(chunk("c", 0.5))
    assert ids(retrieve(QUERY, options={"adapter": adapter})) == ["c"]
    assert create_rag_pipeline(config)["retrieve"](QUERY, options={"adapter": adapter}) == []


def test_A24_rerank_alone_runs_all_of_stage_2():
    chunks = [
        chunk("web", 0.82, 5, content=RULE),
        chunk("low", 0.1),
        chunk("sop", 0.8),
        chunk("copy", 0.7, 2, content=RULE),
    ]
    found = rerank("query", chunks, top_k=8)
    # 0.6 * 0.82 + 0.12 = 0.612 for the pair, kept under its tier 2; 0.6 * 0.8 + 0.12 = 0.6
    assert [(one["chunk_id"], one["_rag_score"]) for one in found] == [("copy", 0.612), ("sop", 0.6)]
    assert ids(rerank("query", chunks, top_k=1)) == ["copy"]
    assert len(rerank("query", [chunk(f"c{number}") for number in range(20)])) == 8


def test_A24_rerank_of_nothing_is_nothing():
    assert rerank("query", []) == []


def test_A25_the_configuration_is_optional_and_the_defaults_are_built_in():
    config = get_rag_config()
    assert {key: config[key] for key in SEED_KEYS} == SEED_KEYS


def test_A25_config_rag_pipeline_json_is_read(tmp_path):
    changed = {
        "stage1_top_k": 20,
        "stage2_top_k": 4,
        "min_relevance_score": 0.3,
        "max_chunk_tokens": 256,
        "dedup_threshold": 0.9,
        "reranking_enabled": False,
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text(json.dumps(changed))
    config = get_rag_config()
    assert {key: config[key] for key in SEED_KEYS} == changed
    asked = []
    adapter = noting(asked, *map(chunk, "abcdefg"))
    assert len(retrieve(QUERY, options={"adapter": adapter})) == 4
    assert asked == [20]
    assert len(create_rag_pipeline({"stage2_top_k": 5})["retrieve"](QUERY, options={"adapter": adapter})) == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"stage2_top_k": ', "rag-pipeline.json"),
        ('{"stage2_topk": 3}', "Did you mean 'stage2_top_k'"),
        ('{"stage2_top_k": "5"}', "from 1 to 1000"),
        ("[]", "rag-pipeline.json"),
    ],
)
def test_A25_a_file_that_cannot_be_used_says_which_and_why(tmp_path, text, said):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        get_rag_config()
    assert said in str(caught.value)


def test_A26_reranking_enabled_switches_the_model_reranker_and_nothing_else():
    """Dedup, filter and authority stay."""
    chunks = [
        chunk("web", 0.8, 5),
        chunk("sop", 0.8),
        chunk("low", 0.1),
        chunk("copy", 0.7, content=chunk("sop")["content"]),
    ]
    off = create_rag_pipeline({"reranking_enabled": False})["rerank"](QUERY, chunks)
    assert ids(off) == ids(rerank(QUERY, chunks)) == ["sop", "web"]


def test_A27_max_chunk_tokens():
    assert get_rag_config()["max_chunk_tokens"] == 512
    with pytest.raises(ConfigError, match="max_chunk_tokens"):
        create_rag_pipeline({"max_chunk_tokens": 0})


# -- what comes in ----------------------------------------------------------------------------------------------------


def test_inputs_are_not_changed():
    chunks = [
        chunk("a", metadata={"tags": ["x"], "nested": {"y": [1]}}),
        chunk("b", content=RULE),
        chunk("c", content=RULE),
    ]
    options = {"adapter": adapter_of(*chunks), "filters": {"tags": ["x", "z"]}}
    before, options_before = copy.deepcopy(chunks), {**options, "filters": {"tags": ["x", "z"]}}
    found = retrieve(QUERY, options=options)
    found[0]["metadata"]["tags"].append("changed")
    found[0]["metadata"]["nested"]["y"].append(2)
    rerank(QUERY, chunks)
    assert chunks == before
    assert options == options_before


def test_unknown_keys_survive():
    given = chunk("a", colour="red", nested={"x": [1, 2]}, metadata={"author": "Desk", "pages": [3]})
    for found in (rerank(QUERY, [given]), retrieve(QUERY, options={"adapter": adapter_of(given)})):
        assert (found[0]["colour"], found[0]["nested"]) == ("red", {"x": [1, 2]})
        assert found[0]["metadata"] == {"author": "Desk", "pages": [3]}
        assert found[0]["relevance_score"] == 0.8


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.1, 1.1, "high", True])
def test_relevance_that_is_no_relevance_counts_as_absent_with_a_warning(value):
    good, bad = chunk("good", 0.5), chunk("bad", value, content="NPA classification criteria.")
    found = rerank(QUERY, [good, bad])
    by_id = {one["chunk_id"]: one for one in found}
    assert by_id["bad"]["_relevance_score"] == 1.0  # a pool of one: the share of the question that it holds
    assert by_id["good"]["_relevance_score"] == 0.5
    assert {(one.code, one.detail["chunk_id"]) for one in found.result.notices} == {("score_unusable", "bad")}
    json.dumps(found, allow_nan=False)


def test_a_score_without_a_kind_never_counts_as_relevance():
    """It may be a distance: the engine measures the text itself."""
    near = {"content": "The NPA classification criteria.", "chunk_id": "near", "score": 0.01}
    far = {"content": "Canteen hours and criteria of the menu.", "chunk_id": "far", "score": 0.99}
    assert ids(rerank(QUERY, [far, near]))[0] == "near"


# -- sources that fail ------------------------------------------------------------------------------------------------


def test_a_source_that_is_missing_is_a_warning_and_the_rest_is_returned(handbook):
    handbook("sops")
    with pytest.warns(DegradedRetrieval, match="web"):
        found = retrieve("hotel limit", domain="HANDBOOK")
    assert ids(found) and {one["source_id"] for one in found} == {"sops"}
    assert found.result.status == "degraded"


def test_nothing_is_warned_of_where_all_answer(handbook):
    handbook("sops", "web")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(retrieve("hotel limit", domain="HANDBOOK")) == 2


def test_if_every_source_fails_it_raises_with_every_status(handbook):
    with pytest.raises(AllSourcesFailed) as caught:
        retrieve("hotel limit", domain="HANDBOOK")
    assert [status.source_id for status in caught.value.statuses] == ["sops", "web"]


@pytest.mark.parametrize("given", [None, "text", b"bytes", {"content": "a"}, 5])
def test_an_adapter_that_returns_no_list_has_failed(given):
    with pytest.raises(AllSourcesFailed, match=type(given).__name__):
        retrieve(QUERY, options={"adapter": lambda *_: given})


def test_an_adapter_that_raises_has_failed_and_its_text_is_not_shown():
    def adapter(*_):
        raise RuntimeError("key sk-secret was refused")

    with pytest.raises(AllSourcesFailed, match="RuntimeError") as caught:
        retrieve(QUERY, options={"adapter": adapter})
    assert "sk-secret" not in str(caught.value)


# -- bad input --------------------------------------------------------------------------------------------------------


BAD_TOP_K = [0, -1, "5", True, 10**9, 5.0, math.nan, None]


@pytest.mark.parametrize("value", BAD_TOP_K)
@pytest.mark.parametrize("name", ["stage1_top_k", "stage2_top_k"])
def test_a_top_k_that_cannot_be_used_is_refused_before_any_source_is_called(name, value):
    called = []
    options = {"adapter": lambda *given: called.append(given) or [], name: value}
    with pytest.raises(InvalidRequest, match=f"{name} must be"):
        retrieve(QUERY, options=options)
    if value is not None:
        with pytest.raises(ConfigError, match=name):
            create_rag_pipeline({name: value})
    assert called == []


@pytest.mark.parametrize("value", BAD_TOP_K)
def test_rerank_refuses_a_top_k_that_cannot_be_used(value):
    with pytest.raises(InvalidRequest, match="top_k must be"):
        rerank("query", [chunk("a")], top_k=value)


@pytest.mark.parametrize("query", ["", "  \n\t", "x" * 100_000, "a\x00b", "\udcff", None, b"query", 5])
def test_a_query_that_cannot_be_used_is_refused_before_any_source_is_called(query):
    called = []
    for ask in (
        lambda: retrieve(query, options={"adapter": lambda *given: called.append(given) or []}),
        lambda: rerank(query, [chunk("a")]),
    ):
        with pytest.raises(InvalidRequest, match="query"):
            ask()
    assert called == []


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"chunk_id": "a"}, "no text in 'content'"),
        ({"content": " \n"}, "no text in 'content'"),
        ({"content": None}, "no text in 'content'"),
        ({"content": "a", "authority_tier": 0}, "from 1 to 5"),
        ({"content": "a", "authority_tier": 9}, "from 1 to 5"),
        ({"content": "a", "authority_tier": True}, "from 1 to 5"),
        ({"content": "a", "source_type": "bank_shop"}, "Did you mean 'bank_sop'"),
        ({"content": "a", "score": 1, "score_kind": "cosin"}, "Did you mean 'cosine'"),
        ("text", "must be a dict"),
    ],
)
def test_a_chunk_that_cannot_be_used_is_refused_by_rerank_and_left_out_of_an_answer(bad, said):
    with pytest.raises(InvalidRequest) as caught:
        rerank(QUERY, [chunk("a"), bad])
    assert said in str(caught.value)
    found = retrieve(QUERY, options={"adapter": adapter_of(chunk("a"), bad)})
    assert ids(found) == ["a"]
    (notice,) = found.result.notices
    assert notice.code == "chunk_unreadable" and said in notice.detail["problem"]


@pytest.mark.parametrize("chunks", [None, 5, "text", {"content": "a"}])
def test_what_is_no_list_of_chunks_is_refused(chunks):
    with pytest.raises(InvalidRequest, match="chunks must be a list"):
        rerank(QUERY, chunks)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stage2_topk": 3}, "Did you mean 'stage2_top_k'"),
        ({"min_relevance": math.nan}, "from 0 to 1"),
        ({"min_relevance": "high"}, "from 0 to 1"),
        ({"adapter": 3}, "must be a function"),
        ({"as_of": "30.6.2025"}, "as_of must be a date"),
        ({"strict": "false"}, "strict must be true or false"),
        ({"out_of_scope": 0}, "out_of_scope must be true or false"),
        ({"require_tiers": [9]}, "tiers 1 to 5"),
        ({"require_tiers": 1}, "must be a list"),
        ({"require_sources": "adapter"}, "must be a list"),
        ({"require_sources": ["nope"]}, "no source 'nope'"),
        ({"caller": 5}, "must be a mapping"),
        ({"caller": {"principle": "x"}}, "Did you mean 'principal'"),
        ({"persona": "nobody"}, "persona"),
        ({"reranker": "acme"}, "in CONTEXT_ENGINE_RERANKER or in the pipeline config"),
        ("adapter", "must be a mapping"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_with_the_way_out(options, said):
    given = {"adapter": adapter_of(chunk("a")), **options} if isinstance(options, dict) else options
    with pytest.raises(ContextEngineError) as caught:
        retrieve(QUERY, options=given)
    assert said in str(caught.value)


def test_a_filter_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidFilter, match="a ! b"):
        retrieve(QUERY, options={"adapter": adapter_of(), "filters": "a ! b"})


@pytest.mark.parametrize("domain", ["", "  ", None])
def test_a_domain_that_is_no_name_is_refused(domain):
    with pytest.raises(InvalidRequest, match="domain"):
        retrieve(QUERY, domain=domain, options={"adapter": adapter_of(chunk("a"))})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"stage2_topk": 3}, "Did you mean 'stage2_top_k'"),
        ({"authority_weight": math.nan}, "from 0 to 1"),
        ({"dedup_threshold": 0}, "dedup_threshold"),
        ({"chunking_strategies": {"sop_document": {"chunk_size": 3}}}, "chunking_strategies.sop_document"),
        ({"chunking_strategies": 5}, "chunking_strategies"),
        (5, "must be a mapping"),
    ],
)
def test_a_pipeline_config_that_cannot_be_used_is_refused_when_it_is_made(config, said):
    with pytest.raises(ContextEngineError) as caught:
        create_rag_pipeline(config)
    assert said in str(caught.value)


def test_weights_of_a_pipeline_that_add_up_to_more_than_one_are_refused_when_it_is_made():
    with pytest.raises(
        ContextEngineError, match=r"relevance_weight 0\.9 and authority_weight 0\.4 .* set authority_weight"
    ):
        create_rag_pipeline({"relevance_weight": 0.9})
    assert create_rag_pipeline({"relevance_weight": 0.9, "authority_weight": 0.1})


@pytest.mark.parametrize(
    ("key", "meant"), [("adaptor", "adapter"), ("stage1_topk", "stage1_top_k"), ("filter", "filters")]
)
def test_a_misspelt_option_is_refused_where_the_domain_is_not_registered_too(key, meant):
    with pytest.raises(InvalidRequest, match=f"option '{key}': unknown key. Did you mean '{meant}'"):
        retrieve(QUERY, domain="NOWHERE", options={key: adapter_of(chunk("a"))})


def test_an_adapter_that_hangs_is_waited_for_once_by_a_pipeline():
    release, called = threading.Event(), []
    pipeline = create_rag_pipeline({"source_timeout_s": 0.2})

    def adapter(query, _domain, _top_k):
        called.append(query)
        release.wait(30)
        return []

    for expected in ("no answer within 0.2 s", "still busy", "still busy"):
        with pytest.raises(AllSourcesFailed, match=expected):
            pipeline["retrieve"](QUERY, options={"adapter": adapter})
    release.set()
    assert called == [QUERY]
