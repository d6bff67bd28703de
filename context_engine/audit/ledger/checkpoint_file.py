"""A file of checkpoints, one behind the other with an empty line between: what is kept outside, and read again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from context_engine.errors import AuditError

_GAP: Final = "\n\n"
_SIGNATURE: Final = "— "


def append_checkpoint(path: Path, note: str) -> None:
    """Append a checkpoint to a file; it is on the disk on return.

    One write to a file opened for appending: what several processes append does not mix.

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
    """Return the checkpoints of such a file, or of one that holds a single checkpoint, oldest first.

    Nothing is checked: a checkpoint that was cut off when the machine stopped is among them.
    """
    found: list[str] = []
    for block in text.replace("\r\n", "\n").split(_GAP):
        lines = block.strip("\n")
        if not lines:
            continue
        if lines.startswith(_SIGNATURE) and found:
            found[-1] += f"\n{lines}\n"
        else:
            found.append(f"{lines}\n")
    return tuple(found)
