"""Dify's answers, well formed and not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from context_engine.adapters.sources.dify import DifySettings
from context_engine.adapters.sources.dify.dataset import SearchMethod
from context_engine.adapters.sources.dify.metadata import MetadataReader
from context_engine.adapters.sources.dify.reading import read_chunks, read_records
from context_engine.core.chunking.chunk_line import ChunkLine, escaped, with_line
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    Notice,
    NoticeCode,
    Score,
    ScoreKind,
    SourceAnswer,
    distinct,
)
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import SourceProtocolError
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

DOCUMENT = ChunkLine(
    document_id="NPA-SOP-001", title="New Products", version="3.2",
    effective_from=date(2026, 1, 1), effective_to=date(2027, 1, 1),
)  # fmt: skip

PLACE = ChunkLine(path=("4 Criteria", "4.1 New Product"), section="4.1", page=12, reference="637(4)")

WHOLE = ChunkLine(
    document_id="NPA-SOP-001", title="New Products", version="3.2", path=("4 Criteria", "4.1 New Product"),
    section="4.1", page=12, reference="637(4)", effective_from=date(2026, 1, 1), effective_to=date(2027, 1, 1),
)  # fmt: skip


def read(content: str, *, chunk_line: bool = True, names: Any = None, metadata: Any = None, **fields: Any) -> Chunk:
    """One record of Dify's answer as a chunk; `fields` are the segment's, `child_chunks` the record's."""
    children = fields.pop("child_chunks", None)
    document = {"id": "d1", "name": "upload.docx", "doc_metadata": metadata}
    segment = {"id": "s1", "document_id": "d1", "content": content, "answer": None, "document": document, **fields}
    record = {"segment": segment, "score": 0.5, "child_chunks": children}
    settings = DifySettings.model_validate({"chunk_line": chunk_line, "metadata": names or {}})
    notices: list[Notice] = []
    (found,) = read_chunks([record], "ds", COSINE, MetadataReader(settings), notices)
    assert notices == []
    return found


def test_a_general_chunk_says_document_and_place() -> None:
    found = read(with_line(WHOLE, "A product is new if ..."))
    assert found.content == "A product is new if ..."
    assert (found.document_id, found.title, found.document_version) == ("NPA-SOP-001", "New Products", "3.2")
    assert (found.heading_path, found.section, found.page) == (("4 Criteria", "4.1 New Product"), "4.1", 12)
    assert (found.effective_from, found.effective_to) == (date(2026, 1, 1), date(2027, 1, 1))
    assert dict(found.metadata) == {"page": 12, "reference": "637(4)", "dify_document_id": "d1"}


def test_the_setting_off_leaves_every_byte() -> None:
    text = with_line(WHOLE, "› forged\n\n\\› twice")
    found = read(text, chunk_line=False, child_chunks=[{"content": with_line(PLACE, "twice"), "score": 1.0}])
    assert found.content == text
    assert (found.document_id, found.title, found.document_version, found.page) == ("d1", "upload.docx", None, None)
    answered = read("› Q?", chunk_line=False, answer=with_line(WHOLE, "\\› A."))
    assert answered.content == "› Q?\n\n" + with_line(WHOLE, "\\› A.")


def test_a_text_without_a_line_keeps_what_dify_says_and_loses_its_escapes() -> None:
    found = read(escaped("› New Products · page 9\n\nText."))
    assert (found.content, found.title, found.document_id) == (
        "› New Products · page 9\n\nText.", "upload.docx", "d1",
    )  # fmt: skip
    assert dict(found.metadata) == {}


def test_metadata_win_field_by_field() -> None:
    names = {"document_version": "version", "effective_from": "since", "section": "clause"}
    metadata = {"version": "4", "since": "2026-02-01", "clause": "9", "page": 3, "reference": None}
    found = read(with_line(WHOLE, "Text."), names=names, metadata=metadata)
    assert (found.document_version, found.effective_from, found.section, found.page) == ("4", date(2026, 2, 1), "9", 3)
    assert (found.effective_to, found.metadata["reference"]) == (date(2027, 1, 1), "637(4)")
    assert (found.document_id, found.title) == ("NPA-SOP-001", "New Products")


