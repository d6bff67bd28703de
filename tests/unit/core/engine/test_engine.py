"""The engine as a caller meets it: requests refused, sources chosen, thresholds, evidence, rerankers, time."""

import asyncio
import copy
import logging
import pickle
import re
import threading
from datetime import UTC, date, datetime, timedelta

import pytest

from context_engine.adapters.rerankers import CallableReranker, NoOpReranker
from context_engine.adapters.rerankers.combined import AdaptiveReranker
from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.engine import Engine, SystemClock, TimeSortedIds, recompute, stage_two_bytes
from context_engine.core.models import (
    Caller,
    Chunk,
    Condition,
    Decision,
    DomainSpec,
    FilterOp,
    Not,
    NoticeCode,
    Outcome,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    Status,
)
from context_engine.errors import (
    AllSourcesFailed,
    ConfigError,
    ContextEngineError,
    EvidenceIncomplete,
    InvalidFilter,
    InvalidRequest,
    RerankerError,
    SourceUnavailable,
    UnknownDomain,
)


def request(query="approval rule", **given):
    fields = {key: given.pop(key) for key in list(given) if key in SearchRequest.__dataclass_fields__}
    return SearchRequest(query=query, domain=fields.pop("domain", "NPA"), overrides=given, **fields)


def fate(result, chunk_id):
    return next(one for one in result.fates if one.chunk_id == chunk_id)


def broken(_query, _domain, _top_k):
    raise SourceUnavailable("HTTP 503", retryable=True)


# -- what is asked for ------------------------------------------------------------------------------------------------


def test_a_notebook_shows_the_outcome_of_a_search_and_no_text(make_engine, chunk_of):
    result = make_engine([(1, [chunk_of("a", 0.5)])]).search(request())
    assert "status='complete', decision='answered', chunks=1)" in repr(result)
    assert len(repr(result)) < 200 and result.chunks[0].chunk.content not in repr(result)


def test_an_unknown_domain_is_refused_with_the_known_ones(make_engine):
    with pytest.raises(UnknownDomain) as caught:
        make_engine([(1, [])]).search(request(domain="NPB"))
    assert str(caught.value) == "unknown domain 'NPB'. Registered: NPA. Did you mean 'NPA'?"
    assert caught.value.known == ("NPA",)
    with pytest.raises(UnknownDomain, match="No domain is registered"):
        Engine(Registry(), lambda _domain, _spec: None).search(request())


def test_settings_sources_asks_only_those(ask, chunk_of):
    sources = [(tier, [chunk_of(f"c{tier}", 0.5)]) for tier in (1, 2, 3)]
    result = ask(sources, sources=("t3", "t1"))
    assert [source.source_id for source in result.sources] == ["t1", "t3"]
    assert {chunk.chunk_id for chunk in result.chunks} == {"c1", "c3"}


@pytest.mark.parametrize("given", [{"sources": ("t1", "t9")}, {"require_sources": ("t9",)}])
def test_an_unknown_source_is_refused_with_the_nearest(ask, chunk_of, given):
    with pytest.raises(InvalidRequest, match=r"domain 'NPA' has no source 't9'\. (Did you mean|Valid: t1, t2)"):
        ask([(1, [chunk_of("a", 0.5)]), (2, [])], **given)


