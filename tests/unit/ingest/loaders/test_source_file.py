"""What is no file is not opened, and a file is read as it stood when it was opened."""

import os
import socket
from pathlib import Path

import pytest

from context_engine.ingest.loaders import load
from context_engine.ingest.loaders.source_file import SourceFile, UnreadableFile
from context_engine.ingest.reading import IngestOptions
from context_engine.ingest.run import ingest

NOT_READ = "which is not read: only regular files are"


@pytest.fixture
def root(folder):
    return folder({"good.md": "Page."})


def only(root, name):
    [skipped] = load(root / name, root)
    return str(skipped)


def test_a_named_pipe_is_not_waited_for(root):
    os.mkfifo(root / "a.md")
    assert only(root, "a.md") == f"a.md: is a named pipe (FIFO), {NOT_READ}"


def test_a_socket_is_said(root, monkeypatch):
    monkeypatch.chdir(root)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a.md")
        assert only(root, "a.md") == f"a.md: is a socket, {NOT_READ}"


def test_a_device_behind_a_link_is_said_and_not_read_for_ever(root):
    (root / "a.txt").symlink_to("/dev/zero")
    assert only(root, "a.txt") == f"a.txt: is a device, {NOT_READ}"


def test_a_link_that_leads_in_a_circle_is_said(root):
    (root / "a.md").symlink_to("b.md")
    (root / "b.md").symlink_to("a.md")
    assert only(root, "a.md").startswith("a.md: cannot be opened: ")


def test_a_pipe_put_in_a_file_s_place_between_look_and_open_is_not_waited_for(root, monkeypatch):
    """The look finds a file, the opening a pipe that nobody writes to."""
    os.mkfifo(root / "a.md")
    monkeypatch.setattr(SourceFile, "state", lambda self: (root / "good.md").stat())
    with pytest.raises(UnreadableFile, match="named pipe"):
        SourceFile(root / "a.md", "a.md").open()


@pytest.mark.slow
def test_none_of_them_stops_a_run(root, source, sink):
    os.mkfifo(root / "a.md")
    (root / "b.md").symlink_to("/dev/zero")
    report = ingest(root, source({"*": "default"}), sink, options=IngestOptions(jobs=2))
    assert [one.path for one in report.errors] == ["a.md", "b.md"]
    assert report.documents == 1


def test_a_pipe_given_alone_is_said(root, source, sink):
    os.mkfifo(root / "a.md")
    report = ingest(root / "a.md", source({"*.md": "default"}), sink)
    assert [str(one) for one in report.errors] == [f"a.md: is a named pipe (FIFO), {NOT_READ}"]


def test_a_file_that_grows_is_read_as_it_stood_and_said(root):
    log = root / "log.jsonl"
    log.write_text('{"entity_id": "E1"}\n{"entity_id": "E2"}\n')
    found = load(log, root)
    first = next(found)
    with log.open("a") as more:
        more.write('{"entity_id": "E3"}\n' * 10_000)
    second, changed = found
    assert [first.fields["entity_id"], second.fields["entity_id"]] == ["E1", "E2"]
    assert str(changed) == "log.jsonl: changed while it was read: run again when it no longer changes"
    assert changed.error


def test_a_file_that_grows_while_it_is_read_comes_to_an_end(root):
    log = root / "log.txt"
    log.write_bytes(b"line\n" * 1000)
    with SourceFile(log, "log.txt").open() as stream, log.open("ab", buffering=0) as more:
        read = b""
        while block := stream.read(100):
            read += block
            more.write(b"more\n" * 100)
    assert read == b"line\n" * 1000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_file_that_says_it_is_empty_and_is_not_is_no_file(tmp_path):
    with pytest.raises(UnreadableFile, match="its size is 0, but it has content"):
        SourceFile(Path("/proc/self/status"), "status").open()


def test_a_file_can_be_read_from_any_place(root):
    """Zip archives are read from their end."""
    (root / "a.bin").write_bytes(b"0123456789")
    with SourceFile(root / "a.bin", "a.bin").open() as stream:
        assert stream.seek(-3, os.SEEK_END) == 7
        assert stream.read() == b"789"
        assert stream.seek(2) == 2
        assert (stream.read(2), stream.tell()) == (b"23", 4)
