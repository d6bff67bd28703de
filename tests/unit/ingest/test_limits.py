"""What one file may cost: time, memory, output. The loaders here do what a hostile file would make a real one do.

They are known only to the processes that read: a module registers them there when the token counter, or the chunking
table, is handed over.
"""

import os
import threading
import time
from pathlib import Path

import pytest

from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.core.models import IngestSettings
from context_engine.ingest import process
from context_engine.ingest.loaders import LOADERS
from context_engine.ingest.reading import FileJob, IngestOptions, most_chars, most_chunks
from context_engine.ingest.run import ingest
from context_engine.ingest.workers import _most_memory, read_all

HOSTILE = '''
import os, re, subprocess, sys, tempfile, time
from pathlib import Path
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import LOADERS

def document(file, number=None):
    return LoadedDocument(path=file.name, text=f"Page {number}.", record=number is not None, line=number)

def spin(file):
    re.match(r"(a+)+$", "a" * 64 + "b")  # one call into C, which no thread of the process can stop
    yield document(file)

def eat(file):
    held = [b"x" * (1 << 20) for _ in range(100_000)]
    yield document(file)

def crash(file):
    os.kill(os.getpid(), 11)
    yield document(file)

def litter(file):
    with tempfile.TemporaryDirectory() as folder:
        Path(file.read().decode()).write_text(folder)
        yield from crash(file)

def child(file):
    running = subprocess.Popen(["sleep", "1000"], start_new_session=file.name.endswith(".session"))
    Path(file.read().decode()).write_text(str(running.pid))
    running.wait()
    yield document(file)

GREEDY = """
import resource, time
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_AS)[1]))
held = b"x" * (400 << 20)
time.sleep(1000)
"""

def greedy_child(file):
    subprocess.run([sys.executable, "-c", GREEDY])
    yield document(file)

def drip(file):
    for number in range(1, 1_000_000):
        time.sleep(0.3)
        yield document(file, number)

def many(file):
    for number in range(1, int(file.read()) + 1):
        yield document(file, number)

LOADERS.update({".session": child, ".litter": litter})
LOADERS.update({
    ".spin": spin, ".eat": eat, ".crash": crash, ".child": child, ".greedy": greedy_child, ".drip": drip, ".many": many,
})

class Counter:
    name = "words"
    def count(self, text):
        return len(text.split())

class Table(dict):
    pass
'''


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    (tmp_path / "hostile_loaders.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(tmp_path)
    known = dict(LOADERS)
    import hostile_loaders

    yield hostile_loaders
    LOADERS.clear()
    LOADERS.update(known)
    process._end_idle()  # they know the loaders too


@pytest.fixture
def run(folder, source, sink, hostile):
    """Ingest files with limits and return the report."""

    def go(files, *, counter=None, jobs=2, **limits):
        settings = IngestSettings(**{"file_timeout_s": 1.0, "file_memory_mb": 64, **limits})
        options = IngestOptions(jobs=jobs, counter=counter or hostile.Counter(), settings=settings)
        return ingest(folder(files), source({"**/*": "default"}), sink, options=options)

    return go


def pages(*numbers):
    return {f"{number}.md": f"Page {number}." for number in numbers}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_takes_too_long_costs_itself_and_no_other(run, sink, jobs):
    report = run({**pages(0, 1, 3, 4, 5), "2.spin": "x", "4.spin": "x"}, jobs=jobs)
    assert [str(one) for one in report.skipped] == [
        f"{name}: took longer than 1 s to be read: none of it is kept. Split it, or raise file_timeout_s in ingest.json"
        for name in ("2.spin", "4.spin")
    ]
    assert [key[1] for key in sink.held] == ["0", "1", "3", "4", "5"]


@pytest.mark.slow
def test_a_file_that_takes_too_much_memory_costs_itself_and_no_other(run, sink):
    report = run({**pages(0, 1, 3), "2.eat": "x"}, file_timeout_s=30.0)
    assert [str(one) for one in report.skipped] == [
        (
            "2.eat: takes more than 64 MB of memory to be read: none of it is kept. "
            "Split it, or raise file_memory_mb in ingest.json"
        )
    ]
    assert [key[1] for key in sink.held] == ["0", "1", "3"]


@pytest.mark.slow
def test_a_crash_in_a_library_costs_the_file_and_no_other(run, sink):
    report = run({**pages(0, 1, 3), "2.crash": "x"}, jobs=1)
    [skipped] = report.skipped
    assert skipped.path == "2.crash"
    assert skipped.reason.startswith("the process that read it ended, perhaps because of too little memory")
    assert [key[1] for key in sink.held] == ["0", "1", "3"]


@pytest.mark.slow
def test_temporary_files_of_a_loader_that_did_not_end_go_with_its_process(run, tmp_path):
    """A copy of a bank's document must not stay behind where everybody's temporary files are."""
    note = tmp_path / "folder"
    report = run({"0.litter": str(note)}, jobs=1)
    assert [one.path for one in report.skipped] == ["0.litter"]
    left = Path(note.read_text())
    assert left.parent.name.startswith("context-engine-")
    assert not left.parent.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["0.child", "0.session"])