def test_no_sources_at_all_is_refused(ask, chunk_of):
    with pytest.raises(InvalidRequest, match="sources is empty: name some of t1"):
        ask([(1, [chunk_of("a", 0.5)])], sources=())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"stage1_topk": 5}, "setting stage1_topk: .*Did you mean 'stage1_top_k'"),
        ({"min_relevance_score": float("nan")}, "setting min_relevance_score: "),
        ({"min_relevance_score": 1.5}, "setting min_relevance_score: "),
        ({"dedup_threshold": 0.0}, "setting dedup_threshold: "),
        ({"expired": "ignore"}, "setting expired: "),
        ({"reranking_enabled": "yes"}, "setting reranking_enabled: "),
        ({"authority_boosts": {"tier_5": 0.9}}, "^setting authority_boosts: authority boosts must not rise"),
        ({"relevance_weight": 0.9}, "^relevance_weight 0.9 and authority_weight 0.4 add up to more than 1: set"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_in_our_words(ask, chunk_of, overrides, message):
    with pytest.raises(InvalidRequest, match=message):
        ask([(1, [chunk_of("a", 0.5)])], **overrides)


@pytest.mark.parametrize("given", ["x", None, {"query": "x", "domain": "NPA"}])
def test_what_is_no_request_is_refused_and_the_request_is_named(make_engine, chunk_of, given):
    with pytest.raises(InvalidRequest, match=f"search takes a SearchRequest.*got {type(given).__name__}"):
        make_engine([(1, [chunk_of("a", 0.5)])]).search(given)


def test_a_persona_is_refused_where_none_is_configured(ask, chunk_of):
    with pytest.raises(InvalidRequest, match="persona 'educator' is unknown"):
        ask([(1, [chunk_of("a", 0.5)])], persona="educator")


def test_settings_come_from_the_call_then_the_domain_then_the_defaults(make_engine, chunk_of):
    engine = make_engine(
        [(1, [chunk_of("a", 0.5)])], domain_fields={"settings": {"stage2_top_k": 3, "min_relevance_score": 0.2}}
    )
    shown = engine.search(request(stage2_top_k=5)).settings.to_dict()
    assert shown["stage2_top_k"] == {"value": 5, "origin": "call"}
    assert shown["min_relevance_score"] == {"value": 0.2, "origin": "domain"}
    assert shown["stage1_top_k"] == {"value": 40, "origin": "default"}


def test_caller_and_request_id_are_carried_through(ask, chunk_of):
    caller = Caller(principal="u-17", app="desk", conversation="c-1", message="m-2")
    result = ask([(1, [chunk_of("a", 0.5)])], caller=caller, request_id="r-1")
    assert (result.caller, result.request_id) == (caller, "r-1")
    published = result.to_dict()
    given = {"principal": "u-17", "app": "desk", "conversation": "c-1", "message": "m-2"}
    assert published["caller"] == {**given, "on_behalf_of": None}
    assert published["request_id"] == "r-1"
    assert published["schema_version"] == "1.1"


# -- sources that fail, evidence that is required ---------------------------------------------------------------------


def test_all_sources_failed_carries_every_status(ask):
    with pytest.raises(AllSourcesFailed) as caught:
        ask([(1, broken), (2, lambda _query, _domain, _top_k: None)])
    assert [status.error["code"] for status in caught.value.statuses] == ["unavailable", "protocol"]
    assert caught.value.result.status is Status.FAILED
    assert caught.value.result.decision is Decision.INCOMPLETE
    assert str(caught.value).startswith("search s-000001: no source of domain 'NPA' answered: source 't1': HTTP 503")


def test_sources_that_find_nothing_did_not_fail(ask):
    result = ask([(1, []), (2, [])])
    assert (result.status, result.decision) == (Status.COMPLETE, Decision.NO_MATCH)
    assert [source.state for source in result.sources] == ["empty", "empty"]


def test_nothing_is_out_of_scope_while_a_source_is_missing(ask, chunk_of):
    weak = [chunk_of("weak", 0.1)]
    assert ask([(1, weak), (2, [])]).decision is Decision.OUT_OF_SCOPE
    missing = ask([(1, weak), (2, broken)])
    assert (missing.status, missing.decision) == (Status.DEGRADED, Decision.INCOMPLETE)
    answered = ask([(1, [chunk_of("good", 0.9)]), (2, broken)])
    assert (answered.status, answered.decision) == (Status.DEGRADED, Decision.ANSWERED)


@pytest.mark.parametrize(
    ("sor", "why"),
    [(broken, "it failed"), ([], "it found nothing"), ("weak", "what it found was not relevant")],
)
@pytest.mark.parametrize("required", [{"require_tiers": (1,)}, {"require_sources": ("t1",)}])
def test_without_the_required_evidence_a_confident_web_page_is_incomplete(ask, chunk_of, sor, why, required):
    sources = [(1, [chunk_of("weak", 0.01)] if sor == "weak" else sor), (5, [chunk_of("web", 1.0)])]
    assert ask(sources).decision is Decision.ANSWERED
    result = ask(sources, **required)
    assert result.decision is Decision.INCOMPLETE, why
    assert [chunk.chunk_id for chunk in result.chunks] == ["web"]
    code = NoticeCode.REQUIRED_TIER_MISSING if "require_tiers" in required else NoticeCode.REQUIRED_SOURCE_MISSING
    assert code in {notice.code for notice in result.notices}
    with pytest.raises(EvidenceIncomplete) as caught:
        ask(sources, strict=True, **required)
    assert caught.value.result.decision is Decision.INCOMPLETE
    assert [status.source_id for status in caught.value.statuses] == ["t1", "t5"]
    assert "required" in str(caught.value)


def test_required_evidence_that_is_there_changes_nothing(ask, chunk_of):
    sources = [(1, [chunk_of("a", 0.9)]), (5, [chunk_of("web", 0.9)])]
    result = ask(sources, strict=True, require_tiers=(1, 5), require_sources=("t5",))
    assert result.decision is Decision.ANSWERED


def test_a_source_that_cannot_be_opened_fails_alone_and_is_tried_again(spec_of, chunk_of):
    attempts = []

    def open_source(_domain, spec):
        if spec.id == "t2":
            attempts.append(spec.id)
            if len(attempts) == 1:
                raise OSError("no such file /secret/place")
        return CallableSource(lambda _query, _domain, _top_k: [chunk_of(spec.id, 0.5)], spec.id)

    domain = DomainSpec(version=1, domain="NPA", sources=(spec_of(1), spec_of(2)))
    engine = Engine(Registry(domains={"NPA": domain}), open_source)
    first = engine.search(request())
    assert first.sources[1].error["message"] == "source 't2': failed with OSError (its text is in the debug log)"
    assert [source.state for source in engine.search(request()).sources] == ["ok", "ok"]
    engine.search(request())
    assert len(attempts) == 2


def test_a_configuration_error_on_opening_is_told_to_the_caller(spec_of):
    def open_source(_domain, _spec):
        raise ConfigError("connection 'dify' is not known", file="connections.yaml")

    domain = DomainSpec(version=1, domain="NPA", sources=(spec_of(1),))
    with pytest.raises(ConfigError, match=r"connections\.yaml: connection 'dify' is not known"):
        Engine(Registry(domains={"NPA": domain}), open_source).search(request())


# -- thresholds and scope ---------------------------------------------------------------------------------------------


def test_min_relevance_is_tested_before_the_boost(ask, chunk_of):
    """A system-of-record chunk without relevance has 0.6 * 0 + 0.4 * 0.4 = 0.16, above 0.15: it must not pass."""
    result = ask([(1, [chunk_of("irrelevant", 0.0), chunk_of("edge", 0.15)]), (5, [chunk_of("web", 0.5)])])
    assert [chunk.chunk_id for chunk in result.chunks] == ["web", "edge"]
    dropped = fate(result, "irrelevant")
    assert (dropped.stage, dropped.reason, dropped.value, dropped.limit) == (
        "relevance",
        "below_min_relevance",
        0.0,
        0.15,
    )


def test_min_relevance_is_tested_on_the_absolute_signal_never_on_a_rank_in_the_pool(ask):
    """The last of a pool may hold part of the question; the first may be about something else."""
    half = Chunk(content="The limit.", chunk_id="half", scores=(Score(ScoreKind.BM25, 1.0, "index"),))
    whole = Chunk(content="The approval rule.", chunk_id="whole", scores=(Score(ScoreKind.BM25, 9.0, "index"),))
    result = ask([(2, [half, whole])], query="limit approval rule")
    assert {chunk.chunk_id: chunk.relevance for chunk in result.chunks} == {"whole": 1.0, "half": 0.0}
    assert all(chunk.absolute > 0.15 for chunk in result.chunks)
    beside = Chunk(content="Canteen hours.", chunk_id="beside", scores=(Score(ScoreKind.BM25, 99.0, "index"),))
    result = ask([(2, [half, whole, beside])], query="limit approval rule")
    assert fate(result, "beside").reason == "below_min_relevance"
    alone = ask([(2, [beside, beside._replace(chunk_id="other", content="Parking.")])], query="limit approval rule")
    assert (alone.decision, alone.chunks) == (Decision.OUT_OF_SCOPE, ())


def test_out_of_scope_drops_everything_and_says_so(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.14), chunk_of("b", 0.1)])])
    assert (result.chunks, result.decision) == ((), Decision.OUT_OF_SCOPE)
    assert {(one.stage, one.reason, one.limit) for one in result.fates} == {("scope", "out_of_scope", 0.15)}


