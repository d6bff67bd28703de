"""Seed 000: the two stages, the scoring formula, the tiers, the tag; through the engine."""

import pytest

from context_engine.core.models import SearchRequest, Settings

SEED_TAG = {
    "source_id": "bank_sops",
    "source_type": "bank_sop",
    "authority_tier": 2,
    "trust_class": "TRUSTED",
    "fetched_at": "2026-03-02T10:00:00Z",
    "ttl_seconds": 3600,
    "extra": {"chunk_id": "chunk_042", "rag_score": 0.82},
}


def test_A1_query_broad_retrieval_dedup_rerank_filter_chunks(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.9)])])
    order = [stage.name for stage in result.stages]
    assert order[0] == "recall"
    assert order.index("dedup") < order.index("scope") < order.index("rerank") < order.index("select")


def test_A3_A6_the_adapter_is_called_with_query_domain_and_top_k(ask):
    calls = []

    def adapter(*given):
        calls.append(given)
        return [{"content": "The classification criteria.", "chunk_id": "c", "relevance_score": 0.9}]

    ask([(2, adapter)], query="NPA classification criteria")
    assert calls == [("NPA classification criteria", "NPA", 40)]


@pytest.mark.parametrize("top_k", [40, 1, 50, 1000])
def test_A4_stage1_top_k(ask, top_k):
    asked = []
    given = {} if top_k == 40 else {"stage1_top_k": top_k}
    ask([(2, lambda _query, _domain, top_k: asked.append(top_k) or [])], **given)
    assert asked == [top_k]


def test_A5_every_source_of_the_domain_is_asked(ask, chunk_of, spec_of):
    sources = [
        (spec_of(tier, f"s{tier}-{copy}"), [chunk_of("c", 0.5, f"{tier} {copy}")]) for tier in (1, 3) for copy in "ab"
    ]
    result = ask(sources)
    assert [(source.source_id, source.state) for source in result.sources] == [
        ("s1-a", "ok"),
        ("s1-b", "ok"),
        ("s3-a", "ok"),
        ("s3-b", "ok"),
    ]


def many(chunk_of, number):
    return [
        chunk_of(f"c{one:02d}", 0.9 - one / 1000, f"Rule {one} of {one * 7} concerns {one * 13}.")
        for one in range(number)
    ]


def test_A9_eight_chunks_are_returned(ask, chunk_of):
    assert len(ask([(2, many(chunk_of, 20))]).chunks) == 8
    assert len(ask([(2, many(chunk_of, 20))], stage2_top_k=10).chunks) == 10
    assert len(ask([(2, many(chunk_of, 3))], stage2_top_k=10).chunks) == 3


def test_A10_the_least_relevance_is_015(ask, chunk_of):
    chunks = [chunk_of("at", 0.15), chunk_of("below", 0.1499), chunk_of("above", 0.9)]
    assert [chunk.chunk_id for chunk in ask([(2, chunks)]).chunks] == ["above", "at"]
    assert [chunk.chunk_id for chunk in ask([(2, chunks)], min_relevance_score=0.5).chunks] == ["above"]
    assert len(ask([(2, chunks)], min_relevance_score=0.0).chunks) == 3


@pytest.mark.parametrize(
    ("relevance", "tier", "final"),
    [
        (0.9, 1, 0.6 * 0.9 + 0.4 * 0.40),
        (0.9, 2, 0.6 * 0.9 + 0.4 * 0.30),
        (0.9, 3, 0.6 * 0.9 + 0.4 * 0.20),
        (0.9, 4, 0.6 * 0.9 + 0.4 * 0.10),
        (0.9, 5, 0.6 * 0.9 + 0.4 * 0.00),
        (0.15, 1, 0.6 * 0.15 + 0.4 * 0.40),
        (1.0, 1, 0.76),
    ],
)
def test_A11_scoring_formula(ask, chunk_of, relevance, tier, final):
    [chunk] = ask([(tier, [chunk_of("c", relevance)])]).chunks
    assert chunk.final == final
    assert chunk.to_dict()["_rag_score"] == round(final, 4)


def test_A12_five_tiers(ask, chunk_of):
    result = ask([(tier, [chunk_of(f"c{tier}", 0.5)]) for tier in (5, 3, 1, 4, 2)])
    assert [(chunk.authority_tier, str(chunk.source_type), chunk.boost) for chunk in result.chunks] == [
        (1, "system_of_record", 0.40),
        (2, "bank_sop", 0.30),
        (3, "industry_standard", 0.20),
        (4, "external_official", 0.10),
        (5, "general_web", 0.00),
    ]


@pytest.mark.parametrize(
    ("record", "standard", "first"),
    [
        (0.80, 0.80, 1),
        (0.75, 0.80, 1),
        (0.70, 0.83, 1),  # 0.42 + 0.16 = 0.580 against 0.498 + 0.08 = 0.578
        (0.70, 0.84, 3),  # against 0.504 + 0.08 = 0.584
        (0.50, 0.90, 3),
    ],
)
def test_A13_the_record_is_above_the_standard_at_similar_relevance(ask, chunk_of, record, standard, first):
    result = ask([(3, [chunk_of("standard", standard)]), (1, [chunk_of("record", record)])])
    assert result.chunks[0].authority_tier == first


