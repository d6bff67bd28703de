"""What a caller may not read leaves an answer before anything counts it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from context_engine.core.engine.permission import readable
from context_engine.core.models import (
    AccessScope,
    Classification,
    Notice,
    NoticeCode,
    SearchRequest,
    SourceAnswer,
    TermStatistics,
    UnknownWord,
    WithheldChunk,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.testing.fakes import ScriptedSource

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Classification
SCOPE = AccessScope(clearance=INTERNAL)


def taken(answer, scope=SCOPE, declared=INTERNAL):
    found = readable(answer, source_id="sops", declared=declared, scope=scope)
    return [chunk.chunk_id for chunk in found.answer.chunks], [one.chunk_id for one in found.withheld]


@pytest.fixture
def answer(chunk_of):
    claims = (("a", None), ("b", RESTRICTED), ("c", INTERNAL), ("d", CONFIDENTIAL), ("e", PUBLIC))
    return SourceAnswer(chunks=[chunk_of(name, 0.5, classification=claim) for name, claim in claims])


def test_chunks_raised_above_their_source_and_the_clearance_are_taken_out(answer):
    assert taken(answer) == (["a", "c", "e"], ["b", "d"])
    assert readable(answer, source_id="sops", declared=INTERNAL, scope=SCOPE).withheld == (
        WithheldChunk("sops", "b", RESTRICTED),
        WithheldChunk("sops", "d", CONFIDENTIAL),
    )


def test_what_is_no_higher_than_its_source_stays_whatever_the_clearance(answer):
    nobody = AccessScope()
    assert taken(answer, nobody) == (["a", "c", "e"], ["b", "d"])
    assert taken(answer, nobody, CONFIDENTIAL) == (["a", "c", "d", "e"], ["b"])
    assert taken(answer, nobody, PUBLIC) == (["a", "e"], ["b", "c", "d"])


def test_without_a_policy_and_for_the_highest_clearance_the_answer_stays_as_it_is(answer):
    for scope in (None, AccessScope(clearance=RESTRICTED)):
        assert readable(answer, source_id="sops", declared=PUBLIC, scope=scope) == (answer, ())


def test_a_classification_that_is_none_counts_as_restricted(chunk_of):
    odd = SourceAnswer(chunks=[chunk_of("a", 0.5, classification="confidental"), chunk_of("b", 0.5)])
    assert taken(odd) == (["b"], ["a"])


@pytest.mark.parametrize("kind", [tuple, deque, lambda chunks: dict(enumerate(chunks)).values()])
def test_a_list_of_any_kind_is_looked_through(answer, kind):
    assert taken(SourceAnswer(chunks=kind(answer.chunks))) == (["a", "c", "e"], ["b", "d"])


def test_what_is_no_answer_is_left_to_validation(answer):
    for odd in (None, "text", SourceAnswer(chunks="text"), SourceAnswer(chunks=None)):
        assert readable(odd, source_id="sops", declared=INTERNAL, scope=SCOPE) == (odd, ())
    given = SourceAnswer(chunks=["no chunk", *answer.chunks])
    assert readable(given, source_id="sops", declared=INTERNAL, scope=SCOPE).answer.chunks[0] == "no chunk"


def test_notes_about_chunks_stay_where_they_name_one_that_stays(chunk_of):
    chunks = [
        chunk_of("a", 0.5, document_id="memo"),
        chunk_of("b", 0.5, document_id="secret", classification=RESTRICTED),
    ]
    code = NoticeCode
    stays = [
        Notice(code.FIELD_UNUSABLE, "", "a's field", {"chunk_id": "a", "field": "position", "value": "x"}),
        Notice(code.DOCUMENT_UNFINISHED, "", "the memo", {"document_id": "memo", "dataset_id": "d"}),
        Notice(code.INDEX_LAG, "", "behind"),
    ]
    goes = [
        Notice(code.FIELD_UNUSABLE, "", "b's field", {"chunk_id": "b", "field": "position", "value": "x"}),
        Notice(code.FIELD_UNUSABLE, "", "whose?", {"metadata": "owner", "field": "position", "value": "secret"}),
        Notice(code.DOCUMENT_UNFINISHED, "", "the secret", {"document_id": "secret", "dataset_id": "d"}),
        Notice(code.CHUNK_WITHOUT_TEXT, "", "c", {"chunk_id": "c", "dataset_id": "d", "pictures": 1}),
        Notice(code.KEY_MISSPELT, "", "scor", {"key": "scor", "meant": "score", "count": 2}),
    ]
    answer = SourceAnswer(chunks=chunks, notes=(*stays, *goes, "two memos were skipped"))
    found = readable(answer, source_id="sops", declared=INTERNAL, scope=SCOPE)
    assert [note.message for note in found.answer.notes] == [note.message for note in stays]
    assert readable(answer, source_id="sops", declared=INTERNAL, scope=None).answer.notes == answer.notes


def test_odd_notes_and_ids_are_no_way_round(chunk_of):
    chunks = [chunk_of("a", 0.5)._replace(document_id=["x"]), chunk_of("b", 0.5, classification=RESTRICTED)]
    notes = (Notice("no code", "", "odd", None), Notice(NoticeCode.FIELD_UNUSABLE, "", "odd", {"chunk_id": ["a"]}), 7)
    found = readable(SourceAnswer(chunks=chunks, notes=notes), source_id="s", declared=INTERNAL, scope=SCOPE)
    assert ([one.chunk_id for one in found.answer.chunks], found.answer.notes) == (["a"], ())


def test_what_a_source_knows_of_its_whole_collection_counts_as_not_known_unless_it_keeps_classes(chunk_of):
    chunks = [chunk_of("a", 0.5), chunk_of("b", 0.5, classification=RESTRICTED)]
    statistics = TermStatistics(collection="all", chunks=100, document_frequency={"falcon": 40})
    answer = SourceAnswer(
        chunks=chunks,
        notes=("two memos were skipped",),
        statistics=statistics,
        unknown_words=(UnknownWord("falcn", "falcon"),),
        filter_fields=("owner",),
    )
    found = {
        keeps: readable(answer, source_id="s", declared=INTERNAL, scope=SCOPE, keeps_classes=keeps)
        for keeps in (True, False)
    }
    for one in found.values():
        assert [[chunk.chunk_id for chunk in one.answer.chunks], [chunk.chunk_id for chunk in one.withheld]] == [
            ["a"],
            ["b"],
        ]
        assert one.answer.filter_fields == ("owner",)
    assert (found[True].answer.statistics, found[True].answer.notes) == (statistics, answer.notes)
    assert found[True].answer.unknown_words == answer.unknown_words
    assert (found[False].answer.statistics, found[False].answer.unknown_words, found[False].answer.notes) == (
        None,
        None,
        (),
    )


def test_a_source_says_for_itself_that_it_keeps_classes(make_engine, spec_of, chunk_of):
    class Knowing(ScriptedSource):
        def search(self, query):
            return replace(super().search(query), unknown_words=(UnknownWord("approvol", "approval"),))

    class Keeping(Knowing):
        access_classes = True

    suggestions = []
    for kind in (Knowing, Keeping):
        engine = make_engine([(2, kind("t2", [chunk_of("a", 0.9, "The rule on hotels")]))], access=ManifestPolicy({}))
        suggestions.append(engine.search(SearchRequest(query="approvol rule", domain="NPA")).prepared.suggestions)
    assert suggestions == [(), (("approvol", "approval"),)]
