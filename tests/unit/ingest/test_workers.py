"""Other processes load and cut; what comes out is what one process makes of it."""

import pytest

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaders import load
from context_engine.ingest.reading import IngestOptions
from context_engine.ingest.run import ingest
from context_engine.ingest.workers import cut_loaded, read_one

DYING = """
import os

class Counter:
    name = "dying"

    def count(self, text):
        if "POISON" in text:
            os._exit(9)
        if "WRONG" in text:
            raise RuntimeError("a flaw of the counter")
        return len(text.split())
"""


def bank(number=12):
    files = {}
    for n in range(number):
        files[f"sops/{n:02}.md"] = f"---\ndocument_id: S{n}\n---\n# S{n}\n\n" + "\n\n".join(
            f"## {m} Part\n\nText {n} {m}. " + "word " * 40 for m in range(1, 6)
        )
    files["records/r.jsonl"] = "".join(f'{{"entity_id": "E{n}", "name": "Entity {n}"}}\n' for n in range(150))
    files["sops/same/00.md"] = "No id of its own."
    files["sops/same2/00.md"] = "No id either."
    files["sops/broken.md"] = b"\xe9\xe8\xff\x00"
    return files


@pytest.fixture
def dying(tmp_path, monkeypatch):
    (tmp_path / "dying_counter.py").write_text(DYING)
    monkeypatch.syspath_prepend(tmp_path)
    import dying_counter

    return dying_counter.Counter()


@pytest.mark.slow
def test_several_processes_write_the_same_in_the_same_order(folder, source, make_sink):
    specs = [source({"sops/**/*.md": "sop_document"}, "one"), source({"**/*": "default"}, "two")]
    root = folder(bank())
    serial, parallel = make_sink(), make_sink()
    first = ingest(root, specs, serial)
    second = ingest(root, specs, parallel, options=IngestOptions(jobs=3))
    assert list(parallel.held.items()) == list(serial.held.items())
    assert {**second.to_dict(), "elapsed_s": 0} == {**first.to_dict(), "elapsed_s": 0}
    assert first.documents > 150
    assert len(first.errors) == 1
    again = ingest(root, specs, parallel, options=IngestOptions(jobs=2))
    assert (again.unchanged, again.chunks) == (again.documents, 0)


@pytest.mark.slow
def test_a_process_that_dies_costs_its_file_and_no_other(folder, source, sink, dying):
    files = {f"{n}.md": f"Page {n}." for n in range(4)} | {"2.md": "POISON"}
    report = ingest(folder(files), source({"*.md": "default"}), sink, options=IngestOptions(jobs=2, counter=dying))
    assert [one.path for one in report.errors] == ["2.md"]
    assert "the process that read it ended" in report.errors[0].reason
    assert sorted(key[0] for key in sink.documents("sops")) == ["0", "1", "3"]


@pytest.mark.slow
def test_processes_that_die_again_and_again_cost_their_files_alone(folder, source, sink, dying):
    files = {f"{n}.md": f"Page {n}." for n in range(6)} | {"2.md": "POISON", "4.md": "POISON"}
    report = ingest(folder(files), source({"*.md": "default"}), sink, options=IngestOptions(jobs=2, counter=dying))
    assert [one.path for one in report.errors] == ["2.md", "4.md"]
    assert sorted(key[0] for key in sink.documents("sops")) == ["0", "1", "3", "5"]


def test_a_flaw_in_a_process_is_raised_where_the_run_is(folder, source, sink, dying):
    root = folder({"0.md": "Page.", "1.md": "WRONG", "2.md": "Page."})
    with pytest.raises(RuntimeError, match="a flaw of the counter"):
        ingest(root, source({"*.md": "default"}), sink, options=IngestOptions(jobs=2, counter=dying))


def test_a_counter_that_cannot_be_handed_over_is_used_here(folder, source, sink):
    class Local:
        name = "local"

        def count(self, text):
            return len(text.split())

    root = folder({"0.md": "Page.", "1.md": "Page one."})
    report = ingest(root, source({"*.md": "default"}), sink, options=IngestOptions(jobs=2, counter=Local()))
    assert report.documents == 2


@pytest.mark.slow
def test_a_run_that_is_broken_off_leaves_no_process(folder, source, sink, monkeypatch):
    import subprocess

    from context_engine.ingest import process

    monkeypatch.setattr(process, "_idle", [])  # those that wait are of no run
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kw: started.append(popen(*args, **kw)) or started[-1])

    def stop(done, _total, _name):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # more files than wait to be written: neither process is done
        ingest(folder(bank(80)), source({"**/*.md": "default"}), sink, options=IngestOptions(jobs=2), progress=stop)
    assert len(started) == 2
    assert [one.poll() is not None for one in started] == [True, True]


def test_documents_that_are_loaded_already_are_cut_as_their_file_is(folder):
    files = bank(1)
    root = folder({"limits.md": files["sops/00.md"], "r.jsonl": files["records/r.jsonl"]})
    for name in ("limits.md", "r.jsonl"):
        loaded = list(load(root / name, root))
        read, cut = list(read_one(root / name, None, IngestOptions())), list(cut_loaded(loaded, None, IngestOptions()))
        assert [one.chunks for one in cut] == [one.chunks for one in read]
        assert [one.document.content_hash for one in cut] == [one.document.content_hash for one in read]
    assert len(cut) == 150


def test_loaded_documents_keep_the_limits(folder):
    loaded = list(load(folder({"r.jsonl": bank(1)["records/r.jsonl"]}) / "r.jsonl", folder({})))
    options = IngestOptions(settings=IngestSettings(file_max_chunks=10))
    *given, (_, skipped) = cut_loaded(loaded, None, options)
    assert len(given) == 10
    assert "gives more than 10 chunks" in skipped.reason
