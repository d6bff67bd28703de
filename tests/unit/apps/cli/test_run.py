"""The program ends with its exit code, whatever still runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NoReturn

import pytest

from context_engine.apps.cli import main

PROGRAM = """
import atexit, os, sys, time
from context_engine.apps.cli import run
from context_engine.core.concurrency.calls import EXECUTOR

class Last:
    def __del__(self, write=os.write):
        write(1, b"finalised\\n")

last, sys.argv = Last(), ["context-engine", *sys.argv[1:]]
atexit.register(print, "closed")
if BUSY:
    EXECUTOR.submit(lambda: time.sleep(600), "given up")
run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(("given", "code", "told"), [("--version", 0, "context-engine "), ("--nosuch", 2, "")])
def test_a_call_that_was_given_up_is_not_unwound(busy: bool, given: str, code: int, told: str) -> None:
    # Native code that is unwound when the interpreter is finalised aborts the process, which ends with 134.
    program = PROGRAM.replace("BUSY", str(busy))
    ended = subprocess.run([sys.executable, "-c", program, given], capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert ended.stdout.startswith(told) and "closed\n" in ended.stdout
    assert ("finalised" in ended.stdout) == (not busy)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            PermissionError(13, "Permission denied", "shut/b.zip"),
            "shut/b.zip: Permission denied: give this user access",
        ),
        (OSError(40, "Too many levels of symbolic links", "loop"), "loop: Too many levels of symbolic links ("),
        (OSError("no more"), "OSError: no more ("),
    ],
)
def test_a_file_that_fails_is_named_by_its_path(
    error: OSError, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr("click.Group.invoke", failing)
    with pytest.raises(SystemExit):
        main(["domains"])
    assert f"error: {told}" in capsys.readouterr().err


def test_an_option_without_its_value_is_told_as_every_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "list", "--json", "--since"])
    out, err = capsys.readouterr()
    assert (ended.value.code, err.startswith("error: Option '--since' requires an argument.")) == (2, True)
    assert json.loads(out)["error"]["code"] == "usage"
