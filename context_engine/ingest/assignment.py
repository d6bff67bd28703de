"""Which files belong to which source."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from context_engine.core.models import DocumentRule, SourceSpec
from context_engine.ingest.file_names import shown_name


class Assignment(NamedTuple):
    """A source that takes a file, by which rule, and the path under which it knows the file, as it is shown."""

    source_id: str
    rule: DocumentRule | None
    path: str


def assign(paths: Sequence[str], specs: Sequence[SourceSpec]) -> list[Assignment]:
    """Return the sources that include a file; within a source the first rule that matches counts.

    A rule marked `otherwise` counts only where no other rule of any of the sources includes the file.

    Args:
        paths: the names the file may go by, the first that matches counts: its path relative to the folder, or, for
            a file given alone, the ends of its full path. A glob may name them as they are or as they are shown.
        specs: the sources.
    """
    return _taken(paths, specs, otherwise=False) or _taken(paths, specs, otherwise=True)


def _taken(paths: Sequence[str], specs: Sequence[SourceSpec], *, otherwise: bool) -> list[Assignment]:
    found = (
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
    return [one for one in found if one is not None]


def matches(path: str, glob: str) -> bool:
    """Return whether a relative path matches a glob: `*` and `?` stay inside a folder, `**/` is any number of folders.

    A letter with an accent matches whether it is written as one character or as two.

    >>> matches("npa/sops/a.md", "npa/**/*.md"), matches("npa/sops/a.md", "npa/*.md")
    (True, False)
    """
    return _pattern(glob.removeprefix("./")).fullmatch(unicodedata.normalize("NFC", path)) is not None


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    signs = {"**/": r"(?:[^/]+/)*", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", unicodedata.normalize("NFC", glob))
    return re.compile("".join(signs.get(part) or re.escape(part) for part in parts), re.DOTALL)
