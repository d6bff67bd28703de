"""Documents written to a FakeDify: word for word, replaced without a gap, refused one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from context_engine.adapters.sources.dify.document_marks import ContentDigest
from context_engine.adapters.sources.dify.sink import DifySink
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine import SystemClock
from context_engine.core.models import Chunk, Classification, SourceSpec
from context_engine.errors import ConfigError, SourceAuthError, SourceRateLimited, SourceTimeout, SourceUnavailable
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, Fault

KEY = "dataset-writingsecret01"


def spec(*datasets: str, source_id: str = "sops", **fields: Any) -> SourceSpec:
    return SourceSpec(id=source_id, type="bank_sop", adapter="dify", connection="dify", dataset_ids=datasets, **fields)


def chunks(*texts: str, document_id: str = "SOP-1", **fields: Any) -> list[Chunk]:
    return [
        Chunk(content=text, document_id=document_id, title="New products", doc_type="sop_document", **fields)
        for text in texts
    ]


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify([FakeDataset("SOPs", "economy")], api_key=KEY, indexing_s=0.01) as server:
        yield server


Opener = Callable[..., DifySink]


@pytest.fixture
def sink(dify: FakeDify) -> Iterator[Opener]:
    """(specs, options of the sink, connection=...) -> a sink; without specs one source over the dataset SOPs."""
    opened: list[Workspace] = []

    def make(*specs: SourceSpec, connection: Any = None, **options: Any) -> DifySink:
        fields = {"base_url": dify.base_url, "api_key": KEY, **(connection or {})}
        workspace = Workspace(lambda: Connection(**fields), SystemClock())
        opened.append(workspace)
        given = specs or (spec(dify.dataset_id("SOPs")),)
        return DifySink(given, lambda _name: workspace, SystemClock(), **options)

    yield make
    for workspace in opened:
        workspace.close()


def held(dify: FakeDify, dataset: str = "SOPs") -> list[tuple[str, list[str], dict[str, Any] | None]]:
    """The documents of a dataset: name, chunks, metadata."""
    return [
        (one.name, [each if isinstance(each, str) else each.content for each in one.segments], one.metadata)
        for one in dify.documents(dataset)
    ]


def asked(dify: FakeDify) -> list[str]:
    """What was asked that changes something, each by its method and the end of its path."""
    return [f"{one.method} {one.path.rsplit('/', 1)[-1]}" for one in dify.requests if one.method != "GET"]


def write(sink: DifySink, content_hash: str, *texts: str, document_id: str = "SOP-1", version: str = "1") -> None:
    sink.put("sops", document_id, version, content_hash, chunks(*texts, document_id=document_id))
    sink.commit()


def test_chunks_are_written_as_they_are(dify: FakeDify, sink: Opener) -> None:
    texts = [
        "# 1 Scope\n\n\n\nTwo  spaces,\ttab. https://x.example a@b.example",
        "| a | b |\n|---|---|",
        "第一条　范围",
    ]
    opened = sink()
    write(opened, "0123456789abcdef", *texts)
    ((name, contents, metadata),) = held(dify)
    assert contents == texts
    assert name == "New products (SOP-1 1)"
    assert metadata == {
        "doc_type": "sop_document",
        "ce_source": "sops",
        "ce_document_id": "SOP-1",
        "ce_version": "1",
        "ce_title": "New products",
        "ce_stored": str(ContentDigest.of(texts)),
        "ce_hash": "0123456789abcdef line 2",
    }
    assert (opened.summary()["documents"], opened.summary()["segments"], opened.refusals) == (1, 3, [])
    assert not [one for one in dify.requests if "update" in one.path]


def test_what_is_unchanged_costs_one_look_at_the_dataset(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "hash-1", "Text.")
    before = len(dify.requests)
    again = sink()
    assert again.put("sops", "SOP-1", "1", "hash-1", chunks("Text.")) is False
    again.commit()
    assert again.documents("sops") == {("SOP-1", "1"): "hash-1"}
    assert [(one.method, one.path.partition("?")[0].rsplit("/", 1)[-1]) for one in dify.requests[before:]] == [
        ("GET", dify.dataset_id("SOPs")),
        ("GET", "documents"),
    ]


def test_hashes_are_read_page_by_page(dify: FakeDify, sink: Opener) -> None:
    documents = [
        FakeDocument(f"d{n} [ce-0123456789ab]", [], {"ce_source": "sops", "ce_document_id": f"d{n}", "ce_hash": "h"})
        for n in range(205)
    ]
    dify.put(FakeDataset("SOPs", "economy", documents))
    assert len(sink().documents("sops")) == 205
    assert len([one for one in dify.requests if "/documents?" in one.path]) == 3


def test_the_new_version_is_whole_before_the_old_one_goes(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "hash-1", "Old.")
    first = len(dify.requests)
    write(sink(), "hash-2", "New.")
    assert [contents for _, contents, _ in held(dify)] == [["New."]]
    later = [f"{one.method} {one.path.rsplit('/', 1)[-1]}" for one in dify.requests[first:] if one.method != "GET"]
    assert [one.partition(" ")[2] for one in later[:4]] == ["create-by-text", "metadata", "segments", "metadata"]
    assert later[4].startswith("DELETE")
    assert len(later) == 5


def test_claims_are_there_before_the_first_chunk(dify: FakeDify, sink: Opener) -> None:
    """A restricted text must not be found, however shortly, as one that says nothing of itself."""
    opened = sink()
    opened.put("sops", "S", "", "h", chunks("Secret.", classification=Classification.RESTRICTED))
    opened.commit()
    writes = [one for one in dify.requests if one.method == "POST" and "metadata" not in one.path.rsplit("/", 2)[-2]]
    order = [one.path.rsplit("/", 1)[-1] for one in writes if one.path.endswith(("documents/metadata", "segments"))]
    assert order == ["metadata", "segments", "metadata"]
    first = next(one for one in writes if one.path.endswith("documents/metadata"))
    assert "restricted" in json.dumps(first.body)
    assert "ce_hash" not in json.dumps(first.body)


@pytest.mark.parametrize(
    "stop", ["create_by_text", "indexing_status", "assign_metadata", "create_segments", "delete_document"]
)
def test_a_run_that_stops_anywhere_leaves_the_old_one_and_the_next_mends_it(
    dify: FakeDify, sink: Opener, stop: Any
) -> None:
    write(sink(), "hash-1", "Old.")
    dify.inject("status_503", endpoint=stop)
    broken = sink(sleep=lambda _seconds: None)
    with pytest.raises(SourceUnavailable):
        write(broken, "hash-2", "New.")
    assert ["Old."] in [contents for _, contents, _ in held(dify)]
    dify.heal()
    mended = sink()
    write(mended, "hash-2", "New.")
    assert [(contents, (metadata or {})["ce_hash"]) for _, contents, metadata in held(dify)] == [
        (["New."], "hash-2 line 2")
    ]


def marked(*texts: str, **marks: str) -> dict[str, Any]:
    """The metadata of a document that was written with these chunks."""
    digest = str(ContentDigest.of(texts))
    return {"ce_source": "sops", "ce_document_id": "SOP-1", "ce_version": "1", "ce_stored": digest, **marks}


def test_a_copy_is_removed_and_the_newest_kept_that_holds_what_was_written(dify: FakeDify, sink: Opener) -> None:
    documents = [
        FakeDocument("First", ["Old."], marked("Old.", ce_hash="1 line 2"), completed_at=1),
        FakeDocument("Second", ["New."], marked("New.", ce_hash="2 line 2"), completed_at=2),
        FakeDocument("Doubled", ["New.", "New."], marked("New.", ce_hash="2 line 2"), completed_at=3),
        FakeDocument("Broken off", ["Part"], {"ce_source": "sops", "ce_document_id": "SOP-1"}, completed_at=4),
        FakeDocument("By hand", ["Kept."], None),
        FakeDocument("By hand too", ["Kept too."], {"ce_hash": "x"}),
    ]
    dify.put(FakeDataset("SOPs", "economy", documents))
    looking = sink(read_only=True)
    assert looking.documents("sops") == {("SOP-1", "1"): "2"}
    assert len(held(dify)) == 6
    opened = sink()
    assert opened.documents("sops") == {("SOP-1", "1"): "2"}
    assert [contents for _, contents, _ in held(dify)] == [["New."], ["Kept."], ["Kept too."]]
    assert (opened.summary()["leftovers"], opened.summary()["doubled"]) == (1, 2)


def test_what_an_earlier_release_wrote_is_taken_over_once_and_never_stands_beside_the_new(
    dify: FakeDify, sink: Opener
) -> None:
    """It noted nothing of what it stored, so nothing shows whether that is right: 177 chunks look like 100."""
    marks = {"ce_source": "sops", "ce_document_id": "SOP-1", "ce_version": "1", "ce_hash": "h"}
    documents = [
        FakeDocument("SOP-1 1 New products [ce-111111111111]", ["Text.", "Text."], marks, completed_at=1),
        FakeDocument("SOP-1 1 New products [ce-222222222222]", ["Text."], marks, completed_at=2),
        FakeDocument("SOP-1 1 New products [ce-333333333333]", ["Part"], None, completed_at=3),
    ]
    dify.put(FakeDataset("SOPs", "economy", documents))
    opened = sink()
    write(opened, "h", "Text.")
    assert [(one.code, one.detail["count"]) for one in opened.notices] == [("documents_of_earlier_release", 1)]
    assert [(name, contents) for name, contents, _ in held(dify)] == [("New products (SOP-1 1)", ["Text."])]
    assert sink().put("sops", "SOP-1", "1", "h", chunks("Text.")) is False


@pytest.mark.parametrize(
    ("stored", "repair"),
    [(["A.", "B.", "A.", "B."], False), (["A."], False), ([], False), (["A.", "C."], True)],
    ids=["doubled", "missing", "emptied", "changed"],
)
def test_a_document_that_does_not_hold_what_was_written_is_written_again(
    dify: FakeDify, sink: Opener, stored: list[str], repair: bool
) -> None:
    """Dify's list shows how long a document is; only a repair sees another text of the same length."""
    write(sink(), "h", "A.", "B.")
    (document,) = dify.documents("SOPs")
    dify.put(FakeDataset("SOPs", "economy", [replace(document, segments=stored)]))
    before = len(dify.requests)
    opened = sink(repair=repair)
    assert opened.documents("sops") == {("SOP-1", "1"): ""}
    assert [one["document_id"] for one in opened.summary()["damaged"]] == ["SOP-1"]
    assert sum("segments" in one.path for one in dify.requests[before:]) == 1
    write(opened, "h", "A.", "B.")
    opened.settle()
    assert [contents for _, contents, _ in held(dify)] == [["A.", "B."]]
    assert opened.summary()["damaged"] == []


