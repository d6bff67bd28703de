"""Access as a caller, and the record, meet it: what may not be known looks as if it did not exist."""

from __future__ import annotations

import logging
from dataclasses import fields

import pytest

from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import (
    NOBODY,
    AccessReason,
    AccessRule,
    AccessScope,
    Caller,
    Classification,
    EffectiveSettings,
    NoticeCode,
    Principal,
    SearchRequest,
    Settings,
    SourceAccess,
    WithheldChunk,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.errors import AllSourcesFailed, InvalidRequest, PolicyError, SourceUnavailable, UnknownDomain
from context_engine.testing.fakes import ScriptedSource

DESK = Principal(id="dora", roles=frozenset({"desk"}), clearance=Classification.INTERNAL)
BOARD = Principal(id="bo", roles=frozenset({"desk"}), clearance=Classification.RESTRICTED)
RULE = AccessRule(roles=("desk",))
RAISED = Classification.RESTRICTED


class Kept:
    """A recorder that keeps what it is given."""

    def __init__(self):
        self.recorded, self.refused = [], []

    def record(self, result, access):
        self.recorded.append((result, access))

    def refuse(self, request, access, error):
        self.refused.append((request, access))


@pytest.fixture
def governed(make_engine):
    """An engine whose manifests decide."""

    def build(sources, **options):
        policy = ManifestPolicy(dict(make_engine(sources, domain_fields=options.get("domain_fields")).registry.domains))
        return make_engine(sources, access=policy, **options)

    return build


def asked(principal=NOBODY, query="approval rule", **given):
    fields = {key: given.pop(key) for key in list(given) if key in SearchRequest.__dataclass_fields__}
    return SearchRequest(
        query=query, domain=fields.pop("domain", "NPA"), principal=principal, overrides=given, **fields
    )


def published(result):
    """What the caller gets, but for the times."""
    out = result.to_dict()
    for name in ("stages", "sources"):
        out[name] = [{**one, "elapsed_ms": 0} for one in out[name]]
    return out


def hidden(spec_of, chunk_of):
    """A source that only the desk may search."""
    return spec_of(1, access=RULE), ScriptedSource("t1", [chunk_of("h", 0.9), chunk_of("i", 0.8)])


# -- domains ----------------------------------------------------------------------------------------------------------


def test_a_denied_domain_is_unknown_and_its_sources_are_never_opened(governed, make_engine, chunk_of):
    recorder, source = Kept(), ScriptedSource("t2", [chunk_of("a", 0.5)])
    engine = governed([(2, source)], domain_fields={"access": RULE}, recorder=recorder)
    messages = []
    for searched in (engine, make_engine([(2, source)], domain="NPB")):
        with pytest.raises(UnknownDomain) as caught:
            searched.search(asked())
        messages.append(str(caught.value).replace(" Registered: NPB. Did you mean 'NPB'?", ""))
    assert messages[0] == "unknown domain 'NPA'. No domain is registered. Write one with 'context-engine init DIR'."
    assert source.queries == []
    (request, access), *others = recorder.refused
    assert (request.domain, access.principal, others, recorder.recorded) == ("NPA", NOBODY, [], [])
    assert access.decision.denied == (SourceAccess("t2", False, AccessReason.DOMAIN_RULE),)
    assert engine.search(asked(DESK)).chunks[0].chunk_id == "a"


def test_a_domain_that_there_is_not_is_recorded_without_a_decision(governed, chunk_of):
    recorder = Kept()
    engine = governed([(2, [chunk_of("a", 0.5)])], domain_fields={"access": RULE}, recorder=recorder)
    with pytest.raises(UnknownDomain):
        engine.search(asked(domain="NPB"))
    assert [access.decision for _, access in recorder.refused] == [None]


def test_a_recorder_that_cannot_keep_a_refusal_does_not_change_what_is_said(make_engine, caplog):
    class Full(Kept):
        def refuse(self, request, access, error):
            raise OSError("disk full")

    with pytest.raises(UnknownDomain, match="unknown domain 'NPB'"):
        make_engine([(2, [])], recorder=Full()).search(asked(domain="NPB"))
    assert "a refused request could not be recorded" in caplog.text


def test_a_policy_that_fails_lets_nothing_be_searched(make_engine, chunk_of):
    class Down:
        policy_hash = "1"

        def decide(self, principal, domain):
            raise OSError("the server is down")

        def rules_of(self, source_id):
            return ""

    source, recorder = ScriptedSource("t2", [chunk_of("a", 0.5)]), Kept()
    with pytest.raises(PolicyError):
        make_engine([(2, source)], access=Down(), recorder=recorder).search(asked(BOARD))
    assert source.queries == []
    assert [(access.principal, access.decision) for _, access in recorder.refused] == [(BOARD, None)]


# -- sources ----------------------------------------------------------------------------------------------------------


def test_an_answer_is_that_of_a_domain_without_the_denied_source(governed, make_engine, spec_of, chunk_of):
    others = [(2, [chunk_of("a", 0.6), chunk_of("b", 0.4)]), (5, [chunk_of("w", 0.5)])]
    secret = hidden(spec_of, chunk_of)
    for given in ({}, {"min_chunks": 5}, {"require_tiers": (1,)}, {"sources": ("t5", "t2")}, {"stage2_top_k": 1}):
        with_it = governed([secret, *others]).search(asked(**given))
        without = make_engine(others).search(asked(**given))
        assert published(with_it) == published(without)
    assert secret[1].queries == []
    seen = governed([secret, *others]).search(asked(DESK))
    assert {chunk.source_id for chunk in seen.chunks} == {"t1", "t2", "t5"}


@pytest.mark.parametrize("given", [{"sources": ("t2", "NAME")}, {"require_sources": ("NAME",)}])
def test_a_denied_source_that_the_call_names_is_refused_as_one_that_there_is_not(governed, spec_of, chunk_of, given):
    engine = governed([hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)])])
    messages = []
    for name in ("t1", "t9"):
        with pytest.raises(InvalidRequest) as caught:
            engine.search(asked(**{key: tuple(n.replace("NAME", name) for n in v) for key, v in given.items()}))
        messages.append(str(caught.value).replace(name, "NAME"))
    assert messages[0] == messages[1]
    assert "NAME" in messages[0]


