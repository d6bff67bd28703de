r"""Find the files of a folder and the sources that take each; show file names as safe text; remember ingested folders.

File names on disk are bytes. `shown_name` decodes them as UTF-8; every byte that is not UTF-8, and every byte of a
control, line-breaking or direction character, becomes `\xHH` in lower case. A backslash in front of such a form
becomes `\x5c`, so that no two names look alike. Nothing else changes: upper and lower case, and the composed and
decomposed forms of a letter, are different names here as on the disk.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.models import DocumentRule, SourceSpec
from context_engine.settings.data_dir import replace_file

_HIDDEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    r"|\\(?=x[0-9a-f]{2})"
)

_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")
_NOT_READ: Final = (".", "~$")  # Office creates "~$NAME" while somebody has NAME open


def shown_name(name: str | os.PathLike[str]) -> str:
    r"""Return a file's name or path, as Python's functions report it, as text that every output can hold.

    >>> shown_name("Gesch\udce4ftsbericht.md"), shown_name("Bericht.md")
    ('Gesch\\xe4ftsbericht.md', 'Bericht.md')
    """
    text = os.fspath(name)
    if text.isascii() and text.isprintable() and "\\x" not in text:
        return text
    return _HIDDEN.sub(_escaped, _bytes(text).decode("utf-8", "surrogateescape"))


def original_name(shown: str) -> bytes:
    r"""Return the bytes of the file name that `shown_name` turned into this text.

    >>> original_name("Gesch\\xe4ftsbericht.md")
    b'Gesch\xe4ftsbericht.md'
    """
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), shown.encode("utf-8"))


def _bytes(text: str) -> bytes:
    """Return a name's bytes in any locale; a lone UTF-16 surrogate, which Windows allows, becomes three bytes."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))


def files_of(root: Path, unread: Callable[[OSError, Path], None], linked: Callable[[str], None]) -> Iterator[Path]:
    """Yield the files of a folder, ordered by path, without hidden files, Office lock files and linked folders.

    Args:
        unread: called for each folder that cannot be listed.
        linked: called for each folder that is a link, with its shown path below `root`.
    """
    files: list[Path] = []
    for folder, folders, names in os.walk(root, onerror=lambda error: unread(error, root)):
        here = Path(folder)
        links = {name for name in folders if os.path.islink(here / name)}  # noqa: PTH114 - Path's raises before 3.12
        for name in sorted(links):
            linked(shown_name((here / name).relative_to(root).as_posix()))
        folders[:] = [name for name in folders if not name.startswith(".") and name not in links]
        files += [here / name for name in names if not name.startswith(_NOT_READ)]
    yield from sorted(files, key=lambda file: file.relative_to(root).as_posix())


def names_of(file: Path, root: Path, *, alone: bool) -> list[str]:
    """Return the names by which rules may match a file, as they are on the disk.

    With `alone` (a single file was given) every tail of its full path, shortest first; else the path below `root`.
    """
    if not alone:
        return [file.relative_to(root).as_posix()]
    parts = file.absolute().parts[1:]
    return ["/".join(parts[-length:]) for length in range(1, len(parts) + 1)]


class Assignment(NamedTuple):
    """A source that takes a file, the rule that matched, and the shown path that it matched."""

    source_id: str
    rule: DocumentRule | None
    path: str


def assign(paths: Sequence[str], specs: Sequence[SourceSpec]) -> list[Assignment]:
    """Return the sources that include a file, each with its first matching rule.

    A rule marked `otherwise` applies only if no other rule of any source includes the file.

    Args:
        paths: the names of the file, tried in order (see `names_of`). A glob may match a name as it is or as shown.
    """
    return _taken(paths, specs, otherwise=False) or _taken(paths, specs, otherwise=True)


def _taken(paths: Sequence[str], specs: Sequence[SourceSpec], *, otherwise: bool) -> list[Assignment]:
    assignments = (
        next(
            (
                Assignment(spec.id, rule, shown_name(path))
                for rule in spec.documents
                if rule.otherwise is otherwise
                for path in paths
                if matches(path, rule.include) or matches(shown_name(path), rule.include)
            ),
            None,
        )
        for spec in specs
    )
    return [assignment for assignment in assignments if assignment is not None]


def matches(path: str, glob: str) -> bool:
    """Return whether a relative path matches a glob: `*` and `?` stay inside a folder, `**/` is any number of folders.

    The composed and decomposed forms of a letter match each other.

    >>> matches("npa/sops/a.md", "npa/**/*.md"), matches("npa/sops/a.md", "npa/*.md")
    (True, False)
    """
    return _pattern(glob.removeprefix("./")).fullmatch(unicodedata.normalize("NFC", path)) is not None


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    signs = {"**/": r"(?:[^/]+/)*", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", unicodedata.normalize("NFC", glob))
    return re.compile("".join(signs.get(part) or re.escape(part) for part in parts), re.DOTALL)


_FILE: Final = "folders.json"
_FORM: Final = 1
_MOST: Final = 100


class IngestedFolders:
    """The folders ingested into each source of a base, the latest first; an unreadable file counts as empty.

    They are kept in a file of the base, because chunks, tags and answers hold only a document's path below the ingested
    folder: where that folder is on this machine is private.
    """

    def __init__(self, base: Path) -> None:
        self._path = base / _FILE

    def add(self, source_ids: Iterable[str], ingested: Path) -> None:
        """Remember that a folder, or a single file, was ingested into sources.

        Raises:
            OSError: the file cannot be written.
        """
        folders = dict(self._by_source())
        place = str(ingested.absolute())
        for source_id in source_ids:
            folders[source_id] = [place, *(known for known in folders.get(source_id, ()) if known != place)][:_MOST]
        self._write(folders)

    def forget(self, source_ids: Collection[str]) -> None:
        """Forget the folders of sources.

        Raises:
            OSError: the file cannot be written.
        """
        known = self._by_source()
        if not known.keys().isdisjoint(source_ids):
            self._write({source_id: places for source_id, places in known.items() if source_id not in source_ids})

    def _write(self, folders: Mapping[str, Sequence[str]]) -> None:
        replace_file(self._path, json.dumps({"form": _FORM, "sources": folders}).encode())

    def of(self, source_id: str) -> list[Path]:
        """Return the folders and files that were ingested into a source, the latest first."""
        return [Path(folder) for folder in self._by_source().get(source_id, ())]

    def file(self, source_id: str, path: str) -> Path | None:
        """Return the file of a document; None if it no longer exists.

        Args:
            path: of the document, relative to the ingested folder.
        """
        for place in self.of(source_id):
            if place.is_dir():
                file = place / os.fsdecode(original_name(path))
                if file.is_relative_to(place) and ".." not in file.parts and file.is_file():
                    return file
            elif place.is_file() and f"/{shown_name(place.as_posix())}".endswith(f"/{path}"):
                return place
        return None

    def _by_source(self) -> Mapping[str, Sequence[str]]:
        try:
            folders = json.loads(self._path.read_text("utf-8"))
            return dict(folders["sources"]) if folders["form"] == _FORM else {}
        except (OSError, ValueError, TypeError, KeyError):
            return {}