def test_what_is_damaged_and_not_in_the_folder_is_reported(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "h", "A.", "B.")
    (document,) = dify.documents("SOPs")
    dify.put(FakeDataset("SOPs", "economy", [replace(document, segments=["A."])]))
    opened = sink()
    opened.documents("sops")
    opened.settle()
    (told,) = opened.summary()["damaged"]
    assert (told["source_id"], told["document_id"], told["version"]) == ("sops", "SOP-1", "1")
    assert "chunks differ from those written" in told["reason"]


def test_a_document_that_another_run_deletes_is_reported_by_the_run_that_wrote_it(dify: FakeDify, sink: Opener) -> None:
    opened = sink()
    write(opened, "h", "Text.")
    dify.put(FakeDataset("SOPs", "economy"))
    opened.settle()
    assert [one["reason"] for one in opened.summary()["damaged"]] == ["another run deleted it"]


def test_two_documents_of_one_title_have_names_that_end_in_what_tells_them_apart(dify: FakeDify, sink: Opener) -> None:
    opened = sink()
    for name, version in (("SOP-1", "1"), ("SOP-1", "2"), ("desks/rates.md", "")):
        opened.put("sops", name, version, "h", chunks("Text.", document_id=name))
    opened.commit()
    assert [name for name, _, _ in held(dify)] == [
        "New products (SOP-1 1)",
        "New products (SOP-1 2)",
        "New products (desks/rates.md)",
    ]


