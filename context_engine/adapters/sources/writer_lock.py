"""A lock between processes that admits one writer; the system releases it when the holder ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from context_engine.errors import StoreLocked

_NAME: Final = "writer.lock"
_FAR: Final = 1 << 20


class WriterLock:
    """The right to write to a base, from creation until `release`.

    Raises:
        StoreLocked: another writer has the lock, in this process or another.
        OSError: the lock file cannot be created.
    """

    def __init__(self, root: Path) -> None:
        path = root / _NAME
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._handle)
        except OSError as error:
            holder = path.read_text(errors="replace").strip() or "unknown"
            os.close(self._handle)
            raise StoreLocked(
                f"{root} is being written to by process {holder} ({path}): wait until it has finished"
            ) from error
        _name(self._handle, str(os.getpid()))

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            _name(handle, "")
            _unlock(handle)
            os.close(handle)

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _name(handle: int, holder: str) -> None:
    """Record the holder of the lock. On a full disk the lock is taken without a name."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.write(handle, holder.encode())


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        """Lock one byte far behind the pid, so that the pid stays readable."""
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

    def _unlock(handle: int) -> None:
        """Do nothing: closing the file is enough here."""
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(handle: int) -> None:
        """Unlock explicitly: a child process that is just being started may still hold the file open."""
        fcntl.flock(handle, fcntl.LOCK_UN)
