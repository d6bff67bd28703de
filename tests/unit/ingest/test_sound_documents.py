"""Documents whose fields or text no output could hold are taken all the same, and it is said."""

import json

import pytest

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models.sanitize import MOST_DEPTH
from context_engine.ingest.documents import prepare
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.run import ingest


@pytest.mark.wording
def test_a_record_nested_50_deep_is_taken_to_the_depth_that_can_be_written(folder, source, sink):
    deep = "[" * 50 + "1" + "]" * 50
    root = folder({"rates.json": f'[{{"entity_id": "E1", "title": "Rates", "curve": {deep}}}]'})
    report = ingest(root, source({"*.json": "entity_record"}), sink)
    assert (report.documents, report.errors) == (1, ())
    assert report.warnings == (
        f"rates.json:1: a field is nested deeper than {MOST_DEPTH} levels: the rest is left out",
    )
    for chunk in sink.chunks("E1"):
        json.dumps(chunk.to_dict(), ensure_ascii=False).encode()


@pytest.mark.parametrize("bad", ["\ud800", "\x00"])
@pytest.mark.wording
def test_text_and_fields_of_any_loader_are_valid(bad):
    loaded = LoadedDocument(
        path="a.pdf", text=f"# Limits{bad}\n\nThe limit.\n", fields={"owner": f"A{bad}", "x": {1: 2}}
    )
    document = prepare(loaded, None, ApproxTokenCounter())
    json.dumps([document.base.to_dict(), document.loaded.text], ensure_ascii=False).encode()
    assert "\x00" not in document.loaded.text
    assert document.base.metadata["owner"] == "A\ufffd"
    assert len(document.loaded.text) == len(loaded.text)
    assert any("its text held characters" in one for one in document.warnings)


def test_a_sound_document_is_handed_on_as_it_is():
    loaded = LoadedDocument(path="a.md", text="The limit.\n", fields={"owner": "Größe"})
    document = prepare(loaded, None, ApproxTokenCounter())
    assert document.loaded is loaded
    assert document.warnings == ()
