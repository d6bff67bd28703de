"""A recorded search, computed again from its record alone."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.audit.record.drafts import context_draft
from context_engine.audit.record.entry import Missing
from context_engine.audit.record.restored import Restored
from context_engine.audit.review.replay import ChangedSetting, FirstDifference, first_difference, replay
from context_engine.core.context import from_result
from context_engine.core.models import EffectiveSettings, Settings
from context_engine.core.text import content_sha256

MOMENT = datetime(2026, 3, 2, 11, tzinfo=UTC)


class Words:
    name = "words"

    def count(self, text):
        return len(text.split())


@pytest.fixture
def result(ask, chunk_of):
    chunks = [chunk_of("a", 0.9), chunk_of("b", 0.5), chunk_of("c", 0.2)]
    return ask([(1, chunks[:1]), (3, chunks[1:])])


def settings(**values):
    return lambda _: EffectiveSettings(values=Settings(**values), origins=dict.fromkeys(values, "file"))


def context_entry(context, **other):
    return {
        "id": "c-1",
        "budget": context.budget,
        "form": context.form,
        "counter": context.counter,
        "nonce": context.nonce,
        "tokens": context.tokens,
        "masked": False,
        "sha256": content_sha256(context.text),
        **other,
    }


def test_the_same_record_gives_the_same_answer(result):
    replayed = replay(result, code_version="0.9", settings_now=settings())
    assert replayed.identical
    assert (replayed.difference, replayed.reason, replayed.changed_settings, replayed.answer_now) == (
        None,
        None,
        (),
        None,
    )


def test_an_altered_record_is_told_by_the_first_field_that_differs(result):
    first = replace(result.chunks[0], final=0.5)
    altered = replace(result, chunks=(first, *result.chunks[1:]))
    replayed = replay(altered, code_version="0.9", recorded_by="0.9")
    assert not replayed.identical
    assert replayed.difference == FirstDifference("chunks[0]._rag_score", 0.5, 0.7)  # 0.6 * 0.9 + 0.4 * 0.4
    assert replayed.reason == "record_altered"


def published(result):
    return {**json.loads(json.dumps(result.to_dict(), default=str)), "record": {}}


def test_an_answer_beside_its_record_is_the_records(result):
    assert replay(result, code_version="0.9", published=published(result)).identical


def test_an_answer_altered_beside_its_record_is_told_by_the_first_field(result):
    beside = published(result)
    beside["chunks"][0]["content"] = "at least 4 characters"
    replayed = replay(result, code_version="0.9", recorded_by="0.9", published=beside)
    assert (replayed.identical, replayed.reason) == (False, "answer_altered")
    assert replayed.difference[:2] == ("chunks[0].content", "at least 4 characters")
    assert replay(result, code_version="0.9", recorded_by="0.8", published=beside).reason == "code_version"


def test_a_difference_beside_another_version_is_laid_to_it(result):
    altered = replace(result, chunks=result.chunks[:1])
    replayed = replay(altered, code_version="1.0", recorded_by="0.9")
    assert replayed.reason == "code_version"
    assert "0.9" in replayed.explanation
    assert "1.0" in replayed.explanation
    assert replayed.difference.path == "chunks[1]"


def test_missing_scores_of_the_reranker_are_the_reason(ask, chunk_of):
    chunks = [chunk_of("a", 0.7), chunk_of("b", 0.6)]
    result = ask([(2, chunks)], engine={"reranker": CallableReranker(lambda _query, _texts: [0.1, 0.9])})
    assert replay(result, code_version="0.9").identical
    assert replay(replace(result, rerank_scores={}), code_version="1.0", recorded_by="0.9").reason == (
        "rerank_scores_missing"
    )


def test_erased_texts_are_the_reason_and_nothing_is_computed(result):
    gone = tuple(Missing("text", bytes([n]), 7, "2026-04-01T08:00:00Z") for n in range(2))
    replayed = replay(Restored(entry={"id": "s-1", "code": "0.9"}, missing=gone), code_version="0.9")
    assert (replayed.search_id, replayed.identical, replayed.reason) == ("s-1", False, "erased")
    assert replayed.explanation == "2 times: text was erased (entry 7 of 2026-04-01T08:00:00Z)"


def test_a_setting_that_changed_since_is_named_and_what_it_changes(result):
    replayed = replay(result, code_version="0.9", settings_now=settings(min_relevance_score=0.4))
    assert replayed.identical
    assert replayed.changed_settings == (ChangedSetting("min_relevance_score", 0.15, 0.4, "file", True),)
    assert replayed.answer_now.path == "chunks[2]"


def test_a_setting_that_changes_nothing_of_the_answer_is_named_alone(result):
    replayed = replay(result, code_version="0.9", settings_now=settings(stage1_top_k=80))
    assert replayed.changed_settings == (ChangedSetting("stage1_top_k", 40, 80, "file", False),)
    assert replayed.answer_now is None


def test_a_setting_that_the_call_chose_is_no_change(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.9)])], stage2_top_k=3)
    replayed = replay(
        result, code_version="0.9", settings_now=lambda recorded: settings(**recorded.request.overrides)(0)
    )
    assert replayed.changed_settings == ()


def test_without_reranking_the_recorded_scores_do_not_count(ask, chunk_of):
    chunks = [chunk_of("a", 0.7), chunk_of("b", 0.6)]
    result = ask([(2, chunks)], engine={"reranker": CallableReranker(lambda _query, _texts: [0.1, 0.9])})
    assert [chunk.chunk_id for chunk in result.chunks] == ["b", "a"]
    replayed = replay(result, code_version="0.9", settings_now=settings(reranking_enabled=False))
    assert replayed.answer_now.path.startswith("chunks[0]")


def test_settings_under_which_the_search_is_refused_are_a_difference(result):
    refused = settings(similarity_threshold=0.5, strict_thresholds=True)
    answer = replay(result, code_version="0.9", settings_now=refused).answer_now
    assert answer.path == "error"
    assert "strict_thresholds" in answer.now


def test_contexts_are_made_again(result):
    context = from_result(result, counter=Words(), budget=60)
    contexts = [context_entry(context), context_entry(context, sha256="0" * 64, tokens=9, id="c-2")]
    replayed = replay(result, code_version="0.9", contexts=contexts[:1], counter=lambda _: Words())
    assert replayed.identical
    assert replayed.contexts[0].identical
    replayed = replay(result, code_version="0.9", contexts=contexts, counter=lambda _: Words())
    assert not replayed.identical
    assert [one.identical for one in replayed.contexts] == [True, False]
    assert "9 were recorded" in replayed.contexts[1].reason


def test_a_later_part_of_an_answer_is_made_again_from_its_number(ask, chunk_of):
    result = ask([(2, [chunk_of(f"c{place}", 0.9 - place / 10) for place in range(3)])])
    first, second = (from_result(result, counter=Words(), budget=60, form="full", part=part) for part in (1, 2))
    assert first.text != second.text
    entries = [
        json.loads(context_draft(result, one, record_id="c-1", now=MOMENT, code_version="0.9").compose({}).entry)
        for one in (first, second)
    ]
    assert [entry.get("part") for entry in entries] == [None, 2]
    replayed = replay(result, code_version="0.9", contexts=entries, counter=lambda _: Words())
    assert [one.identical for one in replayed.contexts] == [True, True]
    (none,) = replay(
        result, code_version="0.9", contexts=[{**entries[1], "part": 9}], counter=lambda _: Words()
    ).contexts
    assert none.identical is None


def test_a_context_that_cannot_be_made_again_says_why(result):
    context = from_result(result, counter=Words(), budget=60)
    (plain,) = replay(result, code_version="0.9", contexts=[context_entry(context)]).contexts
    assert (plain.identical, plain.reason) == (None, "no token counter is available")
    masked = context_entry(context, masked=True)
    (masked,) = replay(result, code_version="0.9", contexts=[masked], counter=lambda _: Words()).contexts
    assert masked.identical is None
    assert "mask" in masked.reason


def test_a_masked_question_is_the_reason_where_it_changed_the_answer(ask, chunk_of):
    values = {"domain_fields": {"settings": {"mask_stored_queries": True}}, "mask": lambda text: text}
    result = ask([(2, [chunk_of("a", 0.7)])], engine=values)
    assert replay(result, code_version="0.9").identical
    masked = replace(result, chunks=())
    assert replay(masked, code_version="0.9").reason == "question_masked"


def test_the_published_form_is_json(result):
    published = replay(result, code_version="0.9", settings_now=settings(min_relevance_score=0.4)).to_dict()
    assert published["identical"] is True
    assert published["changed_settings"][0]["key"] == "min_relevance_score"
    assert published["answer_now"]["path"] == "chunks[2]"
    assert "changed_settings" in published
    assert replay(result, code_version="0.9").to_dict()["changed_settings"] is None


@pytest.mark.parametrize(
    ("was", "now", "path"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": 1.0}, "a"),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": None}, {}, "a"),
        ({}, {"b": 0}, "b"),
        ([1, 2], [1], "[1]"),
        ({"a": [{"b": [1]}]}, {"a": [{"b": [1, 2]}]}, "a[0].b[1]"),
    ],
)
def test_the_first_difference_is_named_by_its_path(was, now, path):
    found = first_difference(was, now)
    assert (found.path if found else None) == path
