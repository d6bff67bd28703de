"""Copying a source: what is written, skipped, kept and deleted, and what the comparison finds."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the toy store")

from context_engine.adapters.sources.stores import copying
from context_engine.adapters.sources.stores.copying import StoreCopier, difference_of, planned
from context_engine.core.models import AccessClass, Chunk, SourceSpec, WholeDocument
from tests.toy_store import ToySink, ToyStore

SPEC = SourceSpec(id="notes", type="bank_sop")
SUMMER = Chunk(content="The limit is five million.", chunk_id="c1", document_id="summer", title="Limits")
HEADING = Chunk(content="Limits", chunk_id="c0", document_id="summer", title="Limits")
DOCUMENT = WholeDocument(
    "summer", "1", "hash", "2026-01-05T08:00:00+00:00", AccessClass(), [HEADING, SUMMER], [(), [(0.6, 0.8)]], "m"
)


def store(folder: Path, name: str, **documents: str) -> ToyStore:
    """Return a store of one-chunk documents; a document's hash is its text's length."""
    made = ToyStore(folder / name)
    sink = sink_of(made)
    for document_id, text in documents.items():
        sink.put("notes", document_id, "", str(len(text)), [Chunk(content=text, chunk_id=document_id)])
    return made


def sink_of(made: ToyStore) -> ToySink:
    return ToySink(made, [SPEC], lambda _id: "")


def copy(origin: ToyStore, target: ToyStore, *, delete: bool = False) -> copying.SourceCopy:
    return copier_of(origin, target).copy("notes", delete=delete)


def copier_of(origin: ToyStore, target: ToyStore) -> StoreCopier:
    return StoreCopier(origin, lambda: nullcontext(target), sink_of(target), lambda _done, _total, _name: None)


def texts(made: ToyStore) -> dict[str, str]:
    return {key[1]: document.chunks[0].content for key, document in made.documents.items()}


def test_documents_are_written_unless_they_are_there_with_their_hash(tmp_path: Path) -> None:
    origin = store(tmp_path, "origin", a="one", b="four", c="seven")
    target = store(tmp_path, "target", a="one", b="three")
    plan = planned(origin, sink_of(target), "notes", delete=False)
    assert (plan.documents, plan.written) == (3, 2) and texts(target) == {"a": "one", "b": "three"}
    report = copy(origin, target)
    assert (report.documents, report.chunks, report.written, report.mended) == (3, 3, 2, 0)
    assert texts(target) == texts(origin) and not report.differences
    again = copy(origin, target)
    assert again == report._replace(written=0), "the same digest, and nothing to do"


def test_documents_that_only_the_target_has_are_kept_and_named_or_deleted(tmp_path: Path) -> None:
    origin, target = store(tmp_path, "origin", a="one"), store(tmp_path, "target", old="older", a="one")
    assert copy(origin, target).kept == [("old", "")]
    assert planned(origin, sink_of(target), "notes", delete=True).deleted == 1 and "old" in texts(target)
    report = copy(origin, target, delete=True)
    assert (report.deleted, report.kept, texts(target)) == (1, (), {"a": "one"})


def test_a_document_with_the_same_hash_and_another_text_is_written_again(tmp_path: Path) -> None:
    origin, target = store(tmp_path, "origin", a="one", b="two"), store(tmp_path, "target", a="one", b="2.0")
    report = copy(origin, target)
    assert (report.written, report.mended, report.differences) == (0, 1, [])
    assert texts(target) == texts(origin)


def test_a_document_that_cannot_be_copied_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, target = store(tmp_path, "origin", a="one", b="two"), store(tmp_path, "target")
    whole = ToySink.put_stored

    def lossy(self: ToySink, source_id: str, document: WholeDocument) -> None:
        shorter = [chunk._replace(title=None, content=chunk.content[:2]) for chunk in document.chunks]
        whole(self, source_id, document._replace(chunks=shorter) if document.document_id == "b" else document)

    monkeypatch.setattr(ToySink, "put_stored", lossy)
    assert copy(origin, target).differences == [("b", "", "its chunks differ")]


def test_nothing_is_deleted_of_a_source_that_the_origin_has_not_got(tmp_path: Path) -> None:
    origin, target = store(tmp_path, "origin"), store(tmp_path, "target", a="one")
    report = copy(origin, target, delete=True)
    assert (report.documents, report.deleted, report.kept) == (0, 0, [("a", "")]) and texts(target) == {"a": "one"}


def test_a_transaction_ends_with_a_whole_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, target = store(tmp_path, "origin", **{f"d{n}": "text" for n in range(5)}), store(tmp_path, "target")
    committed: list[int] = []
    monkeypatch.setattr(copying, "_COMMIT_FROM", 2)
    monkeypatch.setattr(ToySink, "commit", lambda self: committed.append(len(self.store.documents)))
    copy(origin, target)
    assert committed == [2, 4, 5]


class WithVectors(ToyStore):
    """A store that holds a vector for each chunk."""

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        for document in super().stored_documents(source_id, keys):
            yield document and document._replace(vectors=[[(1.0, 0.0)] for _ in document.chunks], model_id="m")


def test_vectors_are_left_out_where_the_target_can_hold_none(tmp_path: Path) -> None:
    origin, target = WithVectors(tmp_path / "origin"), store(tmp_path, "target")
    sink_of(origin).put("notes", "a", "", "1", [SUMMER])
    copier = copier_of(origin, target)
    report = copier.copy("notes", delete=False)
    assert (report.written, report.vectors, report.differences) == (1, 0, []) and copier.vectors_refused


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, ""),
        ({"content_hash": "other"}, "its hash differs"),
        ({"indexed_at": "2026-01-06T08:00:00+00:00"}, "its time of ingestion differs"),
        ({"access": AccessClass("board")}, "its access class differs"),
        ({"chunks": [HEADING]}, "its chunks differ"),
        ({"chunks": [HEADING, SUMMER._replace(metadata={"page": 2})]}, "its chunks differ"),
        ({"model_id": "n"}, "the model of its vectors differs"),
        ({"vectors": [(), [(0.6, 0.8, 0.0)]]}, "the model of its vectors differs"),
        ({"vectors": [(), [(0.8, 0.6)]]}, "its vectors differ"),
        ({"vectors": [(), [(0.6, 0.8), (0.6, 0.8)]]}, "its vectors differ"),
        ({"vectors": [(), ()], "model_id": ""}, "its vectors differ"),
        ({"vectors": [[(0.0, 1.0)], [(0.6, 0.8)]]}, ""),
        ({"vectors": [(), [(6.0, 8.0)]]}, ""),
        ({"vectors": [(), [struct.unpack("2e", struct.pack("2e", 0.6, 0.8))]]}, ""),
    ],
)
def test_the_comparison_says_what_differs(changes: dict[str, object], what: str) -> None:
    """A heading without text may have no vector; of a vector the direction counts, which half precision keeps."""
    assert difference_of(DOCUMENT, DOCUMENT._replace(**changes)) == what  # type: ignore[arg-type]
    assert difference_of(DOCUMENT, None) == "it is missing"
