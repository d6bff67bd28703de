"""The archive of a backup: a ZIP file with a manifest that names every other file, its size and its SHA-256."""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.errors import BackupError

FORMAT: Final = 1
MANIFEST: Final = "backup.json"
_BLOCK: Final = 1 << 20
_MOST_MANIFEST_BYTES: Final = 50_000_000
_LEVEL: Final = 1  # of deflate: the fastest
_LOCK: Final = "writer.lock"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError),
)
"""What `zipfile` raises for altered bytes; a manifest that does not validate is a ValueError too."""

Progress = Callable[[int, int, str], None]
"""Receives megabytes done, megabytes in all, and the name of the file at work."""


def _below_the_archive(name: str) -> str:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise ValueError("is no path below the archive")
    return name


class ArchiveMember(BaseModel):
    """A file of an archive: its path with "/", its bytes, and their SHA-256 in hex."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, AfterValidator(_below_the_archive)]
    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class BackedUpBase(BaseModel):
    """The embedded base of a backup."""

    model_config = ConfigDict(frozen=True)

    schema_version: int
    base_id: str
    generation: int
    documents: int
    chunks: int


class LedgerFacts(BaseModel):
    """The ledger of a backup: its head, and the newest checkpoint, which is a signed note."""

    model_config = ConfigDict(frozen=True)

    schema_version: int
    origin: str
    size: int
    pending: int
    root: str
    checkpoint: str | None


class LeftOutPart(BaseModel):
    """A part that a backup leaves out, and why."""

    model_config = ConfigDict(frozen=True)

    name: str
    reason: str


class Manifest(BaseModel):
    """The contents of an archive.

    Attributes:
        format: of the archive; a newer one is refused.
        program: the version that made it.
    """

    model_config = ConfigDict(frozen=True)

    format: int
    program: str
    made_at: datetime
    base: BackedUpBase | None = None
    ledger: LedgerFacts | None = None
    left_out: tuple[LeftOutPart, ...] = ()
    members: tuple[ArchiveMember, ...] = ()

    def below(self, folder: str) -> tuple[ArchiveMember, ...]:
        """Return the files below a folder of the archive."""
        return tuple(member for member in self.members if member.name.startswith(f"{folder}/"))


class ArchiveContents(NamedTuple):
    """What goes into an archive, before its files are read.

    Attributes:
        files: the name in the archive and the file, which must not change meanwhile.
    """

    files: Sequence[tuple[str, Path]]
    base: BackedUpBase | None
    ledger: LedgerFacts | None
    left_out: Sequence[LeftOutPart]


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for one process, and delete it afterwards; what a killed process left is deleted first.

    Raises:
        StoreLocked: another process works in it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with WriterLock(folder):
        _empty(folder)
        try:
            yield folder
        finally:
            _empty(folder)
    shutil.rmtree(folder, ignore_errors=True)


def write_archive(
    path: Path, contents: ArchiveContents, *, program: str, made_at: datetime, progress: Progress
) -> Manifest:
    """Write an archive that only its owner may read, file by file, the manifest last."""
    total, done, members = sum(file.stat().st_size for _, file in contents.files), 0, []
    with (
        open(os.open(path, _NEW, 0o600), "wb") as out,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive,
    ):
        for name, file in contents.files:
            with file.open("rb") as read, archive.open(name, "w", force_zip64=True) as written:
                member = _copied(name, read, written, _counted(progress, done, total, name))
            members.append(member)
            done += member.size
        manifest = Manifest(
            format=FORMAT,
            program=program,
            made_at=made_at,
            base=contents.base,
            ledger=contents.ledger,
            left_out=tuple(contents.left_out),
            members=tuple(members),
        )
        archive.writestr(MANIFEST, manifest.model_dump_json(indent=1))
    with path.open("rb") as written_file:
        os.fsync(written_file.fileno())
    return manifest


class Archive:
    """An archive that is open for reading; every damage is a `BackupError` that names the file.

    Attributes:
        manifest: its contents.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        self.manifest = self._manifest()
        names = sorted(info.filename for info in archive.infolist())
        expected = sorted([MANIFEST, *(member.name for member in self.manifest.members)])
        if names != expected:
            wrong = sorted(set(names) ^ set(expected)) or [name for name in names if names.count(name) > 1]
            raise self._damaged(f"{wrong[0]} is not in both the archive and its manifest, once")

    def extract(
        self, members: Sequence[ArchiveMember], target: Path, progress: Progress, *, private: bool = False
    ) -> None:
        """Write files below a folder, each compared with its digest.

        Args:
            members: of the manifest.
            private: whether the files are for their owner alone; otherwise the umask decides.

        Raises:
            BackupError: a file differs from the manifest.
        """
        total, done = sum(member.size for member in members), 0
        for member in members:
            file = target / member.name
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(file, _NEW, 0o600 if private else 0o666), "wb") as written:
                self._read(member, written, _counted(progress, done, total, member.name))
                written.flush()
                os.fsync(written.fileno())
            done += member.size

    def check(self, progress: Progress) -> None:
        """Compare every file with its digest.

        Raises:
            BackupError: a file differs from the manifest.
        """
        total, done = sum(member.size for member in self.manifest.members), 0
        for member in self.manifest.members:
            self._read(member, None, _counted(progress, done, total, member.name))
            done += member.size

    def _read(self, member: ArchiveMember, written: IO[bytes] | None, count: Callable[[int], None]) -> None:
        with self._reading(member.name), self._archive.open(member.name) as read:
            actual = _copied(member.name, read, written, count, most=member.size)
        if actual != member:
            raise self._damaged(
                f"{member.name} has {actual.size} bytes or more with SHA-256 {actual.sha256}; its manifest names "
                f"{member.size} with {member.sha256}"
            )

    def _manifest(self) -> Manifest:
        try:
            with self._reading(MANIFEST), self._archive.open(MANIFEST) as read:
                manifest = Manifest.model_validate_json(read.read(_MOST_MANIFEST_BYTES))
        except KeyError:
            raise BackupError(f"{self.path} is no backup: it has no {MANIFEST}") from None
        if manifest.format > FORMAT:
            raise BackupError(
                f"{self.path} has format {manifest.format}, this program reads {FORMAT}: install version "
                f"{manifest.program} or newer"
            )
        return manifest

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            raise self._damaged(f"{name} cannot be read ({type(error).__name__}: {error})") from error
        except OSError as error:
            if error.errno not in (None, errno.EINVAL):  # None: of bz2; EINVAL: of a seek to an altered place
                raise
            raise self._damaged(f"{name} cannot be read: its place or its compression is altered") from error

    def _damaged(self, what: str) -> BackupError:
        return BackupError(f"{self.path} is damaged or was altered: {what}. Nothing was restored; use another copy")


@contextmanager
def opened_archive(path: Path) -> Iterator[Archive]:
    """Yield an archive.

    Raises:
        BackupError: it is no backup, is torn, or was made by a newer version.
    """
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise BackupError(
            f"{path} cannot be read ({error.strerror or error}): check the file and its permissions"
        ) from error
    except _UNREADABLE as error:
        raise BackupError(
            f"{path} is torn or is no backup ({error}): its end, which lists its files, is missing or altered. Nothing "
            "was restored; use another copy"
        ) from error
    with archive:
        yield Archive(path, archive)


def _copied(
    name: str, read: IO[bytes], written: IO[bytes] | None, count: Callable[[int], None], *, most: int | None = None
) -> ArchiveMember:
    """Copy a file block by block; stop behind the first block above `most` bytes."""
    digest, size = hashlib.sha256(), 0
    while (most is None or size <= most) and (block := read.read(_BLOCK)):
        digest.update(block)
        size += len(block)
        if written is not None:
            written.write(block)
        count(size)
    return ArchiveMember(name=name, size=size, sha256=digest.hexdigest())


def _counted(progress: Progress, done: int, total: int, name: str) -> Callable[[int], None]:
    return lambda size: progress((done + size) // 1_000_000, total // 1_000_000, name)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()
