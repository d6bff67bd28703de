"""Word documents: `.docx`.

Read, in the order of the document: headings by style or outline level, with the numbers Word counts for them; lists and
numbered paragraphs with their labels; tables as pipe tables, merged cells repeated down; text in content controls, text
boxes and tracked insertions, as if all changes were accepted; footnotes below the paragraph that refers to them; bold
words as `**bold**`, because definitions are marked so. Fields: core properties a person wrote; custom properties and
the page header only as labels ("Version: 3.2"). Not read: headers and footers as text, tables of contents, deleted
and hidden text, comments, pictures, embedded files, links' targets, sub-documents. Refused: macros (`.docm`, or a macro
part inside), passwords, zip bombs, XML with a document type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from context_engine.errors import MissingExtra
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.archive import check_archive
from context_engine.ingest.loaders.docx_body import DocxBody
from context_engine.ingest.loaders.properties import labelled, real_properties
from context_engine.ingest.loaders.source_file import SourceFile

if TYPE_CHECKING:
    from docx.document import Document

__all__ = ["load_docx"]

_MOST_UNPACKED: Final = 512 << 20
_MOST_PART: Final = 64 << 20
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def load_docx(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Word file."""
    try:
        import docx
    except ImportError as error:
        raise MissingExtra("reading .docx files", "documents") from error
    with file.open() as stream:
        refused = check_archive(stream, "DOCX", _MOST_UNPACKED, _MOST_PART)
        if refused:
            yield Skipped(file.name, refused)
            return
        document = docx.Document(stream)
    body = DocxBody(
        document.element.body,
        styles=document.styles.element,
        numbering=_part(document, "numbering"),
        footnotes=_part(document, "footnotes"),
    )
    text = body.text()
    if not text.strip():
        yield Skipped(file.name, "has no text: it holds pictures, or nothing")
        return
    header = {**header_fields(_labels(document)), **header_fields(text)}
    fields = _properties(document, body.title, header)
    yield LoadedDocument(path=file.name, text=text, fields=fields, header=header)


def _part(document: Document, kind: str) -> Any | None:
    """Return the root of a part that a document refers to, None where it has none."""
    from docx.oxml.parser import parse_xml

    try:
        return parse_xml(document.part.part_related_by(f"{_OFFICE}/{kind}").blob)
    except KeyError:
        return None


def _properties(document: Document, title: str, header: dict[str, str]) -> dict[str, Any]:
    """Return the core properties; what the text says about itself goes before them."""
    core = document.core_properties
    given = {name: _read(core, name) for name in ("title", "version", "author", "created", "modified")}
    fields = real_properties(given)
    if title:
        fields["title"] = title
    if "version" in header:
        fields.pop("version", None)
    return fields


def _read(core: Any, name: str) -> Any:
    try:
        return getattr(core, name)
    except (ValueError, OverflowError):  # a date that is none
        return None


def _labels(document: Document) -> str:
    """Return custom properties and page headers as labelled lines."""
    from docx.oxml.parser import parse_xml

    lines = []
    try:
        custom = parse_xml(document.part.package.part_related_by(f"{_OFFICE}/custom-properties").blob)
        lines += [f"{one.get('name')}: {''.join(one.itertext()).strip()}" for one in custom]
    except KeyError:
        pass
    for section in document.sections:
        for header in (section.first_page_header, section.header):
            if not header.is_linked_to_previous:
                lines += [label for one in header.paragraphs for label in labelled(" ".join(one.text.split()))]
                lines += [f"| {' | '.join(cell.text for cell in row.cells)} |" for t in header.tables for row in t.rows]
    return "\n".join(lines)
