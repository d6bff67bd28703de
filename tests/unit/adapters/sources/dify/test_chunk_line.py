"""Datasets of chunks that speak: searched, filtered, fetched by their own ids, examined, and written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.sink import DifySink
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.chunking.chunk_line import ChunkLine, with_line
from context_engine.core.engine import SystemClock
from context_engine.core.models import Chunk, ExaminationRequest, FetchRequest, SourceAnswer, SourceSpec
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import SourceUnavailable
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment

Make = Callable[..., DifySource]
KEY = "dataset-speakingsecret1"


def said(version: str, text: str, first: date | None = None, last: date | None = None, **place: Any) -> str:
    line = ChunkLine(
        document_id="NPA-SOP-001",
        title="New Products",
        version=version,
        effective_from=first,
        effective_to=last,
        **place,
    )
    return with_line(line, text)


OLD = said("3.1", "The approval limit is 4 million.", date(2024, 1, 1), date(2026, 1, 1), section="4.2", page=9)
NEW = said("3.2", "The approval limit is 5 million.", date(2026, 1, 1), section="4.2", page=12)
SPEAKING = FakeDataset(
    "speaking",
    documents=[
        FakeDocument("old.docx", [OLD], {"version": "", "page": 9}),
        FakeDocument("new.docx", [NEW], {"page": 9}),
        FakeDocument("note.docx", ["The approval limit of the note."]),
    ],
    fields={"version": "string", "page": "number"},
)


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify([SPEAKING], api_key=KEY, indexing_s=0.0) as server:
        yield server


@pytest.fixture
def source(dify: FakeDify, make_source: Make) -> Make:
    def make(*names: str, **settings: Any) -> DifySource:
        ids = [dify.dataset_id(name) for name in names or ("speaking",)]
        settings = {"cache_ttl_s": 0, "attempts": 1, "chunk_line": True, **settings}
        return make_source(dify.base_url, *ids, connection={"api_key": KEY}, **settings)

    return make


def texts(answer: SourceAnswer) -> list[str]:
    return sorted(chunk.content for chunk in answer.chunks)


def sent(dify: FakeDify) -> Any:
    return [one.body for one in dify.requests if one.method == "POST"][-1]["retrieval_model"]


def test_the_line_is_no_text_of_the_chunk(source: Make, ask: Any) -> None:
    found = {chunk.document_version: chunk for chunk in ask(source()).chunks}
    assert (found["3.2"].document_id, found["3.2"].title, found["3.2"].section) == (
        "NPA-SOP-001",
        "New Products",
        "4.2",
    )
    assert (found[None].title, found[None].content) == ("note.docx", "The approval limit of the note.")


def test_what_a_line_may_say_is_filtered_after_reading_alone(dify: FakeDify, source: Make, ask: Any) -> None:
    """Dify would drop the document whose metadata do not say it, and keep the one whose chunks say otherwise."""
    mapped = source(metadata={"document_version": "version"})
    for filter, kept in (
        ("version=3.2", ["The approval limit is 5 million."]),
        ("document_version=v3.1", ["The approval limit is 4 million."]),
        ("section=4.2", ["The approval limit is 4 million.", "The approval limit is 5 million."]),
        ("page=9", ["The approval limit is 4 million.", "The approval limit is 5 million."]),
    ):
        assert texts(ask(mapped, filters=parse_filter(filter))) == kept, filter
        assert "metadata_filtering_conditions" not in sent(dify), filter
        assert sent(dify)["top_k"] == 100, filter


def test_without_the_setting_a_filter_goes_out_as_ever(dify: FakeDify, source: Make, ask: Any) -> None:
    ask(source(chunk_line=False, metadata={"document_version": "version"}), filters=parse_filter("page=9"))
    assert sent(dify)["metadata_filtering_conditions"]["conditions"][0]["name"] == "page"


@pytest.mark.parametrize(("day", "limit"), [(date(2025, 12, 31), "4"), (date(2026, 1, 1), "5")])
def test_what_is_not_in_force_by_its_line_takes_no_place(
    day: date, limit: str, dify: FakeDify, source: Make, ask: Any
) -> None:
    assert texts(ask(source(), as_of=day)) == [
        f"The approval limit is {limit} million.", "The approval limit of the note.",
    ]  # fmt: skip
    assert sent(dify)["top_k"] == 100


def test_a_document_is_fetched_by_the_id_that_its_line_says_in_all_versions(source: Make, ask: Any) -> None:
    asked = source()
    fetched = asked.fetch(FetchRequest(domain="NPA", document_ids=("NPA-SOP-001",)))
    assert {one.document_version: one.content for one in fetched} == {
        "3.1": "The approval limit is 4 million.", "3.2": "The approval limit is 5 million.",
    }  # fmt: skip
    shown = {chunk.chunk_id: chunk for chunk in ask(asked).chunks}
    for one in fetched:
        assert shown[one.chunk_id]._replace(scores=()) == one
    note = next(chunk for chunk in shown.values() if chunk.title == "note.docx")
    assert [one.content for one in asked.fetch(FetchRequest(domain="NPA", document_ids=(str(note.document_id),)))] == [
        note.content
    ]


def test_an_id_of_a_line_is_looked_for_in_a_dataset_of_bounded_size(dify: FakeDify, source: Make) -> None:
    dify.put(FakeDataset("many", documents=[FakeDocument(f"D{n:03}", [f"Rule {n}."]) for n in range(201)]))
    calls = len(dify.requests)
    with pytest.raises(SourceUnavailable, match="has 201 documents"):
        source("many").fetch(FetchRequest(domain="NPA", document_ids=("NPA-SOP-001",)))
    assert len(dify.requests) - calls <= 5


def test_answers_to_questions_speak_and_are_fetched(dify: FakeDify, source: Make, ask: Any) -> None:
    pair = FakeSegment("What is the approval limit?", answer=said("3.2", "5 million.", page=12))
    dify.put(FakeDataset("qa", documents=[FakeDocument("faq.docx", [pair])], doc_form="qa_model"))
    (found,) = ask(source("qa")).chunks
    assert (found.content, found.page) == ("What is the approval limit?\n\n5 million.", 12)
    (fetched,) = source("qa").fetch(FetchRequest(domain="NPA", document_ids=("NPA-SOP-001",)))
    assert fetched == found._replace(scores=())


def warned(source: DifySource) -> dict[str, Any]:
    (part,) = source.examine(ExaminationRequest(domain="NPA")).parts
    return {notice.code: notice.detail for notice in part.warnings}


def test_the_doctor_names_documents_without_the_line_that_is_expected(dify: FakeDify, source: Make) -> None:
    assert warned(source())["chunk_line_missing"] == {"names": ["note.docx"]}
    assert "chunk_line_missing" not in warned(source(chunk_line=False))
    dify.put(FakeDataset("good", documents=[FakeDocument("new.docx", [NEW])]))
    assert "chunk_line_missing" not in warned(source("good"))


CHUNK = Chunk(
    content="› ours\nThe limit is 5 million.", document_id="S", title="Rules", document_version="2",
    heading_path=("4 Limits",), section="4", metadata={"page": 3},
)  # fmt: skip


def ingested(dify: FakeDify, chunk: Chunk, **settings: Any) -> tuple[list[str], dict[str, Any]]:
    """Write one document as an ingest does; return the texts that Dify holds, and the codes of what was said."""
    spec = SourceSpec(
        id="sops", type="bank_sop", adapter="dify", connection="dify", dataset_ids=(dify.dataset_id("ours"),),
        settings=settings,
    )  # fmt: skip
    workspace = Workspace(lambda: Connection(base_url=dify.base_url, api_key=KEY), SystemClock())
    sink = DifySink((spec,), lambda _name: workspace, SystemClock())
    written = sink.put("sops", "S", "2", "hash", [chunk])
    sink.commit()
    sink.settle()
    workspace.close()
    ((document),) = dify.documents("ours")
    held = [each if isinstance(each, str) else each.content for each in document.segments]
    return held, {"written": written, **{notice.code: notice.detail for notice in sink.notices}}


def test_an_ingest_writes_the_line_and_its_change_renews_what_was_written(dify: FakeDify) -> None:
    dify.put(FakeDataset("ours", "economy"))
    escaped = "\\› ours\nThe limit is 5 million."
    assert ingested(dify, CHUNK) == ([f"› Rules › 4 Limits · page 3\n\n{escaped}"], {"written": True})
    assert ingested(dify, CHUNK)[1] == {"written": False}
    renewed, told = ingested(dify, CHUNK, chunk_line=True)
    assert renewed == [f"› Rules › 4 Limits · S · version 2 · page 3\n\n{escaped}"]
    assert (told["written"], told["documents_of_earlier_release"]["count"]) == (True, 1)
    assert ingested(dify, CHUNK, chunk_line=True)[1] == {"written": False}
    assert ingested(dify, CHUNK)[0] == [f"› Rules › 4 Limits · page 3\n\n{escaped}"]


def test_the_line_takes_no_place_among_the_keywords_of_an_economy_dataset(dify: FakeDify) -> None:
    def keywords() -> list[str]:
        ((document),) = dify.documents("ours")
        return [word for each in document.segments if not isinstance(each, str) for word in each.keywords or ()]

    dify.put(FakeDataset("ours", "economy"))
    ingested(dify, CHUNK)
    before = keywords()
    ingested(dify, CHUNK, chunk_line=True)
    assert before == keywords() != []
    assert not {"page", "version", "force"} & set(before)


def test_what_an_earlier_release_wrote_with_its_line_is_renewed(dify: FakeDify) -> None:
    """The mark then was the hash alone."""
    dify.put(FakeDataset("ours", "economy"))
    ingested(dify, CHUNK)
    (document,) = dify.documents("ours")
    assert document.metadata is not None
    marks = {**document.metadata, "ce_hash": "hash"}
    dify.put(FakeDataset("ours", "economy", [FakeDocument(document.name, document.segments, marks)]))
    assert ingested(dify, CHUNK)[1]["written"] is True
    assert ingested(dify, CHUNK)[1] == {"written": False}


def test_a_chunk_without_a_place_is_written_as_it_is(dify: FakeDify) -> None:
    dify.put(FakeDataset("ours", "economy"))
    assert ingested(dify, Chunk(content="A limit.", document_id="S", title="Rules"))[0] == ["A limit."]
