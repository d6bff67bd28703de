"""The parts of a workbook other than its rows: list of sheets, shared texts, number formats, comments, drawings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar
from xml.etree.ElementTree import Element, ParseError
from xml.parsers.expat import ExpatError
from zipfile import ZipFile

from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.ooxml import PALE, is_page_number
from context_engine.ingest.loaders.run_marks import marked, written
from context_engine.ingest.loaders.xlsx_values import (
    Format,
    Handlers,
    built_in,
    format_of,
    height,
    is_on,
    known,
    local,
    parse,
    tree,
)

_MOST_PART: Final = 16 << 20
_MOST_TEXTS: Final = 2_000_000
_MOST_CHARS: Final = 64 << 20
_MOST_COMMENTS: Final = 100_000
_HEADER_CODE: Final = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|K\d\d[+-]\d{3}|\d+|[A-Z])|&&')
_NOTHING: Final = re.compile(r"\s*;\s*;\s*;\s*")  # a number format that shows no number and no text
_TINY: Final = 1.5  # points
_EMBEDDED: Final = "xl/embeddings"
T = TypeVar("T")
_TABLE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")


class TooManyTexts(ValueError):
    """The shared texts exceed the memory limit."""


class SheetPart(NamedTuple):
    """A sheet of the workbook."""

    title: str
    path: str
    hidden: bool
    worksheet: bool


class Book:
    """Reads the parts of an open workbook; a missing or broken part counts as empty, except the workbook's own.

    Attributes:
        texts: the shared texts, as far as they were read.
    """

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        for entry in archive.infolist():  # some programs write xl\\workbook.xml
            archive.NameToInfo.setdefault(entry.filename.replace("\\", "/"), entry)
        self._names = {name.lower(): name for name in archive.NameToInfo}
        roots = self._targets("", "officeDocument")
        self._path = next((path for path in roots if path in self._names.values()), "") or "xl/workbook.xml"
        self._root = tree(archive.read(self._path))
        self.texts: list[str] = []

    @property
    def embedded(self) -> list[str]:
        """The names of the files that are embedded in the sheets."""
        return [posixpath.basename(name) for path, name in self._names.items() if posixpath.dirname(path) == _EMBEDDED]

    @property
    def from_1904(self) -> bool:
        """Whether days are counted from 1904."""
        return any(element.get("date1904") in ("1", "true") for element in self._root if local(element) == "workbookPr")

    def sheets(self) -> list[SheetPart]:
        """Return the sheets in their order."""
        targets = {key: (path, kind) for key, path, kind in self._relations(self._path)}
        sheets = []
        for element in self._root.iter():
            if local(element) != "sheet":
                continue
            key = next((value for name, value in element.attrib.items() if name.endswith("}id") or name == "id"), "")
            if not key:  # Excel keeps the names of modules that it removes on saving without macros
                continue
            path, kind = targets.get(key, ("", ""))
            worksheet = kind in ("worksheet", "") and "chartsheet" not in path
            hidden = element.get("state", "visible") != "visible"
            sheets.append(SheetPart(one_line(element.get("name", "")), path, hidden, worksheet))
        return sheets

    def shared_texts(self) -> list[str]:
        """Read the shared texts into `texts` and return it.

        Raises:
            ExpatError: the XML is broken; `texts` holds what precedes the error.
            TooManyTexts: they exceed the memory limit.
        """
        path = self._part("sharedStrings")
        texts = self.texts
        chars: list[str] = []
        parts: list[str] = []
        run: dict[str, bool] = {}  # how the current run is written: arguments of `marked`
        size, reading = 0, True

        def phonetic(reads: bool) -> None:
            nonlocal reading
            reading = reads

        def text() -> None:
            if reading:
                parts.append(marked("".join(chars), **run))

        def item() -> None:
            nonlocal size
            texts.append(written("".join(parts)))
            parts.clear()
            run.clear()
            size += len(texts[-1])
            if size > _MOST_CHARS or len(texts) > _MOST_TEXTS:
                raise TooManyTexts

        starts = Handlers(
            t=lambda _: chars.clear(),
            rPh=lambda _: phonetic(False),
            r=lambda _: run.clear(),
            strike=lambda attributes: run.update(struck=is_on(attributes)),
            vertAlign=lambda attributes: run.update(height(attributes)),
        )
        ends = Handlers(t=text, si=item, rPh=lambda: phonetic(True))
        if path:
            with self._archive.open(path) as source:
                for _ in parse(source, starts, ends, chars):
                    if sum(map(len, chars)) + sum(map(len, parts)) > _MOST_CHARS:
                        raise TooManyTexts
        return texts

    def formats(self) -> list[Format]:
        """Return the format of each cell style."""
        path = self._part("styles")
        root = self._tree(path)
        if root is None:
            return []
        codes: dict[str, str] = {}
        formats: list[Format] = []
        fonts: list[Format] = []
        filled: list[bool] = []
        for group in root:
            if local(group) == "numFmts":
                codes = {element.get("numFmtId", ""): element.get("formatCode", "") for element in group}
            elif local(group) == "fonts":
                fonts = [_of_font(font) for font in group]
            elif local(group) == "fills":
                filled = [_is_filled(fill) for fill in group]
            elif local(group) == "cellXfs":
                for element in group:
                    number, font = element.get("numFmtId", "0"), element.get("fontId", "")
                    own = format_of(codes[number]) if number in codes else None
                    form = known(own) if own else built_in(int(number) if number.isdecimal() else 0)
                    look, on_fill = _at(fonts, font) or Format(), _at(filled, element.get("fillId", ""))
                    unseen = look.unseen or _NOTHING.fullmatch(codes.get(number, "")) is not None
                    if look.struck or unseen or look.pale:
                        form = form._replace(struck=look.struck, unseen=unseen, pale=look.pale and not on_fill)
                    formats.append(form)
        return formats

    def comments(self, sheet: str) -> dict[str, str]:
        """Return the comments of a sheet by cell, without the old-form copies of threads."""
        threads: dict[str, list[str]] = {}
        for path in self._targets(sheet, "threadedComment"):
            for thread in self._elements(path, "threadedComment"):
                text = " ".join(_texts(thread, "text"))
                threads.setdefault(thread.get("ref", ""), []).append(text)
        comments = {ref: " / ".join(texts) for ref, texts in threads.items()}
        for path in self._targets(sheet, "comments"):
            for thread in self._elements(path, "comment"):
                ref = thread.get("ref", "")
                if ref not in threads and len(comments) < _MOST_COMMENTS:
                    comments[ref] = one_line("".join(_texts(thread, "t")))
        return {ref: text for ref, text in comments.items() if text}

    def drawn(self, sheet: str) -> Iterator[str]:
        """Yield the texts of a sheet's text boxes, shapes, diagrams and charts."""
        for drawing in self._targets(sheet, "drawing"):
            yield from self._paragraphs(drawing)
            for _, path, kind in self._relations(drawing):
                if kind in ("chart", "chartEx", "diagramData"):
                    boxes = self._targets(path, "chartUserShapes")
                    lines = " – ".join(text for part in (path, *boxes) for text in self._paragraphs(part))
                    if lines:
                        yield f"Chart: {lines}" if kind != "diagramData" else lines

    def heads(self, sheet: str) -> frozenset[int]:
        """Return the header rows of a sheet's defined tables."""
        rows = set()
        for path in self._targets(sheet, "table"):
            root = self._tree(path)
            match = _TABLE.match(root.get("ref", "")) if root is not None else None
            if match and root is not None and root.get("headerRowCount", "1") != "0":
                rows.add(int(match[2]))
        return frozenset(rows)

    def links(self, sheet: str, relations: Mapping[str, str]) -> dict[str, str]:
        """Return the targets outside the file, given relation ids by cell."""
        if not relations:
            return {}
        folder, name = posixpath.split(sheet)
        root = self._tree(posixpath.join(folder, "_rels", f"{name}.rels"))
        outside = (element for element in (() if root is None else root) if element.get("TargetMode") == "External")
        targets = {element.get("Id", ""): element.get("Target", "") for element in outside}
        return {cell: targets[key] for cell, key in relations.items() if key in targets}

    def _paragraphs(self, path: str) -> Iterator[str]:
        for paragraph in self._elements(path, "p"):
            text = one_line("".join(_texts(paragraph, "t")))
            if text:
                yield text

    def _elements(self, path: str, name: str) -> Iterator[Element]:
        root = self._tree(path)
        if root is not None:
            yield from (element for element in root.iter() if local(element) == name)

    def _tree(self, path: str) -> Element | None:
        name = self._names.get(path.lower())
        if name is None or self._archive.getinfo(name).file_size > _MOST_PART:
            return None
        try:
            return tree(self._archive.read(name))
        except (ParseError, ExpatError):
            return None

    def _part(self, kind: str) -> str:
        """Return the path of a part of the workbook, even if no relation names it; "" if there is none."""
        named = self._targets(self._path, kind)
        return named[0] if named else self._names.get(f"xl/{kind}.xml".lower(), "")

    def _targets(self, part: str, kind: str) -> list[str]:
        return [path for _, path, kind_of_part in self._relations(part) if kind_of_part == kind]

    def _relations(self, part: str) -> list[tuple[str, str, str]]:
        """Return a part's references inside the archive as (id, path, kind)."""
        folder, name = posixpath.split(part)
        root = self._tree(posixpath.join(folder, "_rels", f"{name}.rels"))
        relations = []
        for element in root if root is not None else ():
            if element.get("TargetMode") == "External":
                continue
            target = element.get("Target", "").replace("\\", "/")
            path = posixpath.normpath(posixpath.join(folder, target)).lstrip("/")
            real = self._names.get(path.lower())
            if real:
                relations.append((element.get("Id", ""), real, element.get("Type", "").rpartition("/")[2]))
        return relations