def test_scope_has_a_threshold_of_its_own(ask, chunk_of):
    sources = [(1, [chunk_of("a", 0.4), chunk_of("b", 0.1)])]
    assert ask(sources, scope_threshold=0.5).decision is Decision.OUT_OF_SCOPE
    assert ask(sources, scope_threshold=0.5).chunks == ()
    assert fate(ask(sources, scope_threshold=0.5), "a").limit == 0.5
    assert ask(sources, scope_threshold=0.4).decision is Decision.ANSWERED
    assert ask(sources, scope_threshold=0.0, min_relevance_score=0.6).decision is Decision.NO_MATCH


def test_min_chunks_brings_the_best_back_and_marks_them(ask, chunk_of):
    chunks = [chunk_of("good", 0.9), chunk_of("weak", 0.1), chunk_of("weaker", 0.05), chunk_of("weakest", 0.01)]
    result = ask([(2, chunks)], min_chunks=3)
    flags = {chunk.chunk_id: "below_threshold" in chunk.flags for chunk in result.chunks}
    assert flags == {"good": False, "weak": True, "weaker": True}
    assert result.decision is Decision.ANSWERED
    assert fate(result, "weakest").reason == "below_min_relevance"
    assert "below_threshold" in result.chunks[1].provenance.extra["flags"]


def test_scope_is_decided_before_min_chunks_brings_anything_back(ask, chunk_of):
    result = ask([(2, [chunk_of("weak", 0.1)])], min_chunks=1)
    assert result.decision is Decision.OUT_OF_SCOPE
    assert [(chunk.chunk_id, "below_threshold" in chunk.flags) for chunk in result.chunks] == [("weak", True)]


def cosine(chunk_id, value, scorer="e5"):
    text = f"Rule {chunk_id} on approval of {chunk_id}."
    return Chunk(content=text, chunk_id=chunk_id, scores=(Score(ScoreKind.COSINE, value, scorer),))


def test_a_similarity_threshold_applies_to_its_kind_and_passes_the_others_marked(ask, chunk_of):
    chunks = [cosine("high", 0.8), cosine("edge", 0.75), cosine("low", 0.74), chunk_of("other", 0.5)]
    result = ask([(2, chunks)], similarity_threshold=0.75)
    assert {chunk.chunk_id: "threshold_not_applicable" in chunk.flags for chunk in result.chunks} == {
        "high": False,
        "edge": False,
        "other": True,
    }
    dropped = fate(result, "low")
    assert (dropped.stage, dropped.reason, dropped.value, dropped.limit) == (
        "threshold",
        "below_cosine_threshold",
        0.74,
        0.75,
    )
    (notice,) = result.notices
    assert notice.code is NoticeCode.THRESHOLD_NOT_APPLICABLE
    assert notice.detail == {"count": 1, "tested": 4, "kind": "cosine", "origin": "call"}


def test_a_threshold_is_tested_on_the_best_of_a_cluster(ask):
    """A copy in a better-scored source must not be lost with the text it was merged into."""
    text = "Rule on approval of every new product before launch by the committee."
    record, copy = (cosine(name, value)._replace(content=text) for name, value in (("record", 0.6), ("copy", 0.7)))
    kept = ask([(1, [record]), (5, [copy])], similarity_threshold=0.65)
    assert [chunk.chunk_id for chunk in kept.chunks] == ["record"]
    assert fate(ask([(1, [record]), (5, [copy])], similarity_threshold=0.75), "record").value == 0.7


def test_a_threshold_of_zero_is_on_and_none_is_off(ask):
    chunks = [cosine("a", 0.5), cosine("b", -0.1)]
    assert fate(ask([(2, chunks)], similarity_threshold=0.0), "b").stage == "threshold"
    assert fate(ask([(2, chunks)]), "b").stage != "threshold"


def test_a_threshold_that_no_source_can_be_tested_on_is_refused(ask, spec_of, chunk_of):
    def source(spec_id, *kinds):
        scores = (Score(ScoreKind.RELEVANCE, 0.5), *(Score(kind, 0.8) for kind in kinds))
        found = [chunk_of(spec_id, scores=scores)]
        return CallableSource(lambda _query, _domain, _top_k: found, spec_id, frozenset(kinds))

    bm25, cosine_too = source("t2", ScoreKind.BM25), source("t3", ScoreKind.BM25, ScoreKind.COSINE)
    with pytest.raises(InvalidRequest, match=r"is a cosine threshold, and source\(s\) t2 give no cosine score"):
        ask([(2, bm25)], similarity_threshold=0.7)
    assert ask([(2, bm25), (3, cosine_too)], similarity_threshold=0.7).decision is Decision.ANSWERED
    with pytest.raises(InvalidRequest, match=r"source\(s\) t2 give no cosine score"):
        ask([(2, bm25), (3, cosine_too)], similarity_threshold=0.7, strict_thresholds=True)
    assert ask([(3, cosine_too)], similarity_threshold=0.7, strict_thresholds=True).decision is Decision.ANSWERED
    assert ask([(2, bm25)], strict_thresholds=True).decision is Decision.ANSWERED


# -- filters, dates, freshness ----------------------------------------------------------------------------------------


