"""Dify's answers, well formed and not."""

from datetime import UTC, date, datetime

import pytest

from context_engine.adapters.sources.dify import DifySettings
from context_engine.adapters.sources.dify.metadata import MetadataReader
from context_engine.adapters.sources.dify.method import SearchMethod
from context_engine.adapters.sources.dify.reading import read_chunks, read_records
from context_engine.core.models import Score, ScoreKind, distinct
from context_engine.errors import SourceProtocolError

COSINE = SearchMethod("semantic_search", ScoreKind.COSINE, "acme/embed", {})
KEYWORD = SearchMethod("keyword_search", None, None, {})


def record(**fields):
    segment = {
        "id": "s1", "position": 3, "document_id": "d1", "content": "The limit is 5 %.", "answer": None,
        "completed_at": 1767225600, "document": {"id": "d1", "name": "Limits", "doc_metadata": {"year": 2025}},
    }  # fmt: skip
    outer = {"child_chunks": None, "score": 0.5}
    return {
        **outer,
        **{key: value for key, value in fields.items() if key in outer},
        "segment": {**segment, **{key: value for key, value in fields.items() if key not in outer}},
    }


def chunk(method=COSINE, **fields):
    notices = []
    (found,) = read_chunks([record(**fields)], "ds", method, MetadataReader(DifySettings()), notices)
    assert notices == []
    return found


def test_a_record_becomes_a_chunk():
    found = chunk()
    assert (found.content, found.chunk_id, found.document_id) == ("The limit is 5 %.", "s1", "d1")
    assert (found.title, found.position, found.dataset_id) == ("Limits", 2, "ds")
    assert found.scores == (Score(ScoreKind.COSINE, 0.5, "acme/embed"),)
    assert found.fetched_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert dict(found.metadata) == {"year": 2025}


def test_a_document_that_this_package_wrote_says_who_it_is_under_our_own_names():
    marks = {"ce_source": "sops", "ce_document_id": "SOP-1", "ce_version": "2", "ce_title": "Limits", "ce_hash": "ab"}
    claims = {"authority_tier": 3, "effective_from": "2026-01-15", "document_version": "2", "owner": "Ops"}
    found = chunk(document={"id": "d1", "name": "SOP-1 2 Limits [ce-ab]", "doc_metadata": {**marks, **claims}})
    assert (found.document_id, found.document_version, found.title) == ("SOP-1", "2", "Limits")
    assert (found.authority_tier, found.effective_from) == (3, date(2026, 1, 15))
    assert dict(found.metadata) == {**claims, "dify_document_id": "d1"}


def test_somebody_else_s_metadata_says_nothing_unless_the_manifest_names_it():
    found = chunk(document={"id": "d1", "name": "x", "doc_metadata": {"authority_tier": 3}})
    assert found.authority_tier is None


@pytest.mark.parametrize("score", [0.0, 0.9, None])
def test_keyword_scores_are_none(score):
    assert chunk(KEYWORD, score=score).scores == ()


@pytest.mark.parametrize("score", [None, float("nan"), float("inf"), True, 1.5, -2])
def test_scores_that_are_no_cosine_are_absent(score):
    assert chunk(score=score).scores == ()


def test_question_and_answer_are_one_text():
    found = chunk(content="What is the limit?", answer="5 %.")
    assert found.content == "What is the limit?\n\n5 %."
    assert dict(found.extra) == {"question": "What is the limit?", "answer": "5 %."}


def test_a_parent_tells_where_its_children_matched():
    children = [{"id": "c", "content": "limit is", "position": 1, "score": 0.5}, {"content": "not there"}, "odd"]
    found = chunk(child_chunks=children)
    assert found.content == "The limit is 5 %."
    assert found.extra == {"matched_spans": [[4, 12]]}
    assert found.content[4:12] == "limit is"


def test_null_metadata_and_odd_times_are_not_known():
    found = chunk(document={"name": None, "doc_metadata": None}, completed_at=None, position=0, document_id=None)
    assert (found.metadata, found.title, found.document_id) == ({}, None, None)
    assert (found.fetched_at, found.position) == (None, None)


def test_a_segment_without_text_and_one_that_repeats_are_left_out():
    notices = []
    rows = [record(), record(), record(id="s2", content=" \n")]
    found = read_chunks(rows, "ds", COSINE, MetadataReader(DifySettings()), notices)
    assert [one.chunk_id for one in found] == ["s1"]
    (notice,) = notices
    assert notice.code == "chunk_without_text"
    assert notice.detail == {"dataset_id": "ds", "chunk_id": "s2", "pictures": []}


@pytest.mark.parametrize("body", [None, [], "x", 5, {}, {"records": None}, {"records": {}}, {"records": "none"}])
def test_a_body_without_records_is_an_error(body):
    with pytest.raises(SourceProtocolError, match="no list of records"):
        read_records(body)


def test_no_record_is_an_empty_answer():
    assert read_records({"records": []}) == ((), 0)


BAD = [
    5, None, {}, {"segment": None}, record(id=7), record(id=""), record(content=None), record(content=["x"]),
    record(document=None), record(document={"doc_metadata": ["a"]}), record(score="high"), record(child_chunks="none"),
    record(answer=5),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_a_record_that_cannot_be_read_is_counted_and_an_error_if_all_are(bad):
    assert read_records({"records": [record(), bad]}) == ((record(),), 1)
    with pytest.raises(SourceProtocolError, match="none of the 1 records"):
        read_records({"records": [bad]})


def test_a_chunk_of_a_document_that_is_not_whole_says_so_once() -> None:
    """Our marks without the hash, which is assigned last."""

    def of_ours(identity, **marks):
        document = {"id": "d", "name": "n", "doc_metadata": {"ce_source": "s", "ce_document_id": "SOP-1", **marks}}
        return record(id=identity, document=document)

    notices = []
    records = [of_ours("1", ce_state="unfinished"), of_ours("2"), of_ours("3", ce_hash="h")]
    chunks = read_chunks(records, "ds", KEYWORD, MetadataReader(DifySettings()), notices)
    assert [chunk.extra.get("unfinished") for chunk in chunks] == [True, True, None]
    (notice,) = distinct(notices)
    assert notice.code == "document_unfinished"
    assert notice.detail == {"dataset_id": "ds", "document_id": "SOP-1"}