def test_what_a_loader_started_ends_with_it(run, tmp_path, name):
    """Even where it leads a session of its own."""
    note = tmp_path / "pid"
    report = run({name: str(note)})
    assert [one.path for one in report.skipped] == [name]
    assert not _runs(int(note.read_text()))


@pytest.mark.parametrize(("name", "megabytes"), [("a.ods", 576), ("a.DOC", 576), ("a.odt", 64), ("a.pdf", 64)])
def test_what_libreoffice_itself_takes_does_not_count_as_memory_of_a_file(name, megabytes):
    job = FileJob(Path(name), Path(), (name,), ())
    assert _most_memory(job, IngestSettings(file_memory_mb=64)) == megabytes << 20  # 64 + 512, or 64


@pytest.mark.slow
def test_memory_of_what_a_loader_started_counts_too(run):
    report = run({"0.greedy": "x"}, file_timeout_s=60.0)
    assert ["takes more than 64 MB" in one.reason for one in report.skipped] == [True]


@pytest.mark.slow
def test_a_file_that_never_ends_keeps_what_it_gave_in_its_time(run, sink):
    """A record every 0.3 s and never a silence of 2 s: after 2 s in all it is left, for it has less than 128 kB."""
    report = run({**pages(1), "0.drip": "x"}, file_timeout_s=2.0)
    [skipped] = report.skipped
    kept = len(sink.held) - 1
    assert kept >= 1
    assert f"what it gave before is kept ({kept} document" in skipped.reason


@pytest.mark.slow
def test_a_counter_that_cannot_be_handed_over_counts_here_and_the_loader_keeps_its_limits(
    folder, source, sink, hostile
):
    class Local:
        name = "local"

        def count(self, text):
            return len(text.split())

    options = IngestOptions(
        counter=Local(), strategies=hostile.Table(DEFAULT_STRATEGIES), settings=IngestSettings(file_timeout_s=1.0)
    )
    report = ingest(folder({**pages(0, 2), "1.spin": "x"}), source({"*": "default"}), sink, options=options)
    assert [(one.path, one.reason[:15]) for one in report.skipped] == [("1.spin", "took longer tha")]
    assert [key[1] for key in sink.held] == ["0", "2"]


@pytest.mark.slow
def test_time_in_which_nobody_takes_what_was_read_is_not_the_file_s(folder, hostile):
    """The file gives more than its process may hold ready (8 times 64 records, and the pipe's 64 kB), so it waits."""
    from context_engine.ingest.files import Assignment
    from context_engine.ingest.reading import FileJob

    root = folder({"0.many": "3000", "1.md": "Page."})
    options = IngestOptions(counter=hostile.Counter(), settings=IngestSettings(file_timeout_s=5.0))
    jobs = [FileJob(root / name, root, (name,), (Assignment("s", None, name),)) for name in ("0.many", "1.md")]
    given = []
    for _, items in read_all(jobs, options, {}):
        given.append(next(items))
        time.sleep(6.0)
        given += items
    assert len(given) == 3_001
    assert all(isinstance(one.document.document_id, str) for one in given)


@pytest.mark.slow
def test_documents_that_come_before_a_limit_of_output_are_kept(run, sink):
    """Each record is "Page N." in one chunk: 7 characters up to the ninth."""
    report = run({"0.many": "9", **pages(1)}, file_max_chars=5 * 7)
    assert [str(one) for one in report.skipped] == [
        (
            "0.many: gives more than 35 characters: what it gave before is kept (5 documents). "
            "Split it, or raise file_max_chars in ingest.json"
        )
    ]
    assert len(sink.held) == 5 + 1


def test_a_large_file_may_give_more(tmp_path):
    settings, file = IngestSettings(file_max_chars=1_000, file_max_chunks=10), tmp_path / "a.csv"
    for megabytes, times in ((1, 1), (3, 1), (4, 2), (21, 10)):
        with file.open("wb") as stream:
            stream.truncate(megabytes << 20)
        assert (most_chars(file, settings), most_chunks(file, settings)) == (1_000 * times, 10 * times)


@pytest.mark.slow
def test_a_document_of_too_many_chunks_is_refused_whole(run, sink):
    text = "\n\n".join(f"# {number}\n\n" + "word " * 400 for number in range(4))
    report = run({"0.md": text, **pages(1)}, file_max_chunks=3)
    assert [str(one) for one in report.skipped] == [
        "0.md: gives more than 3 chunks: none of it is kept. Split it, or raise file_max_chunks in ingest.json"
    ]
    assert [key[1] for key in sink.held] == ["1"]


@pytest.mark.slow
def test_a_process_is_used_again(run, monkeypatch):
    import subprocess

    run(pages(0), jobs=1)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert run(pages(0, 1), jobs=1).documents == 2


@pytest.mark.slow
def test_no_thread_is_left_behind(run):
    before = threading.active_count()
    run(pages(*range(5)))
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def _runs(pid):
    """Whether a process is there and not merely waiting to be reaped."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.1)
    return True