def test_filters_are_checked_again_whatever_the_source_did(ask, chunk_of):
    chunks = [chunk_of("sg", 0.5, metadata={"year": 2026}), chunk_of("old", 0.9, metadata={"year": 2020})]
    wanted = Condition("year", FilterOp.GTE, 2026)
    result = ask([(2, chunks)], filters=wanted)
    assert [chunk.chunk_id for chunk in result.chunks] == ["sg"]
    assert (fate(result, "old").stage, fate(result, "old").reason) == ("filter", "filter_not_met")
    assert [chunk.chunk_id for chunk in ask([(2, chunks)], filters=Not(wanted)).chunks] == ["old"]


def test_filters_see_the_tier_after_the_ceiling(ask, chunk_of):
    chunks = [chunk_of("modest", 0.5, authority_tier=4), chunk_of("bold", 0.5, authority_tier=1)]
    result = ask([(2, chunks)], filters=Condition("tier", FilterOp.LTE, 2))
    assert [chunk.chunk_id for chunk in result.chunks] == ["bold"]


def test_filters_in_another_form_are_refused_with_the_way_to_read_them():
    with pytest.raises(InvalidFilter, match="got dict: read other forms with parse_filter"):
        request(filters={"year": 2026})


VERSIONS = [
    Chunk(
        content="The limit was five.",
        chunk_id="v1",
        document_id="LIM",
        document_version="1",
        effective_from=date(2025, 1, 1),
        effective_to=date(2026, 1, 1),
    ),
    Chunk(
        content="The limit now is seven.",
        chunk_id="v2",
        document_id="LIM",
        document_version="2",
        effective_from=date(2026, 1, 1),
    ),
]


@pytest.mark.parametrize(
    ("as_of", "standing", "reasons"),
    [
        (None, ["v2"], {"v1": "no_longer_effective"}),
        (date(2026, 1, 1), ["v2"], {"v1": "no_longer_effective"}),
        (date(2025, 12, 31), ["v1"], {"v2": "not_yet_effective"}),
        (date(2025, 1, 1), ["v1"], {"v2": "not_yet_effective"}),
        (date(2024, 12, 31), [], {"v1": "not_yet_effective", "v2": "not_yet_effective"}),
    ],
)
def test_as_of_before_during_and_after_an_amendment(ask, as_of, standing, reasons):
    result = ask([(2, VERSIONS)], query="limit", as_of=as_of)
    assert [chunk.chunk_id for chunk in result.chunks] == standing
    assert {one.chunk_id: one.reason for one in result.fates if one.outcome is Outcome.DROPPED} == reasons
    assert all(one.stage == "as_of" for one in result.fates if one.outcome is Outcome.DROPPED)
    assert result.as_of == (as_of or date(2026, 3, 2))


def test_an_answer_that_a_filter_emptied_says_so(ask, chunk_of):
    wanted = Condition("title", FilterOp.EQ, "Limits")  # no chunk has that title
    codes = [notice.code for notice in ask([(2, [chunk_of("a", 0.9)])], filters=wanted).notices]
    assert codes == [NoticeCode.FILTER_LEFT_NOTHING]
    assert ask([(2, [chunk_of("a", 0.9)])]).notices == ()


def test_chunks_without_dates_are_counted_where_a_day_is_asked_about(ask, chunk_of):
    dated = chunk_of("dated", 0.9, effective_from=date(2020, 1, 1))
    result = ask([(2, [dated, chunk_of("a", 0.8), chunk_of("b", 0.7)])], as_of=date(2025, 6, 30))
    [notice] = result.notices
    assert (notice.code, notice.detail) == (NoticeCode.DATES_UNKNOWN, {"count": 2, "as_of": "2025-06-30"})
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_today_is_the_day_in_the_domains_time_zone(make_engine, chunk_of):
    """At 10:00 UTC on 2 March it is 3 March on Kiritimati (UTC+14)."""
    begins = [chunk_of("a", 0.5, effective_from=date(2026, 3, 3))]
    there = make_engine([(2, begins)], domain_fields={"timezone": "Pacific/Kiritimati"}).search(request())
    assert (there.as_of, [chunk.chunk_id for chunk in there.chunks]) == (date(2026, 3, 3), ["a"])
    assert make_engine([(2, begins)]).search(request()).chunks == ()


def test_asking_about_today_is_asking_now_in_the_domains_time_zone(make_engine, chunk_of):
    """At 10:00 UTC on 2 March it is still 1 March in Niue (UTC-11)."""
    replaced = [chunk_of("old", 0.9, superseded_by="DOC-2")]
    engine = make_engine([(2, replaced)], domain_fields={"timezone": "Pacific/Niue"})
    for day in (None, date(2026, 3, 1)):
        result = engine.search(request(as_of=day))
        assert (result.as_of, result.today, result.chunks) == (date(2026, 3, 1), True, ())
        assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
    earlier = engine.search(request(as_of=date(2026, 2, 28)))
    assert (earlier.today, [chunk.chunk_id for chunk in earlier.chunks]) == (False, ["old"])
    assert stage_two_bytes(recompute(earlier)) == stage_two_bytes(earlier)


def test_of_two_open_versions_the_older_is_superseded_whatever_its_relevance(ask, chunk_of):
    old = chunk_of("old", 1.0, document_id="D", document_version="3.1", effective_from=date(2025, 1, 1))
    new = chunk_of("new", 0.3, document_id="D", document_version="3.2", effective_from=date(2026, 1, 1))
    result = ask([(2, [old, new])])
    assert [chunk.chunk_id for chunk in result.chunks] == ["new"]
    dropped = fate(result, "old")
    assert (dropped.stage, dropped.reason, dropped.value, dropped.limit) == ("as_of", "superseded", "3.1", "3.2")


def test_equal_text_in_two_versions_is_superseded_not_merged(ask):
    versions = [
        Chunk(
            content="A proposal above the limit goes to the committee for approval.",
            chunk_id=f"v{number}",
            document_id="D",
            document_version=str(number),
            effective_from=date(2024 + number, 1, 1),
        )
        for number in (1, 2)
    ]
    result = ask([(2, versions)])
    assert [chunk.chunk_id for chunk in result.chunks] == ["v2"]
    assert fate(result, "v1").reason == "superseded"
    assert result.chunks[0].also_in == ()


