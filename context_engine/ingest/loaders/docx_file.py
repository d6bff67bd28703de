"""Word documents: `.docx`, as Word and others write them, including Strict Open XML.

Read, in document order: headings by style or outline level, with the numbers Word counts for them; lists and numbered
paragraphs with their labels; tables as pipe tables, merged cells repeated down, a head of several rows as one, a table
in a cell on the cell's line; web pages embedded in the text; text in content controls, form fields, text boxes,
equations, charts and diagrams; footnotes, endnotes and comments below the paragraph that refers to them; page headers
and footers once each, below the title; links with their targets; bold words as `**bold**`, because they mark
definitions, struck ones as `~~struck~~`, raised and lowered ones as in 10⁶ and CO₂; tracked changes as accepted, or as
`tracked_changes` says. Fields: core properties a person wrote; custom properties and the page header only as labels
("Version: 3.2"). Reported, not read: hidden text (also white on white, or tiny), tables of contents, embedded files,
sub-documents, damaged or missing parts. Not read: page headers with only a page number, pictures. Refused: macros
(`.docm`, or a macro part inside), passwords, zip bombs, XML with a document type.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from email import message_from_bytes, policy
from typing import Any, Final
from zipfile import ZipFile

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.header import header_fields, labelled, real_properties
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, contents_left_out, file_notice, without_text
from context_engine.ingest.loaders.archive import in_archive
from context_engine.ingest.loaders.charts import drawn_text
from context_engine.ingest.loaders.docx_body import DocxBody, Styles
from context_engine.ingest.loaders.docx_numbering import Numbering
from context_engine.ingest.loaders.docx_text import Changes, W
from context_engine.ingest.loaders.encoding import Decoded
from context_engine.ingest.loaders.html_file import HtmlPage, decoded_page, page_text
from context_engine.ingest.loaders.markdown import MarkdownBlock, joined, one_line
from context_engine.ingest.loaders.ooxml import REL, OoxmlPackage, is_page_number
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 512 << 20
_NOTES: Final = (("footnotes", "footnote", ""), ("endnotes", "endnote", "e"), ("comments", "comment", "comment "))
_MARGINS: Final = (("header", "Page header"), ("footer", "Page footer"))
_PAGES: Final = frozenset((".htm", ".html", ".xhtml"))
_ARCHIVES: Final = frozenset((".mht", ".mhtml"))
_EMBEDDED: Final = frozenset(("package", "oleObject", "control"))


def load_docx(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Word file."""

    def read(archive: ZipFile) -> LoadedDocument | Skipped:
        return _loaded(OoxmlPackage(archive, "word/document.xml", "reading .docx files"), file)

    return in_archive(file, "DOCX", _MOST_UNPACKED, read)


def _loaded(package: OoxmlPackage, file: SourceFile) -> LoadedDocument | Skipped:
    fields = real_properties(package.core_properties())
    document = DocxDocument(package, file.settings.tracked_changes)
    text = joined(document.blocks())
    labels = [label for line in document.margins for label in labelled(line)]
    labels += [f"{name}: {value}" for name, value in package.custom_properties()]
    notices = document.notices(text)
    if not text.strip():
        return without_text(file.name, notices, pictures=package.has_objects)
    header = {**header_fields("\n".join(labels)), **header_fields(text)}
    if document.title:
        fields["title"] = document.title
    if "version" in header:  # the text's own statement takes precedence over the properties
        fields.pop("version", None)
    return LoadedDocument(path=file.name, text=text, fields=fields, header=header, notices=notices, properties=True)


