"""Files that did not change are not read again."""

import os
from types import SimpleNamespace

import pytest

from context_engine.core.models import IngestSettings
from context_engine.ingest import run as run_module
from context_engine.ingest import scan_cache
from context_engine.ingest.reading import IngestOptions
from context_engine.ingest.run import ingest
from context_engine.ingest.scan_cache import ScanCache

FILES = {"a.md": "# A\n\nText of a.\n", "b.md": "# B\n\nText of b.\n", "r.jsonl": '{"entity_id": "E1", "x": 1}\n'}
RULES = {"*.md": "default", "**/*.md": "default", "*.jsonl": "entity_record"}


@pytest.fixture
def read(monkeypatch):
    """The names of the files that were read."""
    names = []
    real = run_module.read_all

    def watched(jobs, options, known):
        names.extend(job.names[0] for job in jobs)
        return real(jobs, options, known)

    monkeypatch.setattr(run_module, "read_all", watched)
    return names


@pytest.fixture
def old(folder):
    """Write files that were changed a while ago."""

    def write(files):
        root = folder(files)
        for name in files:
            os.utime(root / name, (1_700_000_000, 1_700_000_000))
        return root

    return write


def test_an_unchanged_folder_is_not_read_and_counts_the_same(old, source, sink, tmp_path, read):
    root, place = old(FILES), tmp_path / "files.json"
    first = ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    again = ingest(root, source(RULES), sink, memory=ScanCache(place), prune=True)
    assert read == []
    assert (again.documents, again.unchanged, again.removed) == (first.documents, 3, 0)
    assert set(sink.documents("sops")) == {("a", ""), ("b", ""), ("E1", "")}


def test_another_version_reads_every_file_again(old, source, sink, tmp_path, read, monkeypatch):
    root, place = old(FILES), tmp_path / "files.json"
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    monkeypatch.setattr(scan_cache, "__version__", "9.9.9")
    assert ingest(root, source(RULES), sink, memory=ScanCache(place)).unchanged == 3
    assert sorted(read) == sorted(FILES)


def test_what_changed_is_read_and_what_is_lost_in_the_base_too(old, source, sink, tmp_path, read):
    root, place = old(FILES), tmp_path / "files.json"
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    (root / "b.md").write_text("# B\n\nText of b, changed.\n")
    sink.delete("sops", "E1", "")
    report = ingest(root, source(RULES), sink, memory=ScanCache(place))
    assert read == ["b.md", "r.jsonl"]
    assert (report.unchanged, report.replaced, report.added) == (1, 1, 1)


def test_another_rule_or_limit_reads_everything(old, source, sink, tmp_path, read):
    root, place = old(FILES), tmp_path / "files.json"
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    ingest(root, source(RULES), sink, memory=ScanCache(place), options=IngestOptions(max_chunk_tokens=64))
    assert read == ["a.md", "b.md", "r.jsonl"]
    del read[:]
    ingest(root, source({**RULES, "*.md": "sop_document"}), sink, memory=ScanCache(place))
    assert "a.md" in read


def test_other_settings_of_reading_read_everything(old, source, sink, tmp_path, read):
    root, place = old(FILES), tmp_path / "files.json"
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    options = IngestOptions(settings=IngestSettings(tracked_changes="reject"))
    ingest(root, source(RULES), sink, memory=ScanCache(place), options=options)
    assert read == ["a.md", "b.md", "r.jsonl"]


def test_a_warning_is_remembered_and_a_refusal_is_read_and_said_again(old, source, sink, tmp_path, read):
    root = old({**FILES, "w.md": "---\nttl_seconds: soon\n---\nText.", "bad.md": b"\x00"})
    place = tmp_path / "files.json"
    first = ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    again = ingest(root, source(RULES), sink, memory=ScanCache(place))
    assert read == ["bad.md"]
    assert len(first.warnings) == 1
    assert (again.warnings, again.errors) == (first.warnings, first.errors)


@pytest.mark.wording
def test_documents_of_no_type_are_remembered_and_counted_again(old, source, sink, tmp_path, read):
    root, place = old(FILES), tmp_path / "files.json"
    first = ingest(root, source(RULES), sink, source_id="sops", memory=ScanCache(place))
    assert first.warnings == ("source sops: 2 documents: no rule gives a type: cut as 'default'",)
    del read[:]
    assert ingest(root, source(RULES), sink, source_id="sops", memory=ScanCache(place)).warnings == first.warnings
    assert read == []


def test_a_name_that_is_taken_by_now_is_settled_as_without_a_memory(old, source, make_sink, tmp_path):
    root, place = old({"x/readme.md": "Page x."}), tmp_path / "files.json"
    remembering, forgetting = make_sink(), make_sink()
    for sink, memory in ((remembering, ScanCache(place)), (forgetting, None)):
        ingest(root, source(RULES), sink, memory=memory)
    old({"a/readme.md": "Page a."})
    for sink, memory in ((remembering, ScanCache(place)), (forgetting, None)):
        ingest(root, source(RULES), sink, memory=memory)
    assert remembering.documents("sops") == forgetting.documents("sops")
    assert set(remembering.documents("sops")) == {("readme", ""), ("x/readme.md", "")}


@pytest.mark.parametrize(("age", "read_again"), [(2.9, ["a.md", "b.md", "r.jsonl"]), (3.0, [])])
def test_a_file_changed_just_now_is_not_trusted(old, source, sink, tmp_path, read, monkeypatch, age, read_again):
    monkeypatch.setattr("context_engine.ingest.scan_cache.time", SimpleNamespace(time=lambda: 1_700_000_000 + age))
    root, place = old(FILES), tmp_path / "files.json"
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    del read[:]
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    assert read == read_again


@pytest.mark.parametrize(
    "held", [b"", b"{", b"[]", b'{"form": 0, "files": {}}', b'{"form": 1, "files": {"x": 5}}', b"\xff"]
)
def test_a_memory_that_cannot_be_read_is_empty(old, source, sink, tmp_path, held):
    place = tmp_path / "files.json"
    place.write_bytes(held)
    assert ingest(old(FILES), source(RULES), sink, memory=ScanCache(place)).added == 3


def test_a_forced_run_reads_everything_and_remembers_it(old, source, sink, tmp_path, read):
    root, place = old(FILES), tmp_path / "files.json"
    ingest(root, source(RULES), sink, memory=ScanCache(place))
    (root / "b.md").write_text("# B\n\nText of B.\n")  # as long, and as old, as before
    os.utime(root / "b.md", (1_700_000_000, 1_700_000_000))
    assert ingest(root, source(RULES), sink, memory=ScanCache(place)).unchanged == 3
    del read[:]
    report = ingest(root, source(RULES), sink, memory=ScanCache(place, force=True))
    assert read == ["a.md", "b.md", "r.jsonl"]
    assert (report.unchanged, report.replaced) == (2, 1)
    del read[:]
    assert ingest(root, source(RULES), sink, memory=ScanCache(place)).unchanged == 3
    assert read == []
