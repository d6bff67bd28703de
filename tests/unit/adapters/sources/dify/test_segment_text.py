"""The line of a segment's text, in every structure of Dify: taken off, and read into the fields of a chunk."""

from __future__ import annotations

from datetime import date
from typing import Any

from context_engine.adapters.sources.dify import DifySettings
from context_engine.adapters.sources.dify.metadata import MetadataReader
from context_engine.adapters.sources.dify.method import SearchMethod
from context_engine.adapters.sources.dify.reading import read_chunks
from context_engine.core.chunking import ChunkLine, escaped, with_line
from context_engine.core.models import Chunk, Notice, ScoreKind

COSINE = SearchMethod("semantic_search", ScoreKind.COSINE, "acme/embed", {})
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
