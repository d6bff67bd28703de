"""Stage 2: order, authority, identity, fates and the provenance tag."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from context_engine.core.engine import stage_two_bytes
from context_engine.core.models import Chunk, FetchedAtBasis, NoticeCode, Outcome, Score, ScoreKind
from context_engine.core.text import content_sha256

TAG = ["source_id", "source_type", "authority_tier", "trust_class", "fetched_at", "ttl_seconds", "extra"]


def ids(result):
    return [chunk.chunk_id for chunk in result.chunks]


def fate(result, chunk_id):
    return next(one for one in result.fates if one.chunk_id == chunk_id)


# -- the tag ----------------------------------------------------------------------------------------------------------


def test_the_tag_has_exactly_the_seven_keys(ask, chunk_of):
    result = ask([(tier, [chunk_of(f"c{tier}", 0.5)]) for tier in range(1, 6)])
    for chunk in result.chunks:
        tag = chunk.to_dict()["_provenance"]
        assert list(tag) == TAG
        assert tag["fetched_at"].endswith("Z")
        assert type(tag["ttl_seconds"]) is int
        assert type(tag["authority_tier"]) is int
        assert tag["extra"]["chunk_id"] == chunk.chunk_id
        assert tag["extra"]["rag_score"] == chunk.to_dict()["_rag_score"] == round(chunk.final, 4)


def test_a_chunk_that_says_nothing_gets_a_whole_tag_and_the_tag_says_what_was_filled_in(ask, now):
    text = "The approval rule."
    [chunk] = ask([(2, [Chunk(content=text)])]).chunks
    digest = content_sha256(text)
    assert chunk.chunk_id == digest[:32]
    tag = chunk.provenance
    assert (tag.source_id, tag.source_type, tag.authority_tier, tag.trust_class) == ("t2", "bank_sop", 2, "TRUSTED")
    assert (tag.fetched_at, tag.ttl_seconds) == ("2026-03-02T10:00:00Z", 3600)
    assert tag.extra["defaulted"] == ["chunk_id", "fetched_at", "ttl_seconds"]
    assert tag.extra["fetched_at_basis"] == "retrieved"
    assert tag.extra["freshness"] == "unknown"
    assert tag.extra["content_sha256"] == digest
    assert tag.extra["retrieved_at"] == "2026-03-02T10:00:00Z"
    assert tag.extra["search_id"] == "s-000001"
    assert tag.extra["also_in"] == []


def test_what_the_chunk_knows_stands_in_the_tag(ask, chunk_of, spec_of, now):
    singapore = datetime.fromisoformat("2026-03-02T17:30:00+08:00")
    spec = spec_of(2, "sops", ttl_seconds=86400)
    known = chunk_of(
        "a",
        0.5,
        fetched_at=singapore,
        fetched_at_basis=FetchedAtBasis.INDEXED,
        ttl_seconds=60,
        document_id="D",
        document_version="3.2",
        dataset_id="ds-1",
    )
    result = ask([(spec, [known, chunk_of("b", 0.4, fetched_at=now)])])
    first, second = (chunk.provenance for chunk in result.chunks)
    assert (first.source_id, first.fetched_at, first.ttl_seconds) == ("sops", "2026-03-02T09:30:00Z", 60)
    assert (first.extra["fetched_at_basis"], first.extra["freshness"]) == ("indexed", "expired")
    assert [first.extra[key] for key in ("document_id", "document_version", "dataset_id")] == ["D", "3.2", "ds-1"]
    assert first.extra["defaulted"] == []
    assert (second.ttl_seconds, second.extra["freshness"], second.extra["defaulted"]) == (
        86400,
        "fresh",
        [],
    ), "the manifest's lifetime is no default"


def test_a_refused_claim_is_a_warning_and_stands_in_the_tag(ask, chunk_of):
    result = ask([(5, [chunk_of("bold", 0.9, authority_tier=1)])])
    [chunk] = result.chunks
    assert (chunk.authority_tier, chunk.boost, chunk.provenance.extra["claimed_tier"]) == (5, 0.0, 1)
    (notice,) = result.notices
    assert (notice.code, notice.subject) == (NoticeCode.CLAIM_REFUSED, "t5")
    assert notice.detail == {"chunk_id": "bold", "claimed": {"authority_tier": 1}}


def test_the_chunk_dict_adds_to_what_came_in_and_takes_nothing_away(ask):
    given = {
        "content": "The approval rule.",
        "chunk_id": "c-1",
        "relevance_score": 0.8,
        "metadata": {"year": 2026, "tags": ["a", "b"]},
        "canonical_url": "https://bank.example/1",
        "domain": "npa-internal",
    }
    [chunk] = ask([(2, lambda _query, _domain, _top_k: [given])]).chunks
    out = chunk.to_dict()
    assert {key: out[key] for key in given} == given
    assert (out["_rag_score"], out["_relevance_score"], out["_authority_boost"]) == (0.6 * 0.8 + 0.4 * 0.3, 0.8, 0.3)
    assert (out["rank"], out["source_id"], out["trust_class"]) == (1, "t2", "TRUSTED")


# -- order and swaps --------------------------------------------------------------------------------------------------


def test_order_is_final_then_relevance_then_tier_then_id(ask, chunk_of):
    boosts = {"tier_1": 0.3, "tier_2": 0.3, "tier_3": 0.0, "tier_4": 0.0, "tier_5": 0.0}
    sources = [
        (2, [chunk_of("b", 0.5), chunk_of("a", 0.5)]),
        (1, [chunk_of("z", 0.5), chunk_of("y", 0.6)]),
        (3, [chunk_of("low", 0.5)]),
    ]
    assert ids(ask(sources, authority_boosts=boosts)) == ["y", "z", "a", "b", "low"]
    weights = {"relevance_weight": 0.0, "authority_weight": 0.0}
    assert ids(ask(sources, **weights)) == ["y", "z", "a", "b", "low"], "equal finals: relevance, tier, id"


def test_identical_rank_falls_to_the_source_id(ask, chunk_of, spec_of):
    sources = [
        (spec_of(2, name), [chunk_of("same", 0.5, f"Text of {name} stands alone.")]) for name in ("sop-b", "sop-a")
    ]
    assert [chunk.source_id for chunk in ask(sources).chunks] == ["sop-a", "sop-b"]


@pytest.mark.parametrize(
    ("higher", "lower", "boosts"),
    [(1, 2, 0.4 - 0.3), (1, 3, 0.4 - 0.2), (1, 5, 0.4 - 0.0), (2, 3, 0.3 - 0.2), (3, 5, 0.2 - 0.0), (4, 5, 0.1 - 0.0)],
)
def test_a_higher_tier_overtakes_only_within_its_gap(ask, chunk_of, higher, lower, boosts):
    """Tier 1 over tier 3: 0.4 * 0.2 / 0.6 = 0.1333."""
    gap = 0.4 * boosts / 0.6
    for difference, first in ((gap - 0.001, "high"), (gap + 0.001, "low")):
        result = ask([(higher, [chunk_of("high", 0.3)]), (lower, [chunk_of("low", 0.3 + difference)])])
        assert ids(result)[0] == first
        assert result.swap_count == len(result.swaps) == (1 if first == "high" else 0)


def test_a_swap_is_told_with_its_arithmetic(ask, chunk_of):
    result = ask([(1, [chunk_of("record", 0.7)]), (3, [chunk_of("standard", 0.8)])])
    record, standard = result.chunks
    assert record.final == 0.6 * 0.7 + 0.4 * 0.4
    assert standard.final == 0.6 * 0.8 + 0.4 * 0.2
    [swap] = result.swaps
    assert (swap.winner, swap.loser) == (("t1", "record"), ("t3", "standard"))
    assert (swap.winner_tier, swap.loser_tier) == (1, 3)
    assert (swap.rank_with, swap.rank_without) == ((1, 2), (2, 1))
    assert swap.gap == 0.8 - 0.7
    assert result.to_dict()["swap_count"] == 1


def test_equal_relevance_is_no_swap(ask, chunk_of):
    assert ask([(1, [chunk_of("a", 0.5)]), (5, [chunk_of("b", 0.5)])]).swap_count == 0


def test_swaps_reach_past_the_cut_and_stop_at_two_hundred_with_the_true_count(ask, chunk_of, spec_of):
    """20 records at 0.5 overtake 20 pages at 0.6, 400 pairs; with 8 returned, 8 * 20 pairs hold a returned chunk."""
    records = [chunk_of(f"r{number:02d}", 0.5, f"Record {number * 7} says so.") for number in range(20)]
    pages = [chunk_of(f"p{number:02d}", 0.6, f"Page {number * 13} differs.") for number in range(20)]
    result = ask([(1, records), (5, pages)], dedup_method="off")
    assert (result.swap_count, len(result.swaps)) == (8 * 20, 160)
    assert all(swap.winner[1] in ids(result) for swap in result.swaps)
    result = ask([(1, records), (5, pages)], dedup_method="off", stage2_top_k=20)
    assert (result.swap_count, len(result.swaps)) == (20 * 20, 200)


def test_demoted_content_ranks_and_ties_as_tier_5(ask, chunk_of, now):
    stale = chunk_of("stale", 0.5, fetched_at=now - timedelta(days=9))
    result = ask([(1, [stale]), (3, [chunk_of("fresh", 0.5)]), (5, [chunk_of("web", 0.5)])], expired="demote")
    assert ids(result) == ["fresh", "stale", "web"], "stale and web tie down to the id"
    assert result.swap_count == 0


def test_an_expired_text_that_is_demoted_absorbs_no_fresh_copy_of_a_lower_tier(ask, chunk_of, now):
    stale = chunk_of("stale", 0.5, RULE, fetched_at=now - timedelta(days=9))
    sources = [(1, [stale]), (2, [chunk_of("fresh", 0.5, RULE)])]
    result = ask(sources, expired="demote")
    assert ids(result) == ["fresh"] and result.chunks[0].boost == 0.3
    assert fate(result, "stale").into == ("t2", "fresh")
    assert ids(ask(sources)) == ["stale"], "one that is flagged alone keeps its tier"


# -- identity ---------------------------------------------------------------------------------------------------------


def test_two_legs_of_one_source_are_one_candidate_with_two_scores_not_a_merge(ask):
    legs = [
        Chunk(content="The approval rule.", chunk_id="c", scores=(Score(ScoreKind.COSINE, 0.7, "e5"),)),
        Chunk(content="The approval rule.", chunk_id="c", scores=(Score(ScoreKind.BM25, 9.0, "index"),)),
    ]
    result = ask([(2, legs)])
    [chunk] = result.chunks
    assert chunk.chunk.scores == (Score(ScoreKind.BM25, 9.0, "index"), Score(ScoreKind.COSINE, 0.7, "e5"))
    assert (chunk.also_in, len(result.fates), result.sources[0].chunks) == ((), 1, 2)


def test_an_id_over_two_texts_is_two_candidates_and_a_warning(ask):
    chunks = [Chunk(content="Approval is needed.", chunk_id="c"), Chunk(content="A rule is a rule.", chunk_id="c")]
    forward, backward = ask([(2, chunks)]), ask([(2, chunks[::-1])])
    assert sorted(chunk.content for chunk in forward.chunks) == sorted(chunk.content for chunk in chunks)
    (notice,) = forward.notices
    assert (notice.code, notice.subject, notice.detail["texts"]) == (NoticeCode.CHUNK_ID_REUSED, "t2", 2)
    assert [chunk.chunk_id for chunk in forward.chunks] == [chunk.chunk_id for chunk in backward.chunks]
    assert [chunk.content for chunk in forward.chunks] == [chunk.content for chunk in backward.chunks]


def test_a_source_speaks_for_others_only_where_it_is_trusted_to(ask, chunk_of, spec_of):
    foreign = chunk_of("a", 0.5, source_id="core-ledger", authority_tier=1)
    assert [chunk.source_id for chunk in ask([(5, [foreign])]).chunks] == ["t5"]
    trusted = ask([(spec_of(5, trust_document_metadata=True), [foreign])]).chunks[0]
    assert (trusted.source_id, trusted.authority_tier) == ("core-ledger", 1)


# -- fates ------------------------------------------------------------------------------------------------------------

RULE = "A proposal above the materiality limit goes to the product committee for approval."


def test_every_candidate_has_exactly_one_fate(ask, chunk_of):
    sources = [
        (1, [chunk_of("kept", 0.9, RULE), chunk_of("gone", 0.9, "Over.", effective_to=date(2026, 1, 1))]),
        (2, [chunk_of("copy", 0.8, RULE), chunk_of("weak", 0.1, "Nothing to see.")]),
        (3, [chunk_of("last", 0.2, "The seventh criterion of the standard.")]),
    ]
    result = ask(sources, stage2_top_k=1)
    told = {one.chunk_id: (one.outcome, one.stage, one.reason) for one in result.fates}
    assert told == {
        "kept": (Outcome.RETURNED, "select", "returned"),
        "gone": (Outcome.DROPPED, "as_of", "no_longer_effective"),
        "copy": (Outcome.MERGED, "dedup", "equal_text"),
        "weak": (Outcome.DROPPED, "relevance", "below_min_relevance"),
        "last": (Outcome.DROPPED, "select", "beyond_top_k"),
    }
    assert fate(result, "copy").into == ("t1", "kept")
    assert fate(result, "copy").to_dict()["into"] == {"source_id": "t1", "chunk_id": "kept"}
    assert (fate(result, "last").value, fate(result, "last").limit) == (2, 1)
    assert "into" not in fate(result, "last").to_dict()


def test_the_limits_on_likeness_are_told_as_fates_and_the_order_stays_that_of_the_scores(ask, chunk_of):
    """Place 1: "one". Of document D nothing more may follow, and "again" shares every term but one with "one"."""
    sources = [
        (
            2,
            [
                chunk_of("one", 0.9, "outsourcing register of the group", document_id="D"),
                chunk_of("two", 0.8, "vendor exit plan", document_id="D"),
                chunk_of("again", 0.7, "outsourcing register of the group entity", document_id="E"),
                chunk_of("other", 0.6, "liquidity coverage floor", document_id="F"),
            ],
        )
    ]
    assert ids(ask(sources, max_per_document=1)) == ["one", "again", "other"]
    result = ask(sources, max_per_document=1, mmr_lambda=0.5, stage2_top_k=2)
    assert ids(result) == ["one", "other"]
    assert [chunk.rank for chunk in result.chunks] == [1, 2]
    told = {one.chunk_id: (one.reason, one.value, one.limit) for one in result.fates}
    assert told["two"] == ("document_limit", "D", 1)
    assert told["again"] == ("too_similar", pytest.approx(3 / 4), 0.5)


def test_the_stage_counts_add_up(ask, chunk_of):
    sources = [(1, [chunk_of("kept", 0.9, RULE)]), (2, [chunk_of("copy", 0.8, RULE), chunk_of("weak", 0.1, "No.")])]
    stages = {stage.name: (stage.entered, stage.left) for stage in ask(sources).stages}
    assert stages == {
        "recall": (3, 3),
        "filter": (3, 3),
        "as_of": (3, 3),
        "expiry": (3, 3),
        "measure": (3, 3),
        "dedup": (3, 2),
        "threshold": (2, 2),
        "scope": (2, 2),
        "relevance": (2, 1),
        "rerank": (1, 1),
        "select": (1, 1),
    }


def test_what_a_fate_counts_as_dropped_at_a_stage_the_trace_of_that_name_counts_too(ask, chunk_of):
    many = [chunk_of("kept", 0.9, RULE), chunk_of("weak", 0.1, "Nothing to see."), chunk_of("last", 0.2, "Criteria.")]
    gone = chunk_of("gone", 0.9, "Over.", effective_to=date(2026, 1, 1))
    for sources in ([(1, [*many, gone])], [(2, [chunk_of("copy", 0.9, RULE), many[0]])], [(1, [many[1], gone])]):
        result = ask(sources, stage2_top_k=1)
        lost = Counter(fate.stage for fate in result.fates if fate.outcome is not Outcome.RETURNED)
        counted = {one.name: one.entered - one.left for one in result.stages if one.entered > one.left}
        assert lost == counted


def test_a_cluster_has_the_relevance_of_its_best_and_lists_the_others(ask, chunk_of):
    copies = [(2, [chunk_of("sop", 0.1, RULE)]), (5, [chunk_of("web", 0.9, RULE, section="4.2", title="A page")])]
    result = ask(copies)
    [chunk] = result.chunks
    assert (chunk.chunk_id, chunk.relevance, chunk.absolute) == ("sop", 0.9, 0.9)
    assert chunk.final == 0.6 * 0.9 + 0.4 * 0.3
    [member] = chunk.provenance.extra["also_in"]
    assert (member["source_id"], member["chunk_id"], member["authority_tier"]) == ("t5", "web", 5)
    assert (member["section"], member["title"], member["relevance"], member["similarity"]) == (
        "4.2",
        "A page",
        0.9,
        1.0,
    )


def test_dedup_can_be_switched_off(ask, chunk_of):
    copies = [(1, [chunk_of("a", 0.9, RULE)]), (2, [chunk_of("b", 0.9, RULE)])]
    assert len(ask(copies).chunks) == 1
    assert len(ask(copies, dedup_method="off").chunks) == 2


def test_without_dedup_too_a_copy_of_a_higher_tier_comes_first(ask, chunk_of):
    records, sops = [chunk_of("a", 0.5, RULE), chunk_of("other", 0.5, "A cake.")], [chunk_of("b", 0.9, RULE)]
    result = ask([(1, records), (2, sops)], dedup_method="off")
    assert ids(result) == ["a", "b", "other"]
    assert [chunk.relevance for chunk in result.chunks] == [0.9, 0.9, 0.5]


def test_the_inputs_are_not_touched(ask):
    given = [{"content": RULE, "chunk_id": "a", "relevance_score": 0.5, "metadata": {"tags": ["x"]}} for _ in range(2)]
    before = repr(given)
    result = ask([(2, lambda _query, _domain, _top_k: given), (3, [])])
    out = result.chunks[0].to_dict()
    out["metadata"]["tags"].append("y")
    out["_provenance"]["extra"]["also_in"].append("z")
    assert repr(given) == before
    assert result.chunks[0].to_dict()["metadata"] == {"tags": ["x"]}


def test_the_published_form_is_json_whatever_the_source_put_in_its_metadata(ask, now):
    import json

    metadata = {"issued": date(2026, 1, 5), "at": datetime(2026, 1, 5, 8, tzinfo=UTC), "gap": float("nan"), "n": (1, 2)}
    metadata |= {7: {None: "x"}}
    chunk = Chunk(content="The approval rule.", chunk_id="a", metadata=metadata)
    published = json.loads(json.dumps(ask([(2, [chunk])]).to_dict(), allow_nan=False))
    assert published["chunks"][0]["metadata"] == {
        "issued": "2026-01-05",
        "at": "2026-01-05T08:00:00Z",
        "gap": None,
        "n": [1, 2],
        "7": {"None": "x"},
    }
    assert stage_two_bytes(ask([(2, [chunk])]))