def test_a_chunk_that_names_its_successor_falls_today_and_is_marked_for_an_earlier_day(ask, chunk_of):
    chunks = [chunk_of("old", 0.9, superseded_by="DOC-2"), chunk_of("current", 0.3)]
    assert fate(ask([(2, chunks)]), "old").limit == "DOC-2"
    earlier = ask([(2, chunks)], as_of=date(2025, 6, 30))
    assert "superseded" in next(chunk for chunk in earlier.chunks if chunk.chunk_id == "old").flags


def stale(now, chunk_of):
    return [
        chunk_of("stale", 0.5, fetched_at=now - timedelta(hours=2), ttl_seconds=3600),
        chunk_of("fresh", 0.4, fetched_at=now - timedelta(minutes=2), ttl_seconds=3600),
    ]


def test_expired_content_is_flagged_by_default(ask, chunk_of, now):
    result = ask([(1, stale(now, chunk_of))])
    assert [(chunk.chunk_id, "expired" in chunk.flags) for chunk in result.chunks] == [
        ("stale", True),
        ("fresh", False),
    ]
    assert result.chunks[0].provenance.extra["freshness"] == "expired"


def test_demoted_content_gets_the_boost_of_tier_5(ask, chunk_of, now):
    result = ask([(1, stale(now, chunk_of))], expired="demote")
    assert [(chunk.chunk_id, chunk.boost) for chunk in result.chunks] == [("fresh", 0.4), ("stale", 0.0)]
    assert result.chunks[1].final == 0.6 * 0.5 + 0.4 * 0.0
    assert result.chunks[1].provenance.authority_tier == 1


def test_refused_content_is_dropped_with_the_reason(ask, chunk_of, now):
    result = ask([(1, stale(now, chunk_of))], expired="refuse")
    assert [chunk.chunk_id for chunk in result.chunks] == ["fresh"]
    assert (fate(result, "stale").stage, fate(result, "stale").limit) == ("expiry", 3600)


@pytest.mark.parametrize("expired", ["flag", "demote", "refuse"])
def test_a_ttl_beyond_all_time_is_fresh(ask, chunk_of, now, expired):
    chunk = chunk_of("a", 0.5, fetched_at=now - timedelta(days=9000), ttl_seconds=10**30)
    assert ask([(1, [chunk])], expired=expired).chunks[0].flags == ("effective_unknown",)


# -- the reranker -----------------------------------------------------------------------------------------------------


def test_a_reranker_blends_with_stage_1(ask, chunk_of):
    """relevance = w * stage 1 + (1 - w) * reranker; final = 0.6 * relevance + 0.4 * boost."""
    seen = []

    def score(query, texts):
        seen.append((query, list(texts)))
        return [0.9 if "Rule b" in text else 0.1 for text in texts]

    sources = [(2, [chunk_of("a", 0.8), chunk_of("b", 0.7)])]
    result = ask(sources, engine={"reranker": CallableReranker(score)}, rerank_weight=0.25)
    assert seen == [("approval rule", ["Rule a on approval of a.", "Rule b on approval of b."])]
    best, second = result.chunks
    assert (best.chunk_id, best.rerank_score) == ("b", 0.9)
    assert best.relevance == 0.25 * 0.7 + (1 - 0.25) * 0.9
    assert best.final == 0.6 * (0.25 * 0.7 + 0.75 * 0.9) + 0.4 * 0.3
    assert second.relevance == pytest.approx(0.25 * 0.8 + 0.75 * 0.1, abs=1e-15)
    assert best.to_dict()["rerank_score"] == 0.9
    assert best.absolute == 0.7, "the absolute signal is not the reranker's to change"
    assert result.rerank_scores == {("t2", "a"): 0.1, ("t2", "b"): 0.9}


def test_the_blend_is_never_tested_against_min_relevance_again(ask, chunk_of):
    reranker = CallableReranker(lambda _query, texts: [0.0] * len(texts))
    result = ask([(5, [chunk_of("a", 0.2)])], engine={"reranker": reranker}, rerank_weight=0.0)
    assert [(chunk.chunk_id, chunk.relevance) for chunk in result.chunks] == [("a", 0.0)]


def test_only_the_best_are_reranked_and_the_others_stay_below_them(ask, chunk_of):
    """Rest: min(f * r, low) with low = the lowest reranked relevance, f = low / the lowest of them by stage 1."""
    seen = []

    def score(_query, texts):
        seen.extend(texts)
        return [{"a": 0.0, "b": 0.5}[text.split()[1]] for text in texts]

    chunks = [chunk_of("d", 0.2), chunk_of("c", 0.6), chunk_of("b", 0.7), chunk_of("a", 0.8)]
    result = ask([(2, chunks)], engine={"reranker": CallableReranker(score)}, rerank_top_n=2, rerank_weight=0.5)
    assert [text.split()[1] for text in seen] == ["a", "b"]
    low = 0.5 * 0.8 + 0.5 * 0.0
    assert [(chunk.chunk_id, chunk.rerank_score) for chunk in result.chunks] == [
        ("b", 0.5),
        ("a", 0.0),
        ("c", None),
        ("d", None),
    ]
    expected = [0.5 * 0.7 + 0.5 * 0.5, low, 0.6 * low / 0.7, 0.2 * low / 0.7]
    assert [chunk.relevance for chunk in result.chunks] == pytest.approx(expected, abs=1e-12)
    assert result.rerank_scores == {("t2", "a"): 0.0, ("t2", "b"): 0.5}
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_without_a_limit_every_survivor_is_reranked(ask, chunk_of):
    reranker = CallableReranker(lambda _query, texts: [0.5] * len(texts))
    result = ask([(2, [chunk_of(name, 0.5) for name in "abc"])], engine={"reranker": reranker})
    assert len(result.rerank_scores) == 3