class DocxDocument:
    """Reads one document once.

    Attributes:
        margins: the lines of page headers and footers.
        title: the paragraph in the style "Title", or ""; set by `blocks`.
    """

    def __init__(self, package: OoxmlPackage, changes: Changes) -> None:
        self._package = package
        self._changes = changes
        self._styles = Styles(package.root(package.main, "styles"))
        self._numbering = package.root(package.main, "numbering")
        self._readers: list[DocxBody] = []
        self._unread: list[Notice] = []
        self.margins: list[str] = []
        self.title = ""

    def blocks(self) -> list[MarkdownBlock]:
        main = self._package.main
        root = self._package.parts.root(main)
        if root is None and not self._package.parts.problems:
            self._package.parts.problems.append(f"{main} is missing")
        if root is None:
            return []
        reader = self._reader(main, self._notes(main))
        body = root.find(f"{W}body")
        out = [*reader.blocks(root if body is None else body), *reader.rest()]
        self.title = reader.title
        if not out and self._package.parts.problems:  # page headers must not be taken for the document
            return []
        margins = [MarkdownBlock(line) for line in self._margins(main)]
        first = 1 if out and out[0].text.startswith("# ") else 0
        return [*out[:first], *margins, *out[first:]]

    def notices(self, text: str) -> tuple[Notice, ...]:
        """Return notices about content that is not in the text."""
        main = self._package.main
        left = [reader.left_out for reader in self._readers]
        hidden = sum(part.hidden for part in left)
        contents = [line for parts in left for line in parts.contents if line]
        symbols = {font: parts.symbols[font] for parts in left for font in parts.symbols}
        embedded = [part for kind in sorted(_EMBEDDED) for part in self._package.related(main, kind)]
        outside = [
            relation.target for relation in self._package.relations(main).values() if relation.kind == "subDocument"
        ]
        return (
            *damaged(self._package.parts.problems),
            *hidden_words(hidden),
            *([contents_left_out(contents, text)] if contents else []),
            *(_symbols(font, count) for font, count in symbols.items()),
            *([_unread("sub-documents are not followed", outside)] if outside else []),
            *([_unread("embedded files are not read", map(posixpath.basename, embedded))] if embedded else []),
            *self._unread,
        )

    def _reader(self, part: str, notes: dict[str, Any]) -> DocxBody:
        reader = DocxBody(
            styles=self._styles,
            numbering=Numbering(self._numbering),
            notes=notes,
            drawn=lambda relation: drawn_text(self._package, part, relation),
            chunk=lambda element: self._chunk(part, element),
            changes=self._changes,
            target=lambda relation: self._target(part, relation),
        )
        self._readers.append(reader)
        return reader

    def _target(self, part: str, name: str) -> str:
        relation = self._package.relations(part).get(name)
        return relation.target if relation and relation.outside else ""

    def _notes(self, main: str) -> dict[str, Any]:
        """Return footnotes, endnotes and comments by name, without the separator lines Word draws above notes."""
        out = {}
        for kind, name, before in _NOTES:
            root = self._package.root(main, kind)
            for note in root.iter(f"{W}{name}") if root is not None else ():
                if note.get(f"{W}type", "normal") == "normal":
                    out[f"{before}{note.get(f'{W}id') or ''}"] = note
        return out

    def _margins(self, main: str) -> Iterator[str]:
        """Yield page headers and footers, each once, without those that hold only a page number."""
        for kind, label in _MARGINS:
            for part in self._package.related(main, kind):
                root = self._package.parts.root(part)
                text = "" if root is None else one_line(_flat(list(self._reader(part, {}).blocks(root))))
                line = f"{label}: {text}"
                if is_page_number(text) or text == self.title or line in self.margins:
                    continue
                self.margins.append(line)
                yield line

    def _chunk(self, part: str, element: Any) -> Sequence[MarkdownBlock]:
        """Return the blocks of a web page that is embedded in the text; report a file of another format."""
        relation = self._package.relations(part).get(element.get(f"{REL}id") or "")
        name = posixpath.basename(relation.target) if relation else "one that is missing"
        inside = relation is not None and relation.target in self._package.parts
        data = self._package.parts.data(relation.target) if relation and inside else b""
        page = _page(data, name)
        if page is None:
            size = f", {len(data):,} bytes" if inside else ""
            self._unread.append(_unread("a file embedded in the text is not read", [f"{name}{size}"]))
            return ()
        self._unread += page.notices
        return [MarkdownBlock(page.text)] if page.text.strip() else ()


def _page(data: bytes, name: str) -> HtmlPage | None:
    """Return the web page in an embedded file, alone or in a web archive as other programs write it; None without."""
    suffix = posixpath.splitext(name)[1].lower()
    content: object = data if suffix in _PAGES else None
    charset = None
    if suffix in _ARCHIVES and (body := message_from_bytes(data, policy=policy.default).get_body(("html",))):
        content, charset = body.get_payload(decode=True), body.get_content_charset()
    text = decoded_page(content, name, charset) if isinstance(content, bytes) and content else None
    try:
        return page_text(text.text, alone=True) if isinstance(text, Decoded) else None
    except ValueError:  # nested too deep
        return None


def _flat(blocks: Sequence[MarkdownBlock]) -> str:
    return joined(blocks).replace("| --- ", "").replace(" --- |", "")


def damaged(problems: Iterable[str]) -> list[Notice]:
    """Report each problem in a file's parts once."""
    return [file_notice(NoticeCode.PART_DAMAGED, problem) for problem in dict.fromkeys(problems)]


def hidden_words(count: int) -> list[Notice]:
    """Report the number of hidden words that are left out, if any."""
    left = f"hidden text is left out: {count} word{'s' if count != 1 else ''}"
    return [file_notice(NoticeCode.HIDDEN_LEFT_OUT, left, count=count)] if count else []


def _symbols(font: str, count: int) -> Notice:
    left = f"symbols of the font {font} are left out: {count}"
    return file_notice(NoticeCode.SYMBOLS_LEFT_OUT, left, count=count)


def _unread(subject: str, names: Iterable[str]) -> Notice:
    shown = list(names)
    return file_notice(NoticeCode.EMBEDDED_NOT_READ, f"{subject}: {', '.join(shown)}", names=shown)
