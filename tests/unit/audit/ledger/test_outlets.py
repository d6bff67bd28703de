"""Checkpoints leave the ledger: to a file that can be read again, and to a program that cannot hold anybody up."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from context_engine.audit.ledger.outlets import append_checkpoint, checkpoints_in, outlets_of, run_command
from context_engine.errors import AuditError
from context_engine.settings import environment_secrets
from context_engine.settings.layers import SECRET_VARIABLES

UNSIGNED = "log.example/a\n3\nAAAA\n"
SIGNED = "log.example/a\n4\nBBBB\n\n— log.example/a c2ln\n— witness.example Y29z\n"


def test_a_file_of_checkpoints_gives_back_what_was_appended(tmp_path: Path) -> None:
    file = tmp_path / "checkpoints.txt"
    for note in (UNSIGNED, SIGNED, UNSIGNED, SIGNED):
        append_checkpoint(file, note)
    assert checkpoints_in(file.read_text("utf-8")) == (UNSIGNED, SIGNED, UNSIGNED, SIGNED)


@pytest.mark.parametrize("note", [UNSIGNED, SIGNED])
def test_a_file_with_a_single_checkpoint_is_one_too(note: str) -> None:
    assert checkpoints_in(note) == (note,)
    assert checkpoints_in(note.replace("\n", "\r\n")) == (note,)


def test_an_empty_file_holds_none() -> None:
    assert checkpoints_in("") == checkpoints_in("\n\n") == ()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="audit_checkpoint_file"):
        append_checkpoint(tmp_path / "missing" / "checkpoints.txt", UNSIGNED)


def test_a_program_is_given_the_checkpoint_on_standard_input_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRET_VARIABLES:
        monkeypatch.setenv(name, "a secret of this test")
    out = tmp_path / "seen"
    secret = "str('a secret of this test' in os.environ.values())"
    code = f"import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + {secret})"
    run_command([sys.executable, "-c", code, str(out)], SIGNED)
    assert out.read_text("utf-8") == SIGNED + "False"


def test_every_secret_that_is_read_from_the_environment_is_withheld_from_programs() -> None:
    read = {value for name, value in vars(environment_secrets).items() if name.isupper() and value in SECRET_VARIABLES}
    keys = {name for name in vars(environment_secrets) if name.endswith(("_KEY", "_KEYS", "_TOKEN"))}
    assert {getattr(environment_secrets, name) for name in keys} <= read == SECRET_VARIABLES


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    run_command(["/bin/echo", f"$(touch {trap})"], SIGNED)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("code", "said"), [("raise SystemExit(3)", "code 3"), ("import time; time.sleep(60)", "did not end within 0.3 s")]
)
def test_a_program_that_fails_or_hangs_is_told(code: str, said: str) -> None:
    with pytest.raises(AuditError, match=said):
        run_command([sys.executable, "-c", code], SIGNED, 0.3 if "sleep" in code else 30.0)


def test_the_ways_out_are_those_that_are_configured(tmp_path: Path) -> None:
    script = tmp_path / "keep"
    script.write_text(f"#!/bin/sh\ncat > {tmp_path}/kept\n")
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    assert outlets_of(None, None) == {}
    both = outlets_of(tmp_path / "file", [str(script)])
    assert list(both) == ["file", "command"]
    for give in both.values():
        give(SIGNED)
    assert (tmp_path / "kept").read_text("utf-8") == SIGNED
    assert checkpoints_in((tmp_path / "file").read_text("utf-8")) == (SIGNED,)


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(AuditError, match=r"could not be started \(No such file or directory\)"):
        run_command(["/no/such/program"], SIGNED)