@pytest.mark.parametrize("rerank", [lambda _query, _texts: None, lambda _query, _texts: [0.5]])
def test_the_rest_stays_as_it_was_where_there_are_no_scores(ask, chunk_of, rerank):
    chunks = [chunk_of("a", 0.8), chunk_of("b", 0.7), chunk_of("c", 0.6)]
    result = ask([(2, chunks)], engine={"reranker": CallableReranker(rerank)}, rerank_top_n=2)
    assert [(chunk.chunk_id, chunk.relevance) for chunk in result.chunks] == [("a", 0.8), ("b", 0.7), ("c", 0.6)]


def test_the_reranker_sees_only_what_passed_the_filter(ask, chunk_of):
    seen = []
    reranker = CallableReranker(lambda _query, texts: seen.extend(texts))
    ask([(2, [chunk_of("a", 0.8), chunk_of("weak", 0.01)])], engine={"reranker": reranker})
    assert seen == ["Rule a on approval of a."]


def raises(error):
    def rerank(_query, _texts):
        raise error

    return rerank


def rerank_failure(result):
    return next(one.detail["problem"] for one in result.notices if one.code is NoticeCode.RERANK_FAILED)


@pytest.mark.parametrize(
    ("rerank", "message"),
    [
        (raises(ValueError("secret")), "cross failed with ValueError"),
        (raises(RerankerError("the model is loading")), "the model is loading"),
        (lambda _query, texts: [0.5] * (len(texts) + 1), "cross gave 3 scores for 2 chunks"),
        (lambda _query, _texts: [], "cross gave 0 scores for 2 chunks"),
        (lambda _query, texts: [float("nan")] * len(texts), "cross gave the score nan; scores are numbers from 0 to 1"),
        (lambda _query, texts: [float("inf")] * len(texts), "cross gave the score inf; scores are numbers from 0 to 1"),
        (lambda _query, texts: [1.01] * len(texts), "cross gave the score 1.01; scores are numbers from 0 to 1"),
        (lambda _query, texts: [-0.1] * len(texts), "cross gave the score -0.1; scores are numbers from 0 to 1"),
        (lambda _query, texts: [True] * len(texts), "cross gave the score True; scores are numbers from 0 to 1"),
        (lambda _query, texts: ["0.5"] * len(texts), "cross failed with TypeError"),
        (lambda _query, _texts: 0.5, "cross returned float instead of a list of scores"),
        (lambda _query, texts: [10**400] * len(texts), "cross failed with OverflowError"),
        (lambda _query, texts: (1 / len("") for _ in texts), "cross failed with ZeroDivisionError"),
    ],
)
def test_a_reranker_that_fails_degrades_and_leaves_the_order_of_stage_1(ask, chunk_of, rerank, message):
    sources = [(2, [chunk_of("a", 0.8), chunk_of("b", 0.7)])]
    result = ask(sources, engine={"reranker": CallableReranker(rerank, "cross")})
    assert [(chunk.chunk_id, chunk.relevance, chunk.rerank_score) for chunk in result.chunks] == [
        ("a", 0.8, None),
        ("b", 0.7, None),
    ]
    assert (result.status, result.decision) == (Status.DEGRADED, Decision.ANSWERED)
    assert rerank_failure(result) == message
    assert "secret" not in str(result.to_dict())


@pytest.mark.parametrize("reranker", [None, NoOpReranker(), CallableReranker(lambda _query, _texts: None)])
def test_no_reranker_and_no_opinion_are_the_same(ask, chunk_of, reranker):
    result = ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.7)])], engine={"reranker": reranker})
    assert [(chunk.chunk_id, chunk.relevance, chunk.rerank_score) for chunk in result.chunks] == [
        ("a", 0.8, None),
        ("b", 0.7, None),
    ]
    assert (result.status, result.rerank_scores) == (Status.COMPLETE, {})


def test_a_reranker_that_is_switched_off_is_never_called(ask, chunk_of):
    result = ask(
        [(2, [chunk_of("a", 0.8)])],
        engine={"reranker": CallableReranker(raises(ValueError()))},
        reranking_enabled=False,
    )
    assert (result.status, result.notices) == (Status.COMPLETE, ())


# -- the engine itself ------------------------------------------------------------------------------------------------


def test_asearch_gives_the_same_result(make_engine, chunk_of):
    def fresh():
        return make_engine([(1, [chunk_of("a", 0.8)]), (3, [chunk_of("b", 0.9)])])

    def told(result):
        published = result.to_dict()
        for timed in (*published["stages"], *published["sources"]):
            timed["elapsed_ms"] = 0
        return published

    assert told(asyncio.run(fresh().asearch(request()))) == told(fresh().search(request()))


def test_many_asynchronous_searches_at_once(make_engine, chunk_of):
    engine = make_engine([(2, lambda query, _domain, _top_k: [chunk_of(query, 0.9, f"Text on {query}")])])

    async def all_of_them():
        return await asyncio.gather(*(engine.asearch(request(f"question {number}")) for number in range(8)))

    assert [result.chunks[0].chunk_id for result in asyncio.run(all_of_them())] == [
        f"question {number}" for number in range(8)
    ]


class Closing(CallableSource):
    """Counts how often it is closed."""

    def __init__(self, source_id, chunks, error=None):
        super().__init__(lambda _query, _domain, _top_k: chunks, source_id)
        self.closed, self.error = 0, error

    def close(self):
        self.closed += 1
        if self.error:
            raise self.error


def test_the_context_manager_closes_every_source_once(make_engine, chunk_of, caplog):
    first, second, third = Closing("t1", []), Closing("t2", [], OSError("boom")), Closing("t3", [])
    with make_engine([(1, first), (2, second), (3, third)]) as engine:
        engine.search(request())
    assert (first.closed, second.closed, third.closed) == (1, 1, 1)
    assert "source t2 could not be closed" in caplog.text
    engine.close()
    assert first.closed == 1
    with pytest.raises(ContextEngineError, match="the engine is closed"):
        engine.search(request())


