"""The command line as a process: streams, signals, pipes, two at once."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

QUERY = ("search", "NPA classification criteria", "--domain", "NPA")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which the demo's base is built."""
    folder = tmp_path_factory.mktemp("data")
    done = subprocess.run(command(*QUERY), env=environment(folder), cwd=folder, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def environment(data: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE", "COLUMNS"))}
    return {**kept, "HOME": str(data), "XDG_CONFIG_HOME": str(data), "CONTEXT_ENGINE_DATA_DIR": str(data / "d"), **more}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "context_engine", *args]


def call(data: Path, *args: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*args), env=environment(data, **more), cwd=data, input=stdin, capture_output=True, timeout=120
    )


@pytest.mark.slow
def test_stdout_is_one_object_while_the_base_is_built(tmp_path: Path) -> None:
    done = call(tmp_path, *QUERY, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["demo"] is True
    assert done.stdout.count(b"\n") == 1
    assert b"Building the demo bank" in done.stderr
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
def test_two_that_start_at_once_both_answer(tmp_path: Path) -> None:
    both = [
        subprocess.Popen(
            command(*QUERY, "--json"),
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    answers = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], answers
    ids = [[chunk["chunk_id"] for chunk in json.loads(out)["chunks"]] for out, _ in answers]
    assert ids[0] == ids[1]


@pytest.mark.slow
def test_interrupted_while_building_it_says_so_and_the_next_one_goes_on(tmp_path: Path) -> None:
    started = subprocess.Popen(
        command(*QUERY), env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell has it ignored
    )  # fmt: skip
    assert started.stderr is not None
    for line in started.stderr:
        if b"Building" in line:
            break
    started.send_signal(signal.SIGINT)
    _, rest = started.communicate(timeout=60)
    assert started.returncode == 130
    assert b"Traceback" not in rest
    assert b"error: interrupted" in rest
    assert call(tmp_path, *QUERY).returncode == 0


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(data: Path) -> None:
    started = subprocess.Popen(
        command(*QUERY, "--explain", "-k", "100"),
        env=environment(data),
        cwd=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdout is not None
    started.stdout.close()
    assert started.stderr is not None
    errors = started.stderr.read()
    assert started.wait(timeout=60) == 141
    assert b"Traceback" not in errors
    assert b"Broken" not in errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("args", [(*QUERY, "-k", "1"), (*QUERY, "--json"), ("--help",)])
def test_a_full_disk_is_one_line(data: Path, args: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*args), env=environment(data), cwd=data, stdout=full, stderr=subprocess.PIPE, timeout=120
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == "error: cannot write: No space left on device"
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="closes a stream as a shell does")
@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [(">&-", 1, b"error: standard output is closed: there is nowhere to write to\n"), ("2>&-", 2, b"")],
)
def test_a_closed_stream_is_no_traceback(data: Path, closed: str, code: int, said: bytes) -> None:
    line = f"exec {shlex.join(command('config', 'show', '--persona', 'nobody'))} {closed}"
    done = subprocess.run(["/bin/sh", "-c", line], env=environment(data), cwd=data, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (code, said, b"")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_every_encoding_of_the_terminal_works(data: Path, encoding: str) -> None:
    table = call(data, "search", "limit breach escalation", "-d", "DESK", "--explain", PYTHONIOENCODING=encoding)
    assert table.returncode == 0, table.stderr
    assert b"DESK-" in table.stdout
    whole = call(data, "search", "产品 审批 limit", "-d", "DESK", "--json", PYTHONIOENCODING=encoding)
    assert json.loads(whole.stdout)["query"] == "产品 审批 limit"


@pytest.mark.slow
def test_no_color_and_pipes_have_no_escape_codes(data: Path) -> None:
    done = call(data, *QUERY, "--explain", NO_COLOR="1")
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("more", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_a_terminal_gets_colour_unless_told_not_to(data: Path, more: dict[str, str], coloured: bool) -> None:
    import pty

    leader, follower = pty.openpty()
    env = environment(data, **{"TERM": "xterm-256color", "COLUMNS": "100", **more})
    with subprocess.Popen(command(*QUERY, "-k", "1"), env=env, cwd=data, stdout=follower, stderr=follower) as started:
        os.close(follower)
        shown = _drain(leader)
    os.close(leader)
    assert started.returncode == 0
    assert (b"\x1b[32m" in shown or b"\x1b[1;32m" in shown) is coloured
    assert (b"\x1b" in shown) is coloured, "not bold either"
    assert b"NPA" in shown


def _drain(leader: int) -> bytes:
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            return shown
        if not piece:
            return shown
        shown += piece


@pytest.mark.slow
def test_a_source_that_is_down_is_named_and_the_exit_code_is_3(data: Path, tmp_path: Path) -> None:
    """The base is there, but one source of the manifest was never taken in."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/a.md").write_text("# 1 Losses\n\nA loss event must be reported within 24 hours.\n")
    manifest = "version: 1\ndomain: ORM\nsources:\n  - {id: sops, type: bank_sop, documents: [{include: '*.md'}]}\n"
    (tmp_path / "manifests/orm.yaml").write_text(manifest)
    assert call(tmp_path, "ingest", "documents", "-d", "ORM").returncode == 0
    (tmp_path / "manifests/orm.yaml").write_text(manifest + "  - {id: records, type: system_of_record}\n")
    done = call(tmp_path, "search", "loss event", "-d", "ORM")
    assert done.returncode == 3, done.stdout + done.stderr
    assert b"source records failed (tier 1, " in done.stdout
    assert b"degraded" in done.stdout


@pytest.mark.slow
def test_if_all_sources_fail_the_exit_code_is_1_and_json_is_still_one_object(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/orm.yaml").write_text("version: 1\ndomain: ORM\nsources: [{id: a, type: bank_sop}]\n")
    done = call(tmp_path, "search", "loss event", "-d", "ORM", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["status"], found["sources"][0]["error"]["code"]) == ("failed", "not_found")
    assert done.stderr.startswith(b"error: search ")
    assert b"Traceback" not in done.stderr
