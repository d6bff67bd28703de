"""Presentations: `.pptx`. The number of a slide is its page.

Read, slide by slide: the title as a heading, text boxes and shapes (grouped ones too), lists with their levels, tables
as pipe tables, charts and diagrams, comments, and the speaker's notes; a footer common to all slides once. Fields:
core properties a person wrote. Reported, not read: hidden slides, embedded files, damaged or missing parts. Not read:
the text of layouts and masters, slide numbers, pictures, sounds, animations, link targets. Refused: macros (`.pptm`, or
a macro part inside), passwords, zip bombs, XML with a document type.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Final
from zipfile import ZipFile

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.header import header_fields, real_properties
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice, without_text
from context_engine.ingest.loaders.archive import in_archive
from context_engine.ingest.loaders.docx_file import damaged
from context_engine.ingest.loaders.markdown import (
    CONTINUED,
    MarkdownBlock,
    heading,
    joined,
    one_line,
    pipe_table,
    plain,
)
from context_engine.ingest.loaders.ooxml import ALTERNATIVES, REL, A, OoxmlPackage, chosen, drawn_text
from context_engine.ingest.loaders.run_marks import marked, written
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 1 << 30
_EMBEDDED: Final = ("package", "oleObject")
P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_C: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"
_CX: Final = "{http://schemas.microsoft.com/office/drawing/2014/chartex}chart"
_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
_MATH: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_TITLES: Final = ("title", "ctrTitle")
_LISTS: Final = ("body", "obj", "")  # placeholders whose paragraphs are list items; "" is one without a type
_FEET: Final = ("ftr", "dt", "hdr")
_NO_TEXT: Final = ("sldNum", "sldImg")
_MOST_DEPTH: Final = 8


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
        title = read_slide(root, package, part, number, set())[0].text.lstrip("# ")
        unread.append(
            file_notice(NoticeCode.HIDDEN_LEFT_OUT, f"slide {number} is hidden and left out: {title}", count=1)
        )
        return ""
    blocks = read_slide(root, package, part, number, seen)
    blocks += comments_of(package, part)
    embedded = [posixpath.basename(target) for kind in _EMBEDDED for target in package.related(part, kind)]
    if embedded:
        left = f"slide {number}: embedded files are not read: {', '.join(embedded)}"
        unread.append(file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=embedded))
    return joined(blocks) if len(blocks) > 1 or not blocks[0].text.startswith(f"## Slide {number}") else ""


def read_slide(root: Any, package: OoxmlPackage, part: str, number: int, seen: set[str]) -> list[MarkdownBlock]:
    """Return a slide's blocks, first its title, or its number if it has none.

    Args:
        root: the element `p:sld`.
        number: 1-based.
    """
    slide = _Slide(package, part, seen)
    body = list(slide.blocks(root.find(f"{P}cSld/{P}spTree")))
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

    def blocks(self, tree: Any | None) -> Iterator[MarkdownBlock]:
        """Yield the text of the shapes in a tree, group by group."""
        for shape in () if tree is None else tree:
            if shape.tag == ALTERNATIVES:
                yield from self.blocks(chosen(shape))
            elif shape.tag == f"{P}sp":
                yield from self._shape(shape)
            elif shape.tag == f"{P}graphicFrame":
                yield from self._frame(shape)
            elif shape.tag in (f"{P}grpSp", f"{P}cxnSp", f"{P}oleObj"):
                yield from self.blocks(shape)

    def _shape(self, shape: Any) -> Iterator[MarkdownBlock]:
        place = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
        kind = None if place is None else place.get("type") or ""
        body = shape.find(f"{P}txBody")
        if body is None or kind in _NO_TEXT:
            return
        if kind in _TITLES:
            self.is_cover |= kind == "ctrTitle"
            self.titles += [text for _, text in _paragraphs(body)]
            return
        for level, text in _paragraphs(body):
            if kind in _FEET:
                if text in self._seen:
                    continue
                self._seen.add(text)
            yield MarkdownBlock(f"{'  ' * level}- {text}", item=True) if kind in _LISTS else MarkdownBlock(plain(text))

    def _frame(self, frame: Any) -> Iterator[MarkdownBlock]:
        for table in frame.iter(f"{A}tbl"):
            rows = [[_cell_text(cell) for cell in row.iterfind(f"{A}tc")] for row in table.iterfind(f"{A}tr")]
            block = pipe_table(rows)
            yield from [block] if block else []
        for element in frame.iter(_C, _CX):
            yield from drawn_text(self._package, self._part, element.get(f"{REL}id") or "")
        for element in frame.iter(_DGM):
            yield from drawn_text(self._package, self._part, element.get(f"{REL}dm") or "")


def _notes(package: OoxmlPackage, part: str) -> Iterator[MarkdownBlock]:
    for name in package.related(part, "notesSlide"):
        root = package.parts.root(name)
        tree = None if root is None else root.find(f"{P}cSld/{P}spTree")
        shapes = _Slide(package, name, set())
        text = " ".join(block.text.strip().removeprefix("- ") for block in shapes.blocks(tree))
        if text:
            yield MarkdownBlock(f"Notes: {text}")


def _paragraphs(body: Any) -> Iterator[tuple[int, str]]:
    """Yield (level, text) of each paragraph with text."""
    for paragraph in body.iterfind(f"{A}p"):
        text = one_line(written("".join(_texts(paragraph))))
        level = (paragraph.find(f"{A}pPr") if paragraph.find(f"{A}pPr") is not None else paragraph).get("lvl") or "0"
        if text:
            yield min(int(level), _MOST_DEPTH) if level.isdecimal() else 0, text


def _texts(paragraph: Any) -> Iterator[str]:
    for child in paragraph:
        if child.tag == ALTERNATIVES:
            yield from _texts(chosen(child))
        elif child.tag == f"{A}br":
            yield " "
        elif child.tag == f"{A}fld" and child.get("type") == "slidenum":
            continue
        else:
            yield from (_run(element) for element in child.iter(f"{A}t", _MATH))


def _run(element: Any) -> str:
    properties = element.getparent().find(f"{A}rPr")
    if properties is None:
        return element.text or ""
    height = properties.get("baseline") or "0"
    return marked(
        element.text or "",
        struck=properties.get("strike", "noStrike") != "noStrike",
        raised=height[0] not in "-0",
        lowered=height[0] == "-",
    )


def _cell_text(cell: Any) -> str:
    if cell.get("hMerge") in ("1", "true"):
        return CONTINUED
    return " ".join(text for body in cell.iterfind(f"{A}txBody") for _, text in _paragraphs(body))