def test_a_document_of_somebody_else_s_keeps_its_name_and_its_text(dify: FakeDify, sink: Opener) -> None:
    """Dify would write ours over it."""
    dify.put(FakeDataset("SOPs", "economy", [FakeDocument("New products (SOP-1 1)", ["By hand."])]))
    write(sink(), "h", "Ours.")
    assert [(name, contents) for name, contents, _ in held(dify)] == [
        ("New products (SOP-1 1)", ["By hand."]),
        ("New products (SOP-1 1; 2)", ["Ours."]),
    ]


def test_names_that_dify_would_cut_keep_their_end(dify: FakeDify, sink: Opener) -> None:
    opened = sink()
    for name in ("a", "b"):
        document = f"{'folder/' * 40}{name}.md"
        opened.put("sops", document, "", "h", [chunks("T.", document_id=document)[0]._replace(title="Long " * 60)])
    opened.commit()
    names = [name for name, _, _ in held(dify)]
    assert [(len(name), name[-6:]) for name in names] == [(200, "/a.md)"), (200, "/b.md)")]


def test_a_run_killed_before_it_says_what_a_document_is_leaves_nothing_that_stays(dify: FakeDify, sink: Opener) -> None:
    dify.inject("status_503", endpoint="assign_metadata")
    with pytest.raises(SourceUnavailable):
        write(sink(sleep=lambda _seconds: None), "h", "Text.")
    dify.heal()
    assert held(dify) == [("New products (SOP-1 1)", [], None)]
    write(sink(), "h", "Text.")
    assert [(name, contents) for name, contents, _ in held(dify)] == [("New products (SOP-1 1)", ["Text."])]


