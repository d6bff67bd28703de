"""Presentations: `.pptx`. The number of a slide is its page.

Read, slide by slide: the title as a heading, text boxes and shapes (grouped ones too) by their place on the slide,
lists with their levels, links with their targets, tables as pipe tables, equations, charts and diagrams, comments, and
the speaker's notes; a footer common to all slides once. Fields: core properties a person wrote. Reported, not read:
hidden slides, text that nobody sees (see `pptx_hidden`), embedded files, damaged or missing parts. Not read: the text
of layouts and masters, slide numbers, pictures, sounds, animations. Refused: macros (`.pptm`, or a macro part inside),
passwords, zip bombs, XML with a document type.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, starmap
from typing import Any, Final
from zipfile import ZipFile

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.header import header_fields, real_properties
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice, quoted, without_text
from context_engine.ingest.loaders.archive import in_archive
from context_engine.ingest.loaders.charts import drawn_text
from context_engine.ingest.loaders.docx_file import damaged
from context_engine.ingest.loaders.markdown import (
    CONTINUED,
    MarkdownBlock,
    heading,
    joined,
    linked,
    one_line,
    pipe_table,
    plain,
    unlinked,
)
from context_engine.ingest.loaders.office_math import M, equation_text
from context_engine.ingest.loaders.ooxml import ALTERNATIVES, REL, A, OoxmlPackage, chosen
from context_engine.ingest.loaders.pdf_digits import Box
from context_engine.ingest.loaders.pdf_order import order_of_boxes
from context_engine.ingest.loaders.pptx_hidden import P, SlideVisibility, box_of
from context_engine.ingest.loaders.run_marks import marked, written
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 1 << 30
_EMBEDDED: Final = ("package", "oleObject")
_C: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"
_CX: Final = "{http://schemas.microsoft.com/office/drawing/2014/chartex}chart"
_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
_TITLES: Final = ("title", "ctrTitle")
_LISTS: Final = ("body", "obj", "")  # placeholders whose paragraphs are list items; "" is one without a type
_FEET: Final = ("ftr", "dt", "hdr")
_NO_TEXT: Final = ("sldNum", "sldImg")
_MOST_DEPTH: Final = 8
_MOST_PLACED: Final = 300  # shapes that are put in order
_PLACED: Final = tuple(f"{P}{name}" for name in ("sp", "graphicFrame", "grpSp", "cxnSp"))


def load_pptx(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a presentation."""

    def read(archive: ZipFile) -> LoadedDocument | Skipped:
        return _loaded(OoxmlPackage(archive, "ppt/presentation.xml", "reading .pptx files"), file.name)

    return in_archive(file, "PPTX", _MOST_UNPACKED, read)


def _loaded(package: OoxmlPackage, name: str) -> LoadedDocument | Skipped:
    texts: list[str] = []
    pages: list[tuple[int, int]] = []
    unread: list[Notice] = []
    seen: set[str] = set()  # footers and dates that are on every slide
    length = 0
    for number, part in enumerate(_slides(package), 1):
        text = _slide(package, part, number, seen, unread)
        if text:
            pages.append((length, number))
            texts.append(text)
            length += len(text) + 2
    fields = real_properties(package.core_properties())
    notices = (*damaged(package.parts.problems), *unread)
    if not texts:
        return without_text(name, notices, pictures=package.has_objects)
    markdown = "\n\n".join(texts)
    return LoadedDocument(
        path=name,
        text=markdown,
        fields=fields,
        header=header_fields(markdown),
        pages=tuple(pages),
        notices=notices,
        properties=True,
    )


def _slides(package: OoxmlPackage) -> Sequence[str]:
    """Return the slides listed by the presentation, in order; all slides if it lists none."""
    root = package.parts.root(package.main)
    listed = [] if root is None else [slide.get(f"{REL}id") or "" for slide in root.iter(f"{P}sldId")]
    relations = package.relations(package.main)
    parts = [relations[relation].target for relation in listed if relation in relations]
    missing = [part for part in parts if part not in package.parts]
    package.parts.problems += [f"{part} is missing" for part in missing]
    return parts or [part for part in package.parts.names("ppt/slides/") if part.endswith(".xml")]