@pytest.mark.parametrize(("named", "searched"), [(("t1", "t2"), {"t2"}), (("t1",), {"t2", "t5"})])
def test_a_denied_source_that_the_domain_names_acts_as_if_it_were_not_there(
    governed, spec_of, chunk_of, named, searched
):
    sources = [hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)]), (5, [chunk_of("w", 0.5)])]
    engine = governed(sources, domain_fields={"settings": {"sources": list(named)}})
    result = engine.search(asked())
    assert {status.source_id for status in result.sources} == searched
    assert "t1" not in str(published(result))
    assert {status.source_id for status in engine.search(asked(DESK)).sources} == set(named)


@pytest.mark.parametrize("origin", ["file rag-pipeline.json", "CONTEXT_ENGINE_SOURCES", "persona p (personas.json)"])
def test_a_source_that_an_operators_files_name_is_passed_over_whether_denied_or_unknown(
    governed, spec_of, chunk_of, origin
):
    sources = [hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)]), (5, [chunk_of("w", 0.5)])]
    seen = []
    for name in ("t1", "t9"):
        settings = EffectiveSettings(values=Settings(sources=("t2", name)), origins={"sources": origin})
        engine = governed(sources, resolve=lambda _domain, _request, settings=settings: settings)
        seen.append(published(engine.search(asked())))
    assert seen[0] == seen[1]
    assert [status["source_id"] for status in seen[0]["sources"]] == ["t2"]
    own = EffectiveSettings(values=Settings(sources=("t2", "t1")), origins={"sources": "pipeline config"})
    with pytest.raises(InvalidRequest, match="has no source 't1'"):
        governed(sources, resolve=lambda _domain, _request: own).search(asked())


def test_a_setting_that_names_denied_sources_alone_is_as_one_that_is_not_there(governed, spec_of, chunk_of):
    sources = [hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)])]
    seen = []
    for values, origins in ((Settings(sources=("t1",)), {"sources": "persona board"}), (Settings(), {})):
        settings = EffectiveSettings(values=values, origins=origins)
        engine = governed(sources, resolve=lambda _domain, _request, settings=settings: settings)
        seen.append(published(engine.search(asked())))
    assert seen[0] == seen[1] and seen[0]["settings"]["sources"] == {"value": None, "origin": "default"}


def test_every_source_is_told_what_the_caller_may_read(governed, make_engine, spec_of, chunk_of):
    spec, source = hidden(spec_of, chunk_of)
    engine = governed([(spec, source)])
    engine.search(asked(DESK))
    rules = ManifestPolicy(dict(engine.registry.domains)).rules_of("t1")
    assert source.queries[0].access == AccessScope(rules=frozenset({rules}), clearance=Classification.INTERNAL)
    make_engine([(spec, source)]).search(asked(DESK))
    assert source.queries[1].access is None


def test_the_visible_registry_is_what_a_search_goes_by(governed, spec_of, chunk_of):
    engine = governed([hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)])])
    assert [source.id for source in engine.visible(NOBODY).domain("NPA").sources] == ["t2"]
    assert engine.visible(DESK).domain("NPA") is engine.registry.domain("NPA")


# -- documents --------------------------------------------------------------------------------------------------------