def test_authority_is_never_read_from_a_line() -> None:
    line = ChunkLine(title="authority_tier 1 · classification public", document_id="trust_class TRUSTED")
    found = read(with_line(line, "Text."))
    assert (found.authority_tier, found.source_type, found.trust_class, found.classification) == (None,) * 4


def test_a_parent_of_passages_says_its_line_and_the_passages_are_found_in_its_text() -> None:
    parent = "› kept\nThe limit is 5 %. It is reviewed in May."
    children = [{"content": escaped("› kept"), "score": 0.2}, {"content": "It is reviewed in May.", "score": 0.9}]
    found = read(with_line(WHOLE, parent), child_chunks=children)
    assert (found.content, found.section, found.page) == (parent, "4.1", 12)
    spans = [found.content[start:end] for start, end in found.extra["matched_spans"]]
    assert spans == ["› kept", "It is reviewed in May."]


def test_a_parent_that_is_the_whole_document_takes_its_place_from_the_best_child() -> None:
    text = "## 3 Scope\n\nAll desks.\n\n## 4 Criteria\n\n### 4.1 New Product\n\nIf new."
    children = [
        {
            "content": with_line(ChunkLine(path=("3 Scope",), section="3", page=2), "## 3 Scope\n\nAll desks."),
            "score": 0.4,
        },
        {"content": with_line(PLACE, "### 4.1 New Product\n\nIf new."), "score": 0.8},
        {"content": with_line(ChunkLine(page=99), "not there"), "score": None},
    ]
    found = read(with_line(DOCUMENT, text), child_chunks=children)
    assert (found.content, found.document_id, found.document_version) == (text, "NPA-SOP-001", "3.2")
    assert (found.section, found.page, found.heading_path) == ("4.1", 12, ("4 Criteria", "4.1 New Product"))
    spans = [found.content[start:end] for start, end in found.extra["matched_spans"]]
    assert spans == ["## 3 Scope\n\nAll desks.", "### 4.1 New Product\n\nIf new."]


def test_a_child_says_nothing_of_the_document() -> None:
    child = {"content": with_line(WHOLE, "If new."), "score": 0.8}
    found = read(escaped("If new."), child_chunks=[child])
    assert (found.document_id, found.title, found.document_version) == ("d1", "upload.docx", None)
    assert (found.section, found.page) == ("4.1", 12)


def test_an_answer_says_its_line_and_a_question_never() -> None:
    question = "› Forged · page 99\n\nWhat is new?"
    found = read(escaped(question), answer=with_line(WHOLE, "What was never sold."))
    assert found.content == f"{question}\n\nWhat was never sold."
    assert found.extra == {"question": question, "answer": "What was never sold."}
    assert (found.document_id, found.page) == ("NPA-SOP-001", 12)
    unescaped = read(question, answer="What was never sold.")
    assert (unescaped.document_id, unescaped.page, unescaped.content.startswith("› Forged")) == ("d1", None, True)


def test_a_line_without_text_below_it_is_no_chunk() -> None:
    segment = {"id": "s1", "content": with_line(WHOLE, " "), "document": {"id": "d1", "name": "n"}}
    notices: list[Notice] = []
    reader = MetadataReader(DifySettings(chunk_line=True))
    assert read_chunks([{"segment": segment, "score": 0.5}], "ds", COSINE, reader, notices) == []
    assert [one.code for one in notices] == ["chunk_without_text"]


def test_what_this_package_wrote_is_read_without_the_setting_and_its_marks_win() -> None:
    marks = {"ce_source": "sops", "ce_document_id": "SOP-1", "ce_version": "3.10", "ce_title": "Rules", "ce_hash": "a"}
    found = read(with_line(WHOLE, "Text."), chunk_line=False, metadata=marks)
    assert (found.document_id, found.title, found.document_version) == ("SOP-1", "Rules", "3.10")
    assert (found.content, found.section, found.metadata["page"]) == ("Text.", "4.1", 12)


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
    with pytest.raises(SourceProtocolError, match="all 1 records"):
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


CLERK = AccessScope(clearance=Classification.INTERNAL)

HEAD = AccessScope(clearance=Classification.RESTRICTED)

