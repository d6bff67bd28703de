"""An Office file's parts and relationships (ECMA-376 Part 2, 9)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from zipfile import ZipFile

from context_engine.ingest.header import moment
from context_engine.ingest.loaders.archive import XmlParts

REL: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MC: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
ALTERNATIVES: Final = f"{_MC}AlternateContent"
_CORE: Final = {
    "title": "{http://purl.org/dc/elements/1.1/}title",
    "author": "{http://purl.org/dc/elements/1.1/}creator",
    "version": "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}version",
    "created": "{http://purl.org/dc/terms/}created",
    "modified": "{http://purl.org/dc/terms/}modified",
}
_MOMENTS: Final = ("created", "modified")
A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_PAGE: Final = re.compile(
    r"(?i)(?:\W|\d|_|\b(?:page|seite|blatt|pagina|página|pág|p|s|of|von|de|di|sur|van|[ivx]{1,5})\b|[第页頁共])*"
)
PALE: Final = re.compile(r"(?i)(?:f[0-9a-f]){3}")
"""A colour that nobody sees on white."""


class Relation(NamedTuple):
    """A part's reference: `kind` is the last word of its type, `target` the name of a part or an external address."""

    kind: str
    target: str
    outside: bool


class OoxmlPackage:
    """A DOCX or PPTX, read part by part; a missing or damaged part does not affect the others.

    Args:
        main: the main part, unless the package names another.
        kind: the feature, for the error if lxml is not installed.

    Raises:
        MissingExtra: lxml is not installed.
    """

    def __init__(self, archive: ZipFile, main: str, kind: str) -> None:
        self.parts = XmlParts(archive, kind)
        self._relations: dict[str, Mapping[str, Relation]] = {}
        self._shared: dict[str, Any] = {}
        self.main = next((name for name in self._targets("", "officeDocument") if name in self.parts), main)

    @property
    def has_objects(self) -> bool:
        folder = self.main.rpartition("/")[0]
        return any(self.parts.names(f"{folder}/{name}/") for name in ("media", "charts", "diagrams", "embeddings"))

    def shared_root(self, part: str) -> Any | None:
        """Return the root of a part that many others refer to, such as the layout of slides; it is read once."""
        if part not in self._shared:
            self._shared[part] = self.parts.root(part)
        return self._shared[part]

    def relations(self, part: str) -> Mapping[str, Relation]:
        """Return a part's references by id; "" is the package itself."""
        if part not in self._relations:
            self._relations[part] = self._read_relations(part)
        return self._relations[part]

    def related(self, part: str, kind: str) -> list[str]:
        """Return the existing parts of a kind that a part refers to; missing ones are reported."""
        targets = self._targets(part, kind)
        missing = [name for name in targets if name not in self.parts]
        for name in missing:
            self._report(f"{name} is missing")
        return [name for name in targets if name in self.parts]

    def root(self, part: str, kind: str) -> Any | None:
        """Return the root of the first part of a kind that a part refers to, else of the part with that name."""
        targets = self.related(part, kind)
        name = targets[0] if targets else posixpath.join(posixpath.dirname(part), f"{kind}.xml")
        return self.parts.root(name) if name in self.parts else None

    def core_properties(self) -> dict[str, Any]:
        """Return title, author, version, created and modified; the first value of each."""
        names = [*self._targets("", "core-properties"), "docProps/core.xml"]
        root = next((self.parts.root(name) for name in names if name in self.parts), None)
        texts = {} if root is None else {name: (root.findtext(f".//{tag}") or "") for name, tag in _CORE.items()}
        return {name: moment(text) if name in _MOMENTS else text for name, text in texts.items()}

    def custom_properties(self) -> list[tuple[str, str]]:
        """Return the user-defined properties as (name, value)."""
        names = [name for name in self._targets("", "custom-properties") if name in self.parts]
        root = self.parts.root(names[0]) if names else None
        return (
            []
            if root is None
            else [(element.get("name") or "", "".join(element.itertext()).strip()) for element in root]
        )

    def _targets(self, part: str, kind: str) -> list[str]:
        return [
            relation.target
            for relation in self.relations(part).values()
            if relation.kind == kind and not relation.outside
        ]

    def _read_relations(self, part: str) -> dict[str, Relation]:
        folder, name = posixpath.split(part)
        file = posixpath.join(folder, "_rels", f"{name}.rels")
        root = self.parts.root(file) if file in self.parts else None
        out: dict[str, Relation] = {}
        for relation in root if root is not None else ():
            target = unquote(relation.get("Target") or "").replace("\\", "/")
            outside = relation.get("TargetMode") == "External"
            path = target if outside else posixpath.normpath(posixpath.join(f"/{folder}", target)).lstrip("/")
            kind = (relation.get("Type") or "").rstrip("/").rsplit("/", 1)[-1]
            out.setdefault(relation.get("Id") or f"?{len(out)}", Relation(kind, path, outside))
        return out

    def _report(self, problem: str) -> None:
        if problem not in self.parts.problems:
            self.parts.problems.append(problem)


def chosen(element: Any) -> Any:
    """Return the first variant of an `mc:AlternateContent` that holds text, else the first; the others repeat it."""
    variants = [variant for variant in element if variant.tag in (f"{_MC}Choice", f"{_MC}Fallback")]
    with_text = (variant for variant in variants if any((text.text or "").strip() for text in variant.iter("{*}t")))
    return next(with_text, variants[0] if variants else element)


def is_page_number(text: str) -> bool:
    """Whether a page header or footer holds only the page number.

    >>> is_page_number("Page 3 of 10"), is_page_number("Facility letter 7")
    (True, False)
    """
    return _PAGE.fullmatch(text) is not None