def _slide(package: OoxmlPackage, part: str, number: int, seen: set[str], unread: list[Notice]) -> str:
    root = package.parts.root(part) if part in package.parts else None
    if root is None:
        return ""
    if root.get("show") in ("0", "false"):
        title = read_slide(root, package, part, number, set(), [])[0].text.lstrip("# ")
        unread.append(
            file_notice(NoticeCode.HIDDEN_LEFT_OUT, f"slide {number} is hidden and left out: {title}", count=1)
        )
        return ""
    unseen: list[str] = []
    blocks = read_slide(root, package, part, number, seen, unseen)
    if words := [text for text in unseen if text]:
        left = f"slide {number}: text that nobody sees is left out: {quoted(words)}"
        unread.append(file_notice(NoticeCode.HIDDEN_LEFT_OUT, left, count=len(words)))
    blocks += comments_of(package, part)
    embedded = [posixpath.basename(target) for kind in _EMBEDDED for target in package.related(part, kind)]
    if embedded:
        left = f"slide {number}: embedded files are not read: {', '.join(embedded)}"
        unread.append(file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=embedded))
    return joined(blocks) if len(blocks) > 1 or blocks[0].text != f"## Slide {number}" else ""


def read_slide(
    root: Any, package: OoxmlPackage, part: str, number: int, seen: set[str], unseen: list[str]
) -> list[MarkdownBlock]:
    """Return a slide's blocks, first its title, or its number if it has none.

    Args:
        root: the element `p:sld`.
        number: 1-based.
        seen: texts of footers and dates, which are read once.
        unseen: takes the text that nobody sees: tiny, or beside the slide.
    """
    slide = _Slide(package, part, seen)
    body = list(slide.blocks(root.find(f"{P}cSld/{P}spTree")))
    unseen += slide.unseen
    title = one_line(" ".join(slide.titles)) or f"Slide {number}"
    notes = list(_notes(package, part))
    return [heading(1 if slide.is_cover and number == 1 else 2, title), *body, *notes]


def comments_of(package: OoxmlPackage, part: str) -> list[MarkdownBlock]:
    out = []
    for name in package.related(part, "comments"):
        root = package.parts.root(name)
        for element in () if root is None else root.iter(f"{P}text", f"{A}t"):
            text = one_line(element.text or "")
            out += [MarkdownBlock(f"[Comment: {text}]")] if text else []
    return out