@pytest.mark.wording
def test_an_empty_copy_left_beside_a_complete_document_goes_with_the_next_run(dify: FakeDify, sink: Opener) -> None:
    """Two runs write one document, and the one that is killed has made a copy under another number."""
    opened = sink()
    write(opened, "h", "Text.")
    document = dify.documents("SOPs")[0]
    copy, foreign = (FakeDocument(name, []) for name in ("New products (SOP-1 1; 702)", "Notes"))
    dify.put(FakeDataset("SOPs", "economy", [document, copy, foreign]))
    again = sink()
    assert not again.put("sops", "SOP-1", "1", "h", chunks("Text."))
    again.settle()
    assert [name for name, _, _ in held(dify)] == ["New products (SOP-1 1)", "Notes"]
    assert again.summary()["leftovers"] == 1
    (notice,) = again.notices
    assert (notice.code, notice.detail) == ("documents_empty", {"count": 1})
    assert "'Notes'" in notice.message and "--repair" in notice.message


def test_what_such_a_run_left_of_a_document_that_is_no_more_goes_with_a_repair(dify: FakeDify, sink: Opener) -> None:
    dify.inject("status_503", endpoint="assign_metadata")
    with pytest.raises(SourceUnavailable):
        write(sink(sleep=lambda _seconds: None), "h", "Text.")
    dify.heal()
    sink(repair=True).documents("sops")
    assert held(dify) == []


def test_chunks_of_an_economy_dataset_carry_keywords_of_ours(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "h", "The register holds NPA-001, see clause 4.2.1(b).")
    (document,) = dify.documents("SOPs")
    (segment,) = document.segments
    assert not isinstance(segment, str)
    assert {"NPA", "001", "npa", "4.2", "register"} <= set(segment.keywords or ())
    dify.put(FakeDataset("Vectors", "high_quality"))
    write(sink(spec(dify.dataset_id("Vectors"))), "h", "The register.")
    sent = [one.body["segments"][0] for one in dify.requests if one.path.endswith("/segments") and one.method == "POST"]
    assert ["keywords" in one for one in sent] == [True, False]


