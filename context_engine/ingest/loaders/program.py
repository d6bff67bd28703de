"""A program that another process runs for a loader, within limits of time and memory."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

# The command gets its own process group. It ends even if this process is killed, because `cat` then sees its pipe
# closed and kills the group.
_BOUND: Final = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec "$@" </dev/null 3<&-'


def run_bounded(line: list[str], folder: Path, seconds: float) -> int | None:
    """Run a command in a folder and end all processes that it started.

    Returns:
        Its exit status; None if it took too long.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", _BOUND, "sh", *line],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder)},
        start_new_session=True,
        preexec_fn=_limits(),
    )
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _limits() -> partial[None]:
    """Return a function that sets the command's memory limit to the hard limit; this process has a lower one."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    return partial(resource.setrlimit, resource.RLIMIT_AS, (hard, hard))