class _Slide:
    def __init__(self, package: OoxmlPackage, part: str, seen: set[str]) -> None:
        self._package = package
        self._part = part
        self._seen = seen
        self.titles: list[str] = []
        self.is_cover = False
        self._visibility = SlideVisibility(package, part)

    @property
    def unseen(self) -> list[str]:
        return self._visibility.unseen

    def blocks(self, tree: Any | None) -> Iterator[MarkdownBlock]:
        """Yield the text of the shapes in a tree, group by group."""
        for shape in () if tree is None else self._by_place(self._visibility.on_slide(tree)):
            if shape.tag == ALTERNATIVES:
                yield from self.blocks(chosen(shape))
            elif shape.tag == f"{P}sp":
                yield from self._shape(shape)
            elif shape.tag == f"{P}graphicFrame":
                yield from self._frame(shape)
            elif shape.tag in (f"{P}grpSp", f"{P}cxnSp", f"{P}oleObj"):
                yield from self.blocks(shape)

    def _by_place(self, shapes: list[Any]) -> list[Any]:
        """Return shapes as a reader goes through them; in the order of the file if they overlap or have no place."""
        placed = [shape for shape in shapes if shape.tag in _PLACED and next(shape.iter(f"{A}t"), None) is not None]
        placed = [shape for shape in placed if _placeholder(shape)[0] not in _TITLES]
        if len(placed) < 2:
            return shapes
        boxes = [self._box(shape) for shape in placed]
        known = [box for box in boxes if box]
        if len(known) < len(boxes) or len(boxes) > _MOST_PLACED or any(starmap(_overlap, combinations(known, 2))):
            return shapes
        others = [shape for shape in shapes if shape not in placed]
        return [*others, *(placed[number] for number in order_of_boxes(known))]

    def _box(self, shape: Any) -> Box | None:
        own = box_of(shape)
        return own or self._inherited.get(_placeholder(shape))

    @cached_property
    def _inherited(self) -> dict[tuple[str | None, str], Box]:
        """The places of placeholders that the slide takes from its layout, by kind and index."""
        out: dict[tuple[str | None, str], Box] = {}
        for part in self._package.related(self._part, "slideLayout"):
            root = self._package.shared_root(part)
            for shape in () if root is None else root.iter(f"{P}sp"):
                box = box_of(shape)
                out |= {_placeholder(shape): box} if box else {}
        return out

    def _target(self, run: Any) -> str:
        link = run.find(f"{A}rPr/{A}hlinkClick")
        relation = None if link is None else self._package.relations(self._part).get(link.get(f"{REL}id") or "")
        return relation.target if relation and relation.outside else ""

    def _shape(self, shape: Any) -> Iterator[MarkdownBlock]:
        kind, _ = _placeholder(shape)
        body = shape.find(f"{P}txBody")
        if body is None or kind in _NO_TEXT:
            return
        if kind in _TITLES:
            self.is_cover |= kind == "ctrTitle"
            self.titles += [unlinked(text) for _, text in self._paragraphs(body)]
            return
        for level, text in self._paragraphs(body):
            if kind in _FEET:
                if text in self._seen:
                    continue
                self._seen.add(text)
            yield MarkdownBlock(f"{'  ' * level}- {text}", item=True) if kind in _LISTS else MarkdownBlock(plain(text))

    def _frame(self, frame: Any) -> Iterator[MarkdownBlock]:
        for table in frame.iter(f"{A}tbl"):
            rows = [[self._cell_text(cell) for cell in row.iterfind(f"{A}tc")] for row in table.iterfind(f"{A}tr")]
            block = pipe_table(rows)
            yield from [block] if block else []
        for element in frame.iter(_C, _CX):
            yield from drawn_text(self._package, self._part, element.get(f"{REL}id") or "")
        for element in frame.iter(_DGM):
            yield from drawn_text(self._package, self._part, element.get(f"{REL}dm") or "")

    def _paragraphs(self, body: Any) -> Iterator[tuple[int, str]]:
        """Yield (level, text) of each paragraph with text."""
        for paragraph in body.iterfind(f"{A}p"):
            text = one_line(written("".join(self._texts(paragraph))))
            properties = paragraph.find(f"{A}pPr")
            level = "0" if properties is None else properties.get("lvl") or "0"
            if text:
                yield min(int(level), _MOST_DEPTH) if level.isdecimal() else 0, text

    def _texts(self, paragraph: Any) -> Iterator[str]:
        for child in paragraph:
            if child.tag == ALTERNATIVES:
                yield from self._texts(chosen(child))
            elif child.tag == f"{A}br":
                yield " "
            elif child.tag == f"{A}fld" and child.get("type") == "slidenum":
                continue
            else:
                yield from map(self._run, child.iter(f"{A}t"))
                yield from map(equation_text, child.iter(f"{M}oMath"))

    def _run(self, element: Any) -> str:
        run = element.getparent()
        properties = run.find(f"{A}rPr")
        if properties is None:
            return element.text or ""
        if self._visibility.hides(run):
            return ""
        height = properties.get("baseline") or "0"
        text = marked(
            element.text or "",
            struck=properties.get("strike", "noStrike") != "noStrike",
            raised=height[0] not in "-0",
            lowered=height[0] == "-",
        )
        return linked(text, self._target(run))

    def _cell_text(self, cell: Any) -> str:
        if cell.get("hMerge") in ("1", "true"):
            return CONTINUED
        return " ".join(text for body in cell.iterfind(f"{A}txBody") for _, text in self._paragraphs(body))


def _notes(package: OoxmlPackage, part: str) -> Iterator[MarkdownBlock]:
    for name in package.related(part, "notesSlide"):
        root = package.parts.root(name)
        tree = None if root is None else root.find(f"{P}cSld/{P}spTree")
        shapes = _Slide(package, name, set())
        text = " ".join(block.text.strip().removeprefix("- ") for block in shapes.blocks(tree))
        if text:
            yield MarkdownBlock(f"Notes: {text}")


def _placeholder(shape: Any) -> tuple[str | None, str]:
    """Return the kind and index of a placeholder; (None, "") for another shape."""
    names = next(shape.iterchildren(f"{P}nvSpPr"), None)
    place = None if names is None else next(names.iterdescendants(f"{P}ph"), None)
    return (None, "") if place is None else (place.get("type") or "", place.get("idx") or "")


def _overlap(first: Box, second: Box) -> bool:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return width > 0 and height > 0 and width * height > smaller / 2