def test_a_document_costs_one_look_at_what_dify_holds_of_it(dify: FakeDify, sink: Opener) -> None:
    """Of 150 chunks two pages; beside it one look at the names before it is made, and one list at the end of a run."""
    opened = sink()
    write(opened, "h", *[f"Chunk {n}." for n in range(150)])
    opened.settle()
    looks = [one.path.partition("?")[0].rsplit("/", 1)[-1] for one in dify.requests if one.method == "GET"]
    assert looks.count("segments") == 2
    assert looks.count("documents") == 4


def test_an_unclear_end_is_made_anew_and_nothing_stands_twice(dify: FakeDify, sink: Opener) -> None:
    """The answer is lost on its way, the work is done."""
    for endpoint in ("create_by_text", "create_segments"):
        dify.inject("truncated", endpoint=endpoint, calls={1})  # type: ignore[arg-type]
    opened = sink(sleep=lambda _seconds: None)
    write(opened, "hash-1", *[f"Chunk {n}." for n in range(45)])
    ((_, contents, _),) = held(dify)
    assert contents == [f"Chunk {n}." for n in range(45)]
    assert opened.refusals == []


def test_chunks_go_twenty_at_a_time_and_keep_their_order(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "h", *[f"Chunk {n}." for n in range(45)])
    sizes = [len(one.body["segments"]) for one in dify.requests if one.path.endswith("/segments")]
    assert sizes == [20, 20, 5]
    write(sink(), "h2", *["x" * 60_000] * 6)
    sizes = [len(one.body["segments"]) for one in dify.requests if one.path.endswith("/segments")]
    assert sizes[3:] == [4, 2]


def test_a_refused_document_is_named_and_the_others_are_written(dify: FakeDify, sink: Opener) -> None:
    opened = sink()
    for name, text in (("A", "Good."), ("B", " \n"), ("C", "字" * 30_000), ("D", "Good too.")):
        opened.put("sops", name, "", f"hash {name}", chunks(text, document_id=name))
    opened.commit()
    assert [(one.document_id, one.reason.partition(",")[0]) for one in opened.refusals] == [
        ("B", "chunk 1 has no text"),
        ("C", "chunk 1 has 90"),
    ]
    assert set(opened.documents("sops")) == {("A", ""), ("D", "")}
    assert len(held(dify)) == 2


def test_what_dify_refuses_while_indexing_is_said_and_leaves_the_old_one(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "hash-1", "Old.")

    def failed(body: Any) -> Any:
        row = {**body["data"][0], "indexing_status": "error", "error": f"no model {KEY} https://u:p@host.example/x"}
        return {"data": [row]}

    dify.inject(Fault(change=failed), endpoint="indexing_status")
    opened = sink()
    write(opened, "hash-2", "New.")
    (refusal,) = opened.refusals
    assert refusal.reason.startswith("indexing ended as 'error': no model ")
    assert KEY not in refusal.reason
    assert "u:p" not in refusal.reason
    assert [contents for _, contents, _ in held(dify)] == [["Old."]]
    assert opened.documents("sops") == {("SOP-1", "1"): "hash-1"}
    assert opened.summary()["indexing_states"] == {"error": 1}


def test_a_chunk_that_dify_could_not_embed_is_a_refusal_although_it_answers_200(dify: FakeDify, sink: Opener) -> None:
    def failed(body: Any) -> Any:
        return {
            **body,
            "data": [{**row, "status": "error", "enabled": False, "error": "quota"} for row in body["data"]],
        }

    dify.inject(Fault(change=failed), endpoint="create_segments")
    opened = sink()
    write(opened, "h", "Text.")
    assert [one.reason for one in opened.refusals] == ["Dify could not index chunk 1: quota"]
    assert held(dify) == []


def test_metadata_that_is_lost_without_a_word_is_noticed(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "hash-1", "Old.")
    dify.inject(Fault(answer=_success()), endpoint="assign_metadata")
    opened = sink()
    write(opened, "hash-2", "New.")
    assert [one.reason for one in opened.refusals] == ["Dify did not keep its metadata"]
    assert [contents for _, contents, _ in held(dify)] == [["Old."]]


def _success() -> Any:
    from context_engine.testing.fake_dify.app import json_answer

    return json_answer(200, {"result": "success"})