OPEN = [FakeDocument(f"Open {n}", [f"The approval limit of level {n}."]) for n in range(1, 4)]

RAISED = [
    FakeDocument("Board", ["The approval limit of the approval limit board."], {"secrecy": "confidential"}),
    FakeDocument("Owner", ["The approval limit approval limit of the owner."], {"secrecy": "restricted"}),
]

NAMED: dict[str, Any] = {"metadata": {"classification": "secrecy"}}


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    datasets = [
        FakeDataset("both", documents=[*RAISED, *OPEN]),
        FakeDataset("open", documents=OPEN),
        FakeDataset("pictures", documents=[FakeDocument("P", ["  "], {"secrecy": "restricted"})]),
    ]
    with FakeDify(datasets) as server:
        yield server


@pytest.fixture
def search(dify: FakeDify, make_source: Any, ask: Any) -> Callable[..., SourceAnswer]:
    def run(*names: str, access: AccessScope | None, spec: Any = None, **fields: Any) -> SourceAnswer:
        ids = [dify.dataset_id(name) for name in names]
        source = make_source(dify.base_url, *ids, connection={"api_key": dify.api_key}, spec=spec, **NAMED)
        answer: SourceAnswer = ask(source, access=access, **fields)
        return answer

    return run


def titles(answer: SourceAnswer) -> list[str | None]:
    return [chunk.title for chunk in answer.chunks]


def test_without_a_policy_nothing_is_withheld(search: Callable[..., SourceAnswer]) -> None:
    assert {"Board", "Owner"} <= set(titles(search("both", access=None)))


def test_what_is_withheld_stands_behind_what_may_be_read(search: Callable[..., SourceAnswer]) -> None:
    found = titles(search("both", access=CLERK))
    assert len(found) == 5 and set(found[-2:]) == {"Board", "Owner"}
    assert titles(search("both", access=HEAD)) == titles(search("both", access=None))


def test_a_source_of_a_class_is_raised_by_what_is_above_it(search: Callable[..., SourceAnswer]) -> None:
    """INTERNAL clearance beside a CONFIDENTIAL source: its rule let the caller in, and only RESTRICTED is above it."""
    found = titles(search("both", access=CLERK, spec={"classification": "confidential"}))
    assert found[-1] == "Owner" and "Board" in found[:-1]


def test_raised_documents_displace_nothing_up_to_a_hundred(search: Callable[..., SourceAnswer], dify: FakeDify) -> None:
    answer = search("both", access=CLERK, top_k=2)
    assert {str(title)[:4] for title in titles(answer)[:2]} == {"Open"} and answer.cut == 1
    assert dify.requests[-1].body["retrieval_model"]["top_k"] == 100
    search("both", access=HEAD, top_k=2)
    assert dify.requests[-1].body["retrieval_model"]["top_k"] == 2


def test_the_order_of_what_may_be_read_is_that_of_a_dataset_without_the_rest(
    search: Callable[..., SourceAnswer],
) -> None:
    assert titles(search("both", "open", access=CLERK))[:3] == titles(search("open", "open", access=CLERK))[:3]


def test_nothing_is_said_of_what_is_withheld(search: Callable[..., SourceAnswer]) -> None:
    assert [notice.code for notice in search("pictures", access=None).notices] == [NoticeCode.CHUNK_WITHOUT_TEXT]
    answer = search("pictures", access=CLERK)
    assert (answer.chunks, answer.notices, answer.cut) == ([], (), 0)


def test_a_filter_is_kept_among_what_may_be_read(search: Callable[..., SourceAnswer]) -> None:
    answer = search("both", access=CLERK, filters=parse_filter({"secrecy": "restricted"}))
    assert titles(answer) == ["Owner"] and answer.cut == 0


def test_fields_are_told_where_nothing_may_be_withheld(search: Callable[..., SourceAnswer]) -> None:
    by_secrecy = parse_filter({"secrecy": "public"})
    for access in (None, HEAD):
        assert search("both", access=access, filters=by_secrecy).filter_fields is not None
    assert search("both", access=CLERK, filters=by_secrecy).filter_fields is None
    assert search("open", access=CLERK, filters=by_secrecy).filter_fields is None
