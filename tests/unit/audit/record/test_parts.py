"""A result that was saved is the same result when it is loaded."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.audit.record.codec import dumped, loaded
from context_engine.audit.record.exact import Unreadable, json_bytes, json_bytes_each, tagged, untagged
from context_engine.audit.record.parts import load_result, save_result
from context_engine.core.engine import rank_chunks, recompute, stage_two_bytes
from context_engine.core.models import (
    And,
    Caller,
    Chunk,
    Classification,
    Condition,
    EffectiveSettings,
    FetchedAtBasis,
    FilterOp,
    Not,
    Or,
    Principal,
    RawAnswer,
    ScopeCalibration,
    Score,
    ScoreKind,
    SearchRequest,
    Settings,
    SourceAnswer,
    SourceSpec,
    TermStatistics,
    UnknownWord,
)
from context_engine.errors import InvalidRequest, SourceError
from context_engine.testing import ScriptedSource

RULE = "A proposal above the materiality limit goes to the product committee for approval."


def again(result):
    """The result, saved as text and loaded."""
    return load_result(json.loads(json.dumps(save_result(result, code_version="0.9"), allow_nan=False)))


def assert_same(result):
    back = again(result)
    for one in fields(result):
        assert getattr(back, one.name) == getattr(result, one.name), one.name
    assert json.dumps(back.to_dict(), default=str) == json.dumps(result.to_dict(), default=str)
    assert stage_two_bytes(back) == stage_two_bytes(result)
    if result.request is not None:
        assert stage_two_bytes(recompute(back)) == stage_two_bytes(recompute(result))
    return back


def full_chunk():
    return Chunk(
        content=f"{RULE} 审批 \u2028",
        chunk_id="c/1",
        source_id="other",
        scores=(Score(ScoreKind.BM25, 3.25, "index"), Score(ScoreKind.COSINE, -0.5)),
        document_id="sop.md",
        document_version="3.2",
        dataset_id="d",
        title="SOP",
        section="4.2.1(b)",
        heading_path=("Chapter 4", "Limits"),
        doc_type="sop",
        position=0,
        span=(10, 90),
        source_type="bank_sop",
        authority_tier=3,
        trust_class="TRUSTED",
        classification=Classification.INTERNAL,
        fetched_at=datetime(2026, 3, 2, 9, 30, 15, 123, tzinfo=timezone(timedelta(hours=8))),
        fetched_at_basis=FetchedAtBasis.ORIGIN,
        ttl_seconds=0,
        effective_from=date(2026, 1, 1),
        effective_to=date(2027, 1, 1),
        superseded_by="4",
        metadata={"page": 3, "day": date(2026, 1, 1), "at": datetime(2026, 1, 1, tzinfo=UTC), "n": float("inf")},
        extra={"$price": 4, "deep": [{"a": [None, True, 1.0]}], "": ""},
    )


def test_every_field_of_a_chunk_comes_back(ask, spec_of):
    result = ask([(spec_of(2, "sops", trust_document_metadata=True), [full_chunk()])], as_of=date(2026, 2, 1))
    back = assert_same(result)
    (chunk,) = back.raw[0].chunks
    assert chunk.fetched_at.isoformat() == "2026-03-02T09:30:15.000123+08:00"
    assert type(chunk.metadata["day"]) is date
    assert type(chunk.scores[0]) is Score
    assert chunk.scores[0].kind is ScoreKind.BM25


def test_every_field_of_a_request_comes_back(ask, chunk_of):
    filters = And(
        (
            Condition("tier", FilterOp.LTE, 3),
            Or((Condition("doc_type", FilterOp.IN, ("a", "b")), Not(Condition("year", FilterOp.EMPTY)))),
            Condition("fetched_at", FilterOp.LT, date(2027, 1, 1)),
        )
    )
    result = ask(
        [(1, [chunk_of("a", 0.9)])],
        caller=Caller(principal="p", app="desk", conversation="c", message="m", on_behalf_of="o"),
        principal=Principal(id="u", roles={"b", "a"}, groups={"g"}, clearance="confidential"),
        request_id="r",
        as_of=date(2026, 3, 1),
        filters=filters,
        require_tiers=(1, 2),
        require_sources=("t1",),
        stage2_top_k=3,
        mmr_lambda=0.5,
    )
    back = assert_same(result)
    assert back.request.filters == filters
    assert back.settings.origins == {"stage2_top_k": "call", "mmr_lambda": "call"}


def test_what_sources_know_of_the_question_and_their_notes_come_back(ask, chunk_of, spec_of):
    calibration = ScopeCalibration(threshold=0.3, strong=0.6, signal="v1", model_id="e5", own=4)
    statistics = TermStatistics(collection="base", chunks=10, document_frequency={"approv": 3, "rule": 0})

    class Source(ScriptedSource):
        def search(self, query):
            return SourceAnswer(
                chunks=[chunk_of("a"), chunk_of("b")],
                notes=("a remark",),
                cut=2,
                failures=(SourceError("half of it is away", source_id="sops"),),
                by_keywords=True,
                statistics=statistics,
                unknown_words=(UnknownWord("aproval", "approval"),),
                filter_fields=("year",),
                calibration=calibration,
            )

    result = ask(
        [(spec_of(2, "sops", ttl_seconds=60), Source("sops", [])), (3, lambda *_: 1 / 0)], query="aproval rule"
    )
    assert [status.state for status in result.sources] == ["partial", "failed"]
    back = assert_same(result)
    assert back.raw[0].statistics == statistics
    assert back.raw[0].calibration == calibration
    assert back.sources[0].failure is None
    assert back.specs[0].model_fields_set == result.specs[0].model_fields_set


@pytest.mark.parametrize("scores", [[0.1, 0.9, 0.4], None, "failed"])
def test_a_reranker_is_not_asked_again(ask, chunk_of, scores):
    def rerank(_query, texts):
        if scores == "failed":
            raise ValueError("broken")
        return None if scores is None else scores[: len(texts)]

    chunks = [chunk_of("a", 0.7), chunk_of("b", 0.6), chunk_of("c", 0.5, RULE)]
    assert_same(ask([(2, chunks)], engine={"reranker": CallableReranker(rerank)}))


def test_two_legs_of_one_chunk_and_two_texts_of_one_id_come_back(ask, chunk_of):
    legs = [chunk_of("a", 0.7, RULE), Chunk(content=RULE, chunk_id="a", scores=(Score(ScoreKind.COSINE, 0.4, "e5"),))]
    back = assert_same(ask([(2, [*legs, chunk_of("a", 0.6, "Another approval rule 7.")])]))
    assert len(back.chunks[0].chunk.scores) == 2


def test_a_result_of_passages_that_were_ranked_alone_comes_back(chunk_of):
    spec = SourceSpec(id="adapter", type="general_web", adapter="callable", trust_document_metadata=True)
    result = rank_chunks(
        SearchRequest(query="approval rule", domain="any domain"),
        spec,
        [chunk_of("a", 0.7), full_chunk()],
        settings=EffectiveSettings(),
    )
    assert_same(result)


def test_a_result_without_request_and_answers_comes_back(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.7)])])
    assert_same(replace(result, request=None, prepared=None, raw=(), specs=(), query="x", caller=Caller(app="y")))


def test_a_setting_out_of_a_variable_is_saved_as_its_expression(ask, chunk_of):
    class Filled(str):
        written = "${TOKEN}"

    values = Settings(reranker_options={"token": Filled("secret-value")})
    settings = EffectiveSettings.model_construct(values=values, origins={"reranker_options": "file"})
    spec = SourceSpec(id="t2", type="bank_sop", settings={"key": Filled("secret-value")})
    result = replace(ask([(2, [chunk_of("a", 0.7)])]), settings=settings, specs=(spec,))
    saved = json.dumps(save_result(result, code_version="0.9"))
    assert "secret-value" not in saved
    assert load_result(json.loads(saved)).settings.values.reranker_options == {"token": "${TOKEN}"}


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved.update(version=2),
        lambda saved: saved.update(embeddings=[]),
        lambda saved: saved["candidates"].update(v=2),
        lambda saved: saved["candidates"]["result"].update(mood="good"),
        lambda saved: saved["question"]["result"]["request"].update(mood="good"),
        lambda saved: saved["candidates"]["result"].update(status="excellent"),
        lambda saved: saved["candidates"]["result"].pop("domain"),
        lambda saved: saved["candidates"]["fates"].update(outcome=[]),
        lambda saved: saved["contents"].pop(),
        lambda saved: saved.update(contents=["{}"] * len(saved["contents"])),
        lambda saved: saved.pop("question"),
    ],
)
def test_what_this_version_does_not_know_is_refused_in_one_sentence(ask, chunk_of, change):
    saved = json.loads(json.dumps(save_result(ask([(2, [chunk_of("a", 0.7)])]), code_version="9.9")))
    change(saved)
    with pytest.raises(InvalidRequest, match=r"cannot be read|another version of the package \(9\.9\)"):
        load_result(saved)


@pytest.mark.parametrize("given", [{}, {"chunks": []}, {"record": {}}, [], None, "x"])
def test_something_else_is_no_saved_result(given):
    with pytest.raises(InvalidRequest, match="not a saved result"):
        load_result(given)


@pytest.mark.parametrize(
    "value",
    [
        {"$date": "x"},
        {1: "a", None: "b"},
        {"a": {"$": [1, ("t", {"s"})]}},
        [date(2026, 1, 1), datetime(2026, 1, 1, 1, 2, 3, 4), (), [[]], {}],
        {"s": {1, 2}, "f": frozenset({"a"})},
        float("inf"),
        "\ud800 alone",
        10**40,
    ],
)
def test_any_value_comes_back_exactly(value):
    assert untagged(json.loads(json_bytes(tagged(value)))) == value


def test_a_mark_of_another_version_is_refused():
    with pytest.raises(Unreadable, match=r"\$vector"):
        untagged({"a": {"$vector": [1]}})


def test_a_field_with_its_default_is_left_out_and_an_absent_one_has_it():
    answer = RawAnswer(source_id="s", chunks=(), retrieved_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert dumped(answer, without=("chunks",)) == {"source_id": "s", "retrieved_at": "2026-01-01T00:00:00+00:00"}
    assert loaded(RawAnswer, dumped(answer, without=("chunks",)), chunks=()) == answer


WITHOUT_EXTRA = """
import json, sys
sys.modules.update(dict.fromkeys(("cryptography", "sqlalchemy")))
from context_engine.audit.record.parts import load_result
from context_engine.audit.review.replay import replay
print(replay(load_result(json.load(sys.stdin)), code_version="0.9").identical)
"""


@pytest.mark.slow
def test_a_saved_result_is_replayed_without_the_extra(ask, chunk_of):
    saved = json.dumps(save_result(ask([(2, [chunk_of("a", 0.7)])]), code_version="0.9"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA], input=saved, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    "values",
    [
        [],
        [{}],
        [{"a": 1}, {}, {"b": [", "]}],
        [{"a": "\x00 between two values \x00"}, {"b": 1}],
        [{"a": ["\x00 between two values \x00"]}, {"b": ","}],
        ["a", ",", "", [1], "\ud800"],
    ],
)
def test_values_written_together_are_written_as_each_alone(values):
    assert json_bytes_each(values) == [json_bytes(value) for value in values]
