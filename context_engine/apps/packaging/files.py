"""The files of a plugin package: read from a folder or a `.difypkg`, and written as one."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from context_engine.errors import ConfigError

IGNORE_FILES = (".difyignore", ".gitignore")


@dataclass(frozen=True, slots=True)
class Ignore:
    """Patterns of one file, as (regular expression, matches only folders)."""

    patterns: tuple[tuple[re.Pattern[str], bool], ...] = ()

    def matches(self, path: str, *, folder: bool) -> bool:
        """Return whether a path is ignored; an ignored folder includes everything below it.

        Args:
            path: relative to the plugin's folder, forward slashes.
            folder: whether the path is a folder.
        """
        return any(pattern.fullmatch(path) for pattern, folders in self.patterns if folder or not folders)


def read_ignore(text: str) -> Ignore:
    """Return the patterns of an ignore file."""
    return Ignore(tuple(_pattern(line) for line in _lines(text) if not line.startswith("!")))


def negations(text: str) -> list[str]:
    """Return the `!` lines, which have no effect."""
    return [line for line in _lines(text) if line.startswith("!")]


def _lines(text: str) -> Iterable[str]:
    return (line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#"))


def _pattern(line: str) -> tuple[re.Pattern[str], bool]:
    folders, body = line.endswith("/"), line.rstrip("/")
    anchored = "/" in body
    parts = [part for part in body.split("/") if part]
    out = "" if anchored else "(?:.*/)?"
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:.*/)?"
        else:
            out += _segment(part) + ("" if last else "/")
    return re.compile(out), folders


def _segment(part: str) -> str:
    out, index = "", 0
    while index < len(part):
        char = part[index]
        end = part.find("]", index + 2) if char == "[" else -1
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif end > 0:
            inner = part[index + 1 : end].replace("\\", "\\\\")
            out += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
            index = end
        elif char == "\\" and index + 1 < len(part):
            index += 1
            out += re.escape(part[index])
        else:
            out += re.escape(char)
        index += 1
    return out


Files = Mapping[str, bytes]
"""Path in the package (forward slashes) -> content."""

MAX_BYTES: Final = 52_428_800
"""50 MiB: Dify's limit for the uncompressed size of a package."""

_OUT_FOLDERS: Final = frozenset({"__pycache__", ".git", ".hg", ".svn", ".venv", "node_modules"})
_OUT_SUFFIXES: Final = frozenset({".pyc", ".pyo"})
_CACHE: Final = re.compile(r"\.[a-z_]+_cache")
_SECRET_SUFFIXES: Final = frozenset({".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"})
_SECRET_NAMES: Final = re.compile(r"\.env(\..+)?|\.netrc|\.pypirc|id_(rsa|dsa|ecdsa|ed25519)|.*\.env")
_SAMPLES: Final = (".example", ".sample", ".template")
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}")


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files of a plugin folder that its ignore file allows, without tool caches.

    Raises:
        ConfigError: the folder does not exist or contains a link.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}: name the plugin's folder with --plugin-dir")
    texts = (folder / name for name in IGNORE_FILES)
    lines = next((path.read_text("utf-8", errors="replace") for path in texts if path.is_file()), "")
    return dict(_walk(folder, PurePosixPath(), read_ignore(lines)))


def read_tree(folder: Path, name: str) -> dict[str, bytes]:
    """Return the files of an importable package below `name/`, without tests, caches and hidden files."""
    ignore = read_ignore(".*\ntests/\n*~\n*.egg-info/\n")
    return {f"{name}/{path}": content for path, content in _walk(folder, PurePosixPath(), ignore)}


def read_package(path: Path) -> dict[str, bytes]:
    """Return the files of a `.difypkg` in their order.

    Raises:
        ConfigError: not a zip archive, a duplicate path, a path outside of the package, or too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if sum(entry.file_size for entry in entries) > 4 * MAX_BYTES:
                raise ConfigError(f"holds more than {4 * MAX_BYTES} bytes uncompressed", file=str(path))
            contents: dict[str, bytes] = {}
            for entry in entries:
                name = entry.filename
                if name in contents or "\\" in name or name.startswith("/") or ".." in name.split("/"):
                    raise ConfigError(f"holds the path {name!r} twice, or one that leaves the package", file=str(path))
                contents[name] = archive.read(entry)
            return contents
    except (zipfile.BadZipFile, OSError) as error:
        raise ConfigError(f"is not a plugin package: {error}", file=str(path)) from None


def never_ships(files: Files) -> list[tuple[str, str]]:
    """Return (path, reason) for each file that would leak a secret."""
    problems: list[tuple[str, str]] = []
    for path, content in files.items():
        name = path.rsplit("/", 1)[-1].lower()
        sample = name.endswith(_SAMPLES)
        if PurePosixPath(name).suffix in _SECRET_SUFFIXES or (_SECRET_NAMES.fullmatch(name) and not sample):
            problems.append((path, "files of this name hold keys or passwords"))
        elif _PRIVATE_KEY.search(content):
            problems.append((path, "it holds a private key"))
    return problems


def size_line(files: Files) -> str:
    """Return e.g. "1.40 MiB of 50 MiB uncompressed; largest: a.whl 1.20 MiB, b.py 14.1 KiB"."""
    total = sum(map(len, files.values()))
    largest = sorted(files, key=lambda path: (-len(files[path]), path))[:5]
    names = ", ".join(f"{path} {_readable(len(files[path]))}" for path in largest)
    return f"{_readable(total)} of {MAX_BYTES >> 20} MiB uncompressed; largest: {names}"


def _readable(size: int) -> str:
    return f"{size / 1048576:.2f} MiB" if size >= 1048576 else f"{size / 1024:.1f} KiB"


def _walk(folder: Path, below: PurePosixPath, ignore: Ignore) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir()):
        inner = below / path.name
        if _is_cache(path.name) or ignore.matches(inner.as_posix(), folder=path.is_dir()):
            continue
        if path.is_symlink():
            raise ConfigError("is a link: a package holds files only; put the file itself there", file=str(path))
        if path.is_dir():
            yield from _walk(path, inner, ignore)
        elif path.suffix not in _OUT_SUFFIXES:
            yield inner.as_posix(), path.read_bytes()


def _is_cache(name: str) -> bool:
    return name in _OUT_FOLDERS or name == ".DS_Store" or bool(_CACHE.fullmatch(name))


_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o100644 << 16
_UNIX: Final = 3


def write_archive(files: Files, *, comment: bytes = b"", last: tuple[str, ...] = ()) -> bytes:
    """Return the zip archive of the files: sorted by path, deflated, one date and one mode.

    The bytes depend only on the files and on the zlib of the running Python.

    Args:
        comment: the archive's comment, used for a signature.
        last: paths to place after all others.
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