HEADER = "Meridian Harbour Bank. Standard operating procedure. Group new product approval. Internal use only. " * 3


def test_A14_a_shared_header_of_200_characters_does_not_merge_sections(ask, chunk_of):
    """The hash of the first 200 characters would: the sections differ only after it."""
    assert len(HEADER) > 200
    sections = [
        chunk_of(
            "scope", 0.9, HEADER + "Scope: every product that is new to the bank, its desks or its booking centres."
        ),
        chunk_of("limits", 0.8, HEADER + "Notional limits are reviewed each quarter by market risk and by finance."),
    ]
    assert len(ask([(2, sections)]).chunks) == 2


def test_A15_near_duplicates_are_removed_before_reranking(ask, chunk_of):
    text = (
        "A proposal that exceeds the materiality threshold is presented to the product approval committee "
        "together with the risk assessment, the legal opinion, the readiness checklist and the signed term sheet."
    )
    seen = []

    class Spy:
        name = "spy"

        def rerank(self, _query, chunks):
            seen.extend(chunk.chunk_id for chunk in chunks)

    sources = [(2, [chunk_of("sop", 0.8, text)]), (5, [chunk_of("web", 0.9, text.replace("signed ", ""))])]
    result = ask(sources, engine={"reranker": Spy()})
    assert seen == ["sop"]
    assert [member.chunk_id for member in result.chunks[0].also_in] == ["web"]
    assert Settings().dedup_threshold == 0.85


def test_A19_the_provenance_tag_has_the_seeds_keys_and_types(ask, spec_of):
    given = {
        "content": "A proposal.",
        "chunk_id": "chunk_042",
        "relevance_score": 0.9,
        "fetched_at": "2026-03-02T10:00:00Z",
    }
    [chunk] = ask([(spec_of(2, "bank_sops"), lambda _query, _domain, _top_k: [given])]).chunks
    tag = chunk.to_dict()["_provenance"]
    assert {key: type(value) for key, value in tag.items()} == {key: type(value) for key, value in SEED_TAG.items()}
    assert {**tag, "extra": None} == {**SEED_TAG, "extra": None}
    assert tag["extra"]["chunk_id"] == "chunk_042"
    assert tag["extra"]["rag_score"] == round(0.6 * 0.9 + 0.4 * 0.3, 4) == 0.66


def test_A19_the_examples_score_of_082_is_impossible_under_the_formula(ask, chunk_of):
    """0.6 * 1 + 0.4 * 0.3 = 0.72 is the most a tier-2 chunk can have."""
    [chunk] = ask([(2, [chunk_of("c", 1.0)])]).chunks
    assert chunk.final == 0.72 < SEED_TAG["extra"]["rag_score"]


def test_A20_trust_class_of_each_tier(ask, chunk_of):
    result = ask([(tier, [chunk_of(f"c{tier}", 0.5)]) for tier in range(1, 6)])
    assert [chunk.provenance.trust_class for chunk in result.chunks] == ["TRUSTED"] * 4 + ["UNTRUSTED"]


@pytest.mark.parametrize(
    ("fetched_at", "ttl", "state"),
    [
        ("2026-03-02T09:00:00Z", 3600, "fresh"),
        ("2026-03-02T08:59:59Z", 3600, "expired"),
        ("2026-03-02T09:59:59Z", 0, "expired"),
        (None, 3600, "unknown"),
    ],
)
def test_A21_fetched_at_and_ttl_decide_freshness(ask, fetched_at, ttl, state):
    given = {"content": "A proposal.", "relevance_score": 0.9, "fetched_at": fetched_at, "ttl_seconds": ttl}
    [chunk] = ask([(2, lambda _query, _domain, _top_k: [given])]).chunks
    assert chunk.provenance.extra["freshness"] == state
    assert ("expired" in chunk.flags) == (state == "expired")


def test_trap_1_the_boost_does_not_carry_an_irrelevant_record_over_the_threshold(ask, chunk_of):
    """0.6 * 0 + 0.4 * 0.4 = 0.16 is above 0.15, relevance 0 is not."""
    result = ask([(1, [chunk_of("record", 0.0)]), (5, [chunk_of("web", 0.2)])])
    assert [chunk.chunk_id for chunk in result.chunks] == ["web"]


def test_the_typed_request_and_its_answer_in_one_place(make_engine, chunk_of):
    with make_engine([(2, [chunk_of("c", 0.9)])]) as engine:
        result = engine.search(SearchRequest(query="risk assessment framework", domain="NPA"))
    assert (result.status, result.decision, result.domain) == ("complete", "answered", "NPA")