def _of_font(font: Element) -> Format:
    """Return how a font shows its text: struck, tiny, white."""
    parts = {local(part): part.attrib for part in font}
    struck = "strike" in parts and is_on(parts["strike"])
    size = parts.get("sz", {}).get("val", "")
    tiny = size.replace(".", "", 1).isdecimal() and float(size) <= _TINY
    colour = parts.get("color", {})
    white = PALE.fullmatch(colour.get("rgb", "")[2:]) is not None or (
        colour.get("theme") == "0" and "tint" not in colour
    )
    return Format(struck=struck, unseen=tiny, pale=white)


def _is_filled(fill: Element) -> bool:
    """Whether a fill gives its cells a background; a gradient does."""
    return any(local(part) == "gradientFill" or part.get("patternType", "none") != "none" for part in fill)


def _at(values: Sequence[T], place: str) -> T | None:
    return values[int(place)] if place.isdecimal() and int(place) < len(values) else None


def header_text(codes: Mapping[str, str]) -> str:
    """Return the words of page headers and footers, without page numbers and the codes for dates and fonts."""
    texts = [one_line(_HEADER_CODE.sub(lambda code: "&" if code[0] == "&&" else " ", text)) for text in codes.values()]
    return "; ".join(dict.fromkeys(text for text in texts if not is_page_number(text)))


def _texts(element: Element, name: str) -> Iterator[str]:
    """Yield the texts of inner elements with a name; pronunciations are left out."""
    for child in element:
        if local(child) == "rPh":
            continue
        if local(child) == name:
            yield child.text or ""
        else:
            yield from _texts(child, name)