@pytest.mark.parametrize("make_copy", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_engine_says_that_it_cannot_be_copied(make_copy):
    with pytest.raises(TypeError, match="call build_engine in each process"):
        make_copy(Engine(Registry(domains={}), lambda _domain, _spec: None))


def test_a_source_that_opens_while_the_engine_closes_is_closed_too(spec_of):
    source = Closing("t2", [])
    domain = DomainSpec(version=1, domain="NPA", sources=(spec_of(2),))
    engine = Engine(Registry(domains={"NPA": domain}), lambda _domain, _spec: engine.close() or source)
    with pytest.raises(ContextEngineError, match="closed"):
        engine.search(request())
    assert source.closed == 1


def test_sources_are_opened_on_first_use_and_only_once(spec_of, chunk_of):
    opened = []

    def open_source(_domain, spec):
        opened.append(spec.id)
        return CallableSource(lambda _query, _domain, _top_k: [chunk_of(spec.id, 0.5)], spec.id)

    domain = DomainSpec(version=1, domain="NPA", sources=(spec_of(1), spec_of(2)))
    engine = Engine(Registry(domains={"NPA": domain}), open_source)
    assert opened == []
    threads = [threading.Thread(target=engine.search, args=(request(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(opened) == ["t1", "t2"]


def test_a_slow_opening_holds_up_only_its_own_domain(spec_of, chunk_of):
    release, opening = threading.Event(), threading.Event()

    def open_source(domain, spec):
        if domain.domain == "SLOW":
            opening.set()
            release.wait(30)
        return CallableSource(lambda _query, _domain, _top_k: [chunk_of(spec.id, 0.5)], spec.id)

    domains = {name: DomainSpec(version=1, domain=name, sources=(spec_of(1),)) for name in ("SLOW", "NPA")}
    engine = Engine(Registry(domains=domains), open_source)
    waiting = threading.Thread(target=engine.search, args=(request(domain="SLOW"),))
    waiting.start()
    assert opening.wait(10)
    assert engine.search(request()).decision is Decision.ANSWERED
    release.set()
    waiting.join(10)


def test_the_recorder_takes_every_result_also_a_failed_one(make_engine, chunk_of):
    class Recorder(list):
        def record(self, result, access):
            self.append(result)

    recorder = Recorder()
    result = make_engine([(1, [chunk_of("a", 0.5)])], recorder=recorder).search(request())
    assert recorder == [result]
    with pytest.raises(AllSourcesFailed):
        make_engine([(1, broken)], recorder=recorder).search(request())
    assert recorder[1].status is Status.FAILED


def test_a_recorder_that_raises_does_not_fail_the_search(make_engine, chunk_of, caplog):
    class Recorder:
        def record(self, result, access):
            raise OSError("disk full")

    result = make_engine([(1, [chunk_of("a", 0.5)])], recorder=Recorder()).search(request())
    assert result.decision is Decision.ANSWERED
    assert "search s-000001 could not be recorded" in caplog.text


def test_search_ids_sort_by_time():
    ids = TimeSortedIds()
    start = datetime(2026, 3, 2, 10, tzinfo=UTC)
    made = [ids.new(start + timedelta(milliseconds=number)) for number in range(50)]
    assert made == sorted(made)
    assert len({ids.new(start) for _ in range(1000)}) == 1000
    assert all(re.fullmatch("[0-9a-f]{24}", one) for one in made)
    assert ids.new(datetime(1970, 1, 2, tzinfo=UTC)) < ids.new(start) < ids.new(datetime(9999, 1, 1, tzinfo=UTC))


def test_the_machines_clock_is_utc_and_its_seconds_never_go_back():
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


LOG = re.compile(
    r"RAG pipeline request_id=(\S+) initial_k=(\d+) filtered_k=(\d+) final_k=(\d+) threshold=(\d\.\d{3}) "
    r"fallback=(True|False) reranker=(\S+) scores_range=\[(\d\.\d{3}),(\d\.\d{3})\]"
)


def test_C13_log_line_in_the_seeds_format_without_the_query(make_engine, chunk_of, caplog):
    caplog.set_level(logging.INFO)
    chunks = [chunk_of(f"c{number}", 0.5 + number / 100, f"Text {number * 7} differs") for number in range(12)]
    engine = make_engine([(1, [*chunks, chunk_of("weak", 0.01)]), (3, broken)], reranker=NoOpReranker())
    engine.search(request("the confidential question", request_id="r-77", stage2_top_k=5))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("context_engine")]
    [line] = [line for line in lines if line.startswith("RAG pipeline")]
    found = LOG.match(line)
    assert found.groups() == ("r-77", "13", "12", "5", "0.150", "False", "noop", "0.570", "0.610")
    assert "search_id=s-000001" in line
    assert "search s-000001: source 't3': HTTP 503" in lines
    assert not any("confidential" in line for line in lines)


def test_C13_log_line_tells_of_fallback(make_engine, chunk_of, caplog):
    caplog.set_level(logging.INFO)
    make_engine([(1, [chunk_of("weak", 0.01)])]).search(request(min_chunks=1))
    line = next(record.getMessage() for record in caplog.records if "RAG pipeline" in record.getMessage())
    assert LOG.match(line).group(1, 6) == ("None", "True")


def test_a_call_sets_settings_of_a_search_and_a_domain_those_of_ingest_and_limits_too(make_engine, chunk_of):
    domain = {"settings": {"source_concurrency": 3, "stage2_top_k": 1}}
    engine = make_engine([(1, [chunk_of("a", 0.9), chunk_of("b", 0.8)])], domain_fields=domain)
    assert len(engine.search(request()).chunks) == 1
    assert len(engine.search(request(stage2_top_k=2)).chunks) == 2
    with pytest.raises(InvalidRequest, match="setting source_concurrency is a limit for all searches"):
        engine.search(request(source_concurrency=4))
    with pytest.raises(InvalidRequest, match="setting rrf_k is the same for all searches of an engine"):
        make_engine([(1, [])], domain_fields={"settings": {"rrf_k": 10}}).search(request())


def test_sixteen_threads_each_get_their_own_result(make_engine, chunk_of):
    def adapter(query, _domain, _top_k):
        return [chunk_of(f"{query}/{number}", 0.9 - number / 10, f"Text {number} about {query}") for number in range(5)]

    engine = make_engine([(tier, adapter) for tier in (1, 3, 5)])
    start = threading.Barrier(16)
    found = {}

    def work(number):
        start.wait(30)
        query = f"question {number}"
        for _ in range(3):
            found.setdefault(number, []).append((query, engine.search(request(query))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    results = [pair for pairs in found.values() for pair in pairs]
    assert len(results) == 48
    assert len({result.search_id for _, result in results}) == 48
    for query, result in results:
        assert result.query == query
        assert len(result.chunks) == 5
        assert len(result.fates) == 15
        assert all(chunk.chunk_id.startswith(f"{query}/") for chunk in result.chunks)
        assert all(chunk.provenance.extra["search_id"] == result.search_id for chunk in result.chunks)
        assert {one.chunk_id.split("/")[0] for one in result.fates} == {query}


class Hanging:
    """A reranker that answers when it is let go, and then nothing."""

    name = "slow"

    def __init__(self, release):
        self.release = release

    def rerank(self, query, chunks):
        self.release.wait()


class HandClock:
    """Goes on where a test says so: the source is in time however slow the machine is."""

    seconds = 0.0

    def now(self):
        return datetime(2026, 3, 2, 10, tzinfo=UTC)

    def monotonic(self):
        return self.seconds


def test_a_reranker_that_hangs_costs_one_deadline_and_is_not_asked_again(make_engine, chunk_of):
    release, clock = threading.Event(), HandClock()
    engine = make_engine([(2, [chunk_of("a", 0.8)])], reranker=Hanging(release), clock=clock)
    try:
        first = engine.search(request(deadline_s=0.2))
        clock.seconds += 0.2
        second = engine.search(request(deadline_s=0.2))
    finally:
        release.set()
    assert [result.status for result in (first, second)] == [Status.DEGRADED] * 2
    assert rerank_failure(first) == "slow gave no scores within 0.2 s"
    assert rerank_failure(second) == "slow is still busy with an overdue call"
    assert [chunk.chunk_id for chunk in first.chunks] == ["a"]


def test_a_reranker_that_is_late_leaves_the_order_of_stage_1_and_says_so(make_engine, chunk_of):
    release = threading.Event()

    class Late:
        name = "slow"

        def rerank(self, query, chunks):
            release.wait(10)
            return [0.0, 1.0]

    engine = make_engine([(2, [chunk_of("a", 0.8), chunk_of("b", 0.3)])], reranker=Late())
    try:
        result = engine.search(request(rerank_timeout_s=0.1))
    finally:
        release.set()
    assert [(chunk.chunk_id, chunk.relevance, chunk.rerank_score) for chunk in result.chunks] == [
        ("a", 0.8, None),
        ("b", 0.3, None),
    ]
    assert rerank_failure(result).startswith("slow gave no scores within")
    assert (result.status, result.rerank_scores) == (Status.DEGRADED, {})
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_a_reranker_has_its_own_time_within_the_deadline(make_engine, chunk_of):
    release = threading.Event()
    engine = make_engine([(2, [chunk_of("a", 0.8)])], reranker=Hanging(release))
    try:
        result = engine.search(request("approval rule", deadline_s=30.0, rerank_timeout_s=0.05))
    finally:
        release.set()
    assert rerank_failure(result) == "slow gave no scores within 0.05 s"
    assert [chunk.chunk_id for chunk in result.chunks] == ["a"]


class Looks:
    """Keeps the scores of what it is asked to rerank, by text."""

    name = "looks"

    def __init__(self):
        self.seen = {}

    def rerank(self, query, chunks):
        self.seen |= {chunk.content: chunk.scores for chunk in chunks}
        return [0.5] * len(chunks)


def test_a_reranker_sees_the_relevance_of_stage_1_and_the_result_keeps_the_sources_scores(make_engine):
    """Of scores 10 and 9 of one index relevance is 1 and .8."""
    given = {"Approval of the desk": 10.0, "The rule on limits": 9.0}
    chunks = [Chunk(content=text, scores=(Score(ScoreKind.BM25, value, "i"),)) for text, value in given.items()]
    looks = Looks()
    result = make_engine([(2, chunks)], reranker=looks).search(request("approval rule", min_relevance_score=0.0))
    assert {text: {score.kind: score.value for score in scores} for text, scores in looks.seen.items()} == {
        "Approval of the desk": {ScoreKind.RELEVANCE: 1.0, ScoreKind.BM25: 10.0},
        "The rule on limits": {ScoreKind.RELEVANCE: 0.8, ScoreKind.BM25: 9.0},
    }
    assert {chunk.content: chunk.scores for chunk in result.raw[0].chunks} == {
        one.content: one.scores for one in chunks
    }
    assert [[score.kind for score in chunk.chunk.scores] for chunk in result.chunks] == [[ScoreKind.BM25]] * 2
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_a_reranker_sees_one_relevance_where_the_source_declares_its_own(make_engine, chunk_of):
    looks = Looks()
    make_engine([(2, [chunk_of("a", 0.8, "Approval of the desk")])], reranker=looks).search(request("approval"))
    assert [(score.kind, score.value) for score in looks.seen["Approval of the desk"]] == [(ScoreKind.RELEVANCE, 0.8)]


def test_a_clear_lead_is_one_of_relevance_not_of_another_score(make_engine):
    """A text of the web near by cosine, without a word of the question, leads nothing over two sources."""

    def scored(text, cosine):
        return Chunk(content=text, scores=(Score(ScoreKind.COSINE, cosine, "model"),))

    rules = [scored(f"Approval limit number {number} of desk {number}", 0.6) for number in range(4)]
    looks = Looks()
    engine = make_engine([(2, rules), (5, [scored("Nothing of that here", 0.95)])], reranker=AdaptiveReranker(looks))
    engine.search(request("approval limit", dedup_method="off"))
    assert len(looks.seen) == 5