def test_indexing_that_never_ends_is_given_up(dify: FakeDify, sink: Opener) -> None:
    with FakeDify([FakeDataset("SOPs", "economy")], api_key=KEY, indexing_s=3600) as stuck:
        opened = sink(spec(stuck.dataset_id("SOPs")), connection={"base_url": stuck.base_url}, indexing_s=0.1)
        with pytest.raises(SourceTimeout, match="indexed none of 2 documents"):
            for name in ("A", "B"):
                opened.put("sops", name, "", "h", chunks("Text.", document_id=name))
            opened.commit()
        assert ["still 'waiting'" in one.reason for one in opened.refusals] == [True, True]
        assert held(stuck) == []


def test_the_rate_budget_is_kept_and_waited_for(dify: FakeDify, sink: Opener) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if seconds > 30:
            raise InterruptedError

    opened = sink(connection={"rate_per_minute": 3}, sleep=wait)
    with pytest.raises(InterruptedError):
        write(opened, "h", "Text.")
    assert len(asked(dify)) == 3
    assert pauses[-1] > 50


def test_a_refusal_for_the_rate_is_waited_out(dify: FakeDify, sink: Opener) -> None:
    dify.inject("status_429", endpoint="create_segments", calls={1})
    pauses: list[float] = []
    write(sink(sleep=pauses.append), "h", "Text.")
    assert max(pauses) >= 1.0
    assert [contents for _, contents, _ in held(dify)] == [["Text."]]


@pytest.mark.parametrize("endpoint", ["create_dataset", "create_field"])
def test_what_a_dataset_needs_is_made_again_after_a_failure_that_passes(
    dify: FakeDify, sink: Opener, endpoint: Any
) -> None:
    dify.inject("status_500", endpoint=endpoint, calls={1})
    write(sink(spec(), sleep=lambda _seconds: None), "h", "Text.")
    assert [contents for _, contents, _ in held(dify, "sops")] == [["Text."]]


@pytest.mark.parametrize("endpoint", ["documents", "create_by_text", "create_segments", "indexing_status"])
def test_what_failed_is_told_before_it_is_tried_again(dify: FakeDify, sink: Opener, endpoint: Any) -> None:
    dify.inject("status_500", endpoint=endpoint, calls={1})
    told: list[str] = []
    write(sink(sleep=lambda _seconds: None, tell=told.append), "h", "Text.")
    assert told and all("Dify failed inside (500)" in problem for problem in told)
    assert [contents for _, contents, _ in held(dify)] == [["Text."]]


def test_a_rate_limit_that_does_not_end_ends_the_run(dify: FakeDify, sink: Opener) -> None:
    dify.inject("status_429", endpoint="create_by_text")
    with pytest.raises(SourceRateLimited):
        write(sink(sleep=lambda _seconds: None), "h", "Text.")


def test_a_wrong_key_ends_the_run_and_is_in_no_message(dify: FakeDify, sink: Opener) -> None:
    with pytest.raises(SourceAuthError) as raised:
        write(sink(connection={"api_key": "dataset-anothersecret99"}), "h", "Text.")
    assert "anothersecret" not in str(raised.value)


def test_delete_takes_the_document_of_that_source_alone(dify: FakeDify, sink: Opener) -> None:
    dataset = dify.dataset_id("SOPs")
    opened = sink(spec(dataset), spec(dataset, source_id="other"))
    for source in ("sops", "other"):
        opened.put(source, "SOP-1", "", "h", chunks(f"Of {source}."))
    opened.commit()
    assert opened.delete("sops", "SOP-1", "") is True
    assert opened.delete("sops", "SOP-1", "") is False
    assert [contents for _, contents, _ in held(dify)] == [["Of other."]]
    assert (opened.documents("sops"), opened.documents("other")) == ({}, {("SOP-1", ""): "h"})


def test_an_archived_old_version_is_said(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "hash-1", "Old.")
    (old,) = dify.documents("SOPs")
    dify.put(FakeDataset("SOPs", "economy", [replace(old, archived=True)]))
    opened = sink()
    write(opened, "hash-2", "New.")
    assert "document_disabled" in {notice.code for notice in opened.notices}
    assert opened.summary()["notes"] == [notice.message for notice in opened.notices]
    assert opened.documents("sops") == {("SOP-1", "1"): "hash-2"}


