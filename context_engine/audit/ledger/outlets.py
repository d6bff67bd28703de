"""Where checkpoints go outside the ledger: a file and a program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from context_engine.errors import AuditError
from context_engine.settings.layers import SECRET_VARIABLES

COMMAND_TIMEOUT_S: Final = 30.0
Outlet = Callable[[str], None]
"""Takes a checkpoint; raises `AuditError` if it cannot be delivered."""


def outlets_of(file: Path | None, command: Sequence[str] | None) -> Mapping[str, Outlet]:
    """Return the configured outlets by name.

    Args:
        command: program and arguments that receive each checkpoint on standard input.
    """
    outlets: dict[str, Outlet] = {}
    if file is not None:
        outlets["file"] = lambda note: append_checkpoint(file, note)
    if command is not None:
        outlets["command"] = lambda note: run_command(command, note)
    return outlets


def run_command(command: Sequence[str], note: str, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
    """Run a program with a checkpoint on standard input, without a shell and without any of our secrets.

    Args:
        timeout_s: seconds after which it is killed.

    Raises:
        AuditError: it could not be started, timed out, or exited with another code than 0.
    """
    env = {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}
    problem = ""
    try:
        ended = subprocess.run(
            list(command),
            input=note.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            env=env,
            check=False,
        )
        if ended.returncode:
            problem = f"exited with code {ended.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"did not end within {timeout_s:g} s"
    except (OSError, ValueError) as error:
        problem = f"could not be started ({getattr(error, 'strerror', None) or type(error).__name__})"
    if problem:
        raise AuditError(f"the program {command[0]} of audit_checkpoint_command {problem}")


_GAP: Final = "\n\n"
_SIGNATURE: Final = "— "


def append_checkpoint(path: Path, note: str) -> None:
    """Append a checkpoint to a file, durably and in one write, so that checkpoints of several processes do not mix.

    Raises:
        AuditError: it cannot be written.
    """
    problem = ""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, f"{note.rstrip()}{_GAP}".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    if problem:
        raise AuditError(f"the file of checkpoints {path} cannot be written ({problem}): correct audit_checkpoint_file")


def checkpoints_in(text: str) -> tuple[str, ...]:
    """Return the checkpoints in the text of a checkpoint file, oldest first.

    Nothing is checked; a checkpoint that a crash cut off is included.
    """
    notes: list[str] = []
    for block in text.replace("\r\n", "\n").split(_GAP):
        lines = block.strip("\n")
        if not lines:
            continue
        if lines.startswith(_SIGNATURE) and notes:
            notes[-1] += f"\n{lines}\n"
        else:
            notes.append(f"{lines}\n")
    return tuple(notes)