def test_an_answer_is_that_of_a_source_without_the_raised_chunks(governed, make_engine, spec_of, chunk_of):
    spec = spec_of(2, access=RULE)
    visible = [chunk_of(f"c{number}", 0.9 - number / 20, f"Rule {number} on approval") for number in range(6)]
    raised = [chunk_of(f"r{number}", 0.99, f"Approvol {number}", classification=RAISED) for number in range(3)]
    mixed = [raised[0], *visible[:2], raised[1], *visible[2:], raised[2]]
    recorder = Kept()
    parts = {"query": "approval rule and limit of the desk", "multi_query": True}
    for given in ({}, {"stage1_top_k": 4}, {"query": "approvol rule"}, parts):
        without = make_engine([(spec, Longer("t2", visible))]).search(asked(DESK, **given))
        with_them = governed([(spec, Longer("t2", mixed))], recorder=recorder).search(asked(DESK, **given))
        assert published(with_them) == published(without)
        assert with_them.raw == without.raw
        assert stage_two_bytes(recompute(with_them)) == stage_two_bytes(with_them)
        _, access = recorder.recorded[-1]
        assert set(access.withheld) == {WithheldChunk("t2", chunk.chunk_id, RAISED) for chunk in raised}
        assert len(access.withheld) == 3
    whole = governed([(spec, Longer("t2", mixed))]).search(asked(BOARD))
    assert {chunk.chunk_id for chunk in whole.chunks} >= {"r0", "r1", "r2"}


class Longer(ScriptedSource):
    """Gives all it has, however few were asked for."""

    def search(self, query):
        return super().search(type(query)(text=query.text, domain=query.domain, top_k=1000, access=query.access))


def test_the_second_answers_of_a_refill_and_of_a_correction_pass_the_seam_too(governed, make_engine, chunk_of):
    copies = [chunk_of(f"c{number:02}", 0.9, "Rule on approval of products, all alike") for number in range(60)]
    others = [chunk_of(f"d{number}", 0.5, f"Approval step {number * 13} of desk {number}") for number in range(5)]
    raised = [chunk_of(f"r{number}", 0.99, classification=RAISED) for number in range(5)]
    results = []
    for build, chunks in ((governed, [*copies, *raised, *others]), (make_engine, [*copies, *others])):
        results.append(published(build([(2, Longer("t2", chunks))]).search(asked(stage1_top_k=10))))
    assert results[0] == results[1]
    assert results[0]["sources"][0]["asked"] == 50


# -- what is said -----------------------------------------------------------------------------------------------------


def test_by_default_nothing_is_said_of_a_denial_and_by_setting_that_there_was_one(governed, spec_of, chunk_of):
    sources = [hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)])]
    assert governed(sources).search(asked()).notices == ()
    said = governed(sources, domain_fields={"denials": "said"})
    result = said.search(asked())
    assert [(notice.code, notice.subject, notice.detail) for notice in result.notices] == [
        (NoticeCode.SOURCES_NOT_SEARCHED, "", {})
    ]
    assert result.beside_the_answer == tuple(notice.message for notice in result.notices)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
    assert said.search(asked(DESK)).notices == ()


@pytest.mark.wording
def test_the_sentence_tells_neither_which_nor_how_many_nor_why(governed, spec_of, chunk_of):
    sources = [hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)])]
    result = governed(sources, domain_fields={"denials": "said"}).search(asked())
    assert result.beside_the_answer == ("some sources were not searched for you",)


def test_a_search_is_recorded_with_what_was_decided_also_one_that_failed(governed, spec_of, chunk_of, caplog):
    caplog.set_level(logging.DEBUG)
    recorder = Kept()
    down = ScriptedSource("t2", error=SourceUnavailable("down", retryable=True))
    engine = governed([hidden(spec_of, chunk_of), (2, down)], recorder=recorder)
    with pytest.raises(AllSourcesFailed):
        engine.search(asked())
    (result, access), *others = recorder.recorded
    assert (access.principal, access.withheld, others) == (NOBODY, (), [])
    assert access.decision.sources == (
        SourceAccess("t1", False, AccessReason.SOURCE_RULE),
        SourceAccess("t2", True, AccessReason.NO_RULE),
    )
    assert access.decision.policy_hash == ManifestPolicy(dict(engine.registry.domains)).policy_hash
    assert "t1" not in str([getattr(result, each.name) for each in fields(result)])
    assert "t1" not in caplog.text
    assert "t2" in caplog.text


def test_a_caller_is_a_description_and_opens_nothing(governed, spec_of, chunk_of):
    engine = governed([hidden(spec_of, chunk_of), (2, [chunk_of("a", 0.6)])])
    result = engine.search(asked(caller=Caller(principal="dora", on_behalf_of="desk")))
    assert [status.source_id for status in result.sources] == ["t2"]
