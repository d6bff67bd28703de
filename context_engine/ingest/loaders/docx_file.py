"""Word documents: `.docx`, as Word and others write them, strict Open XML too.

Read, in the order of the document: headings by style or outline level, with the numbers Word counts for them; lists
and numbered paragraphs with their labels; tables as pipe tables, merged cells repeated down, a table in a cell on the
cell's line; text in content controls, form fields, text boxes, equations, charts and diagrams; footnotes, endnotes
and comments below the paragraph that refers to them; page heads and feet once each, below the title; bold words as
`**bold**`, because definitions are marked so; tracked changes as accepted, or as `tracked_changes` says. Fields: core
properties a person wrote; custom properties and the page head only as labels ("Version: 3.2"). Reported, not read:
hidden text, tables of contents, embedded files, sub-documents, what is damaged or missing. Not read: page heads that
hold a page's number alone, pictures, links' targets. Refused: macros (`.docm`, or a macro part inside), passwords,
zip bombs, XML with a document type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zipfile import ZipFile

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, without_text
from context_engine.ingest.loaders.archive import check_archive
from context_engine.ingest.loaders.docx_document import DocxDocument
from context_engine.ingest.loaders.markdown import joined
from context_engine.ingest.loaders.ooxml import OoxmlPackage
from context_engine.ingest.loaders.properties import labelled, real_properties
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 512 << 20
_MOST_PART: Final = 64 << 20


def load_docx(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Word file."""
    with file.open() as stream:
        refused = check_archive(stream, "DOCX", _MOST_UNPACKED, _MOST_PART)
        if refused:
            yield Skipped(file.name, refused)
            return
        with ZipFile(stream) as archive:
            yield _loaded(OoxmlPackage(archive, "word/document.xml", "reading .docx files"), file)


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
    if "version" in header:  # what the text says about itself goes before the properties
        fields.pop("version", None)
    return LoadedDocument(path=file.name, text=text, fields=fields, header=header, notices=notices, properties=True)