def test_a_missing_dataset_is_created_once_and_found_by_its_name(dify: FakeDify, sink: Opener) -> None:
    new = spec(settings={"indexing_technique": "economy"}, title="Procedures")
    looking = sink(new, read_only=True)
    assert looking.documents("sops") == {}
    assert "sops" not in dify.dataset_ids
    first, second = sink(new), sink(new)
    write(first, "h", "Text.")
    (made,) = first.summary()["datasets"]
    assert made == {
        "source": "sops", "dataset_id": dify.dataset_id("sops"), "name": "sops", "new": True,
        "in_manifest": False, "indexing_technique": "economy",
    }  # fmt: skip
    report = first.report(1)
    assert report.dataset_ids == {"sops": dify.dataset_id("sops")}
    (advice,) = report.advice
    assert advice.startswith("source sops: dataset 'sops' was created with Dify's economy index")
    assert "{indexing_technique: high_quality} chooses the other" in advice
    assert second.put("sops", "SOP-1", "1", "h", chunks("Text.")) is False
    assert second.summary()["datasets"][0]["new"] is False


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        (FakeDataset("x", None, provider="external"), "external knowledge"),
        (FakeDataset("x", documents=[FakeDocument("d")], doc_form="hierarchical_model"), "cuts documents itself"),
        (None, "does not exist: correct dataset_ids"),
    ],
)
def test_a_dataset_that_cannot_take_our_chunks_is_refused(
    dify: FakeDify, sink: Opener, dataset: FakeDataset | None, says: str
) -> None:
    identity = "00000000-0000-4000-8000-000000000009"
    if dataset is not None:
        dify.put(dataset)
        identity = dataset.dataset_id
    with pytest.raises(ConfigError, match=says):
        sink(spec(identity)).documents("sops")


def test_metadata_goes_under_the_manifest_s_names_in_the_fields_types(dify: FakeDify, sink: Opener) -> None:
    fields: Any = {"tier": "string", "since": "number", "review": "time", "owner": "number"}
    dify.put(FakeDataset("SOPs", "economy", fields=fields))
    names = {"authority_tier": "tier", "effective_from": "since", "effective_to": "review"}
    opened = sink(spec(dify.dataset_id("SOPs"), settings={"metadata": names}))
    given = chunks(
        "Text.",
        authority_tier=3,
        effective_from=date(2026, 1, 15),
        effective_to=date(2026, 2, 1),
        fetched_at=datetime(2026, 1, 2, 3, tzinfo=UTC),
        metadata={"owner": "Ops", "pages": 12, "draft": False, "tags": ["a"]},
    )
    opened.put("sops", "S", "", "h", given)
    opened.commit()
    ((_, _, metadata),) = held(dify)
    assert metadata is not None
    assert {name: metadata[name] for name in ("tier", "since", "review", "fetched_at", "pages", "draft")} == {
        "tier": "3",
        "since": 20260115,
        "review": 1769904000,
        "fetched_at": "2026-01-02T03:00:00Z",
        "pages": 12,
        "draft": "false",
    }
    assert "owner" not in metadata
    assert ("metadata_value_left_out", "owner") in {(one.code, one.detail["metadata"]) for one in opened.notices}


def test_fields_that_differ_between_chunks_are_not_the_document_s(dify: FakeDify, sink: Opener) -> None:
    opened = sink()
    one, two = chunks("A.", "B.")
    opened.put("sops", "S", "", "h", [one._replace(metadata={"a": 1, "b": 1}), two._replace(metadata={"a": 1, "b": 2})])
    opened.commit()
    ((_, _, metadata),) = held(dify)
    assert metadata is not None
    assert ("a" in metadata, "b" in metadata) == (True, False)


def test_a_document_without_chunks_is_held_too(dify: FakeDify, sink: Opener) -> None:
    write(sink(), "h")
    assert sink().documents("sops") == {("SOP-1", "1"): "h"}
