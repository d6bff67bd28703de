"""Writing a package: the same bytes for the same files, wherever and whenever it is packed."""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Final

from context_engine.apps.packaging.files import Files

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o100644 << 16
_UNIX: Final = 3


def write_archive(files: Files, *, comment: bytes = b"", last: tuple[str, ...] = ()) -> bytes:
    """Return the zip archive of the files: sorted by path, deflated, one date and one mode.

    The bytes depend on the files and on the zlib of the Python that runs, and on nothing else.

    Args:
        files: the package.
        comment: the archive's comment; a signature stands there.
        last: paths that stand behind the others.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in (*sorted(set(files) - set(last)), *last):
            entry = zipfile.ZipInfo(path, _DATE)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, _UNIX, _MODE
            archive.writestr(entry, files[path])
        archive.comment = comment
    return out.getvalue()


def checksum(files: Files) -> str:
    """Return the checksum Dify puts into a package's identifier.

    SHA-256 over SHA-256(path) and SHA-256(content) of each file, sorted by path; 64 hex digits.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(hashlib.sha256(path.encode()).digest())
        digest.update(hashlib.sha256(files[path]).digest())
    return digest.hexdigest()
