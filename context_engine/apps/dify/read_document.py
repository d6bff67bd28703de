"""The tool `read_document`: a file as one Markdown text, with what it says about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from context_engine.apps.dify.answer import ToolOutput, lines
from context_engine.apps.dify.file_documents import FileDocuments, FileNotRead, file_documents, refuse_long, text_size
from context_engine.apps.dify.given_file import GivenFile
from context_engine.apps.dify.pictures import Paged, without_pictures
from context_engine.apps.dify.plain import plain
from context_engine.apps.dify.reading import Reading
from context_engine.apps.dify.size import fitted
from context_engine.core.chunking import headings
from context_engine.core.models import NoticeCode
from context_engine.errors import InvalidRequest
from context_engine.ingest import PreparedDocument
from context_engine.ingest.document_structure import readable_name

_GAP: Final = "\n\n"


def read_document(fields: Mapping[str, Any], reading: Reading | None = None) -> ToolOutput:
    """Return a file's text, title, metadata and pages.

    Args:
        fields: of the form: `file`.
        reading: how files are fetched and read; None: as they usually are.

    Raises:
        InvalidRequest: no file is given, or something else.
        FileNotFetched: it could not be fetched.
        FileNotRead: it gives no text, or more than Dify's plugin runtime can carry.
        Overloaded: too many files are being read.
    """
    given = GivenFile.read(fields)
    if given is None:
        raise InvalidRequest("file is empty: choose the file to read")
    reading = reading or Reading()
    found = _uncut(file_documents(given, options=reading.options, authorities=reading.authorities))
    documents = [one.document for one in found.documents]
    text, pages = whole_text(documents)
    refuse_long(found.name, text_size(text))
    if not text.strip():
        raise FileNotRead(f"{found.name}: has no text beside its pictures: run a text recognition (OCR) over it first")
    title = _title(documents)
    metadata = fitted("metadata", plain(_metadata(found)))
    said = [*found.warnings, *([metadata.cut] if metadata.cut else [])]
    warnings = fitted("warnings", plain(said)).value or []
    whole = {
        "title": plain(title),
        "metadata": metadata.value or {},
        "pages": [{"offset": offset, "page": page} for offset, page in pages],
        "warnings": warnings,
    }
    return ToolOutput(text=text, json=whole, variables={**whole, "warnings_text": lines("warnings_text", warnings)})


def _uncut(found: FileDocuments) -> FileDocuments:
    """Return the documents without the notices of what stands in no chunk: the text is given whole."""

    def told(document: PreparedDocument) -> PreparedDocument:
        notices = tuple(one for one in document.notices if one.code is not NoticeCode.CONTENTS_LEFT_OUT)
        return replace(document, notices=notices)

    return replace(found, documents=tuple(one._replace(document=told(one.document)) for one in found.documents))


def whole_text(documents: Sequence[PreparedDocument]) -> Paged:
    """Return the documents of a file as one text without pictures, and where its pages begin.

    A file that is one text is that text. Of several documents each has a heading: records their first line, others
    their title, where their text does not begin with one.
    """
    parts: list[str] = []
    pages: list[tuple[int, int]] = []
    size = 0
    for document in documents:
        part, starts = _with_heading(document) if len(documents) > 1 or document.loaded.record else _own(document)
        parts.append(part)
        pages += [(size + offset, page) for offset, page in starts]
        size += len(part) + len(_GAP)
    return Paged(_GAP.join(parts), tuple(pages))


def _own(document: PreparedDocument) -> Paged:
    return without_pictures(document.loaded.text, document.loaded.pages)


def _with_heading(document: PreparedDocument) -> Paged:
    text, pages = _own(document)
    if document.loaded.record:
        title, _, fields = text.partition("\n")
        return Paged(f"## {title}{_GAP}{fields}".rstrip())
    first = next(iter(headings(text)), None)
    if first is not None and not text[: first.start].strip():
        return Paged(text, pages)
    title, _ = without_pictures(document.base.title or document.loaded.place)
    before = f"# {title}{_GAP}"
    return Paged(before + text, tuple((len(before) + offset, page) for offset, page in pages))


def _title(documents: Sequence[PreparedDocument]) -> str:
    """Return the document's title; of several documents the file's name as words."""
    first = documents[0]
    several = len(documents) > 1 or first.loaded.record
    named = readable_name(replace(first.loaded, part="")) if several else first.base.title
    return without_pictures(named or first.loaded.file_stem).text


def _metadata(found: FileDocuments) -> dict[str, Any]:
    """Return what the file says about itself; of several documents what their chunks have in common."""
    first = found.documents[0].document
    base, structure = first.base, first.structure
    known: dict[str, Any] = {
        "file_name": found.name,
        "document_id": base.document_id,
        "version": base.document_version,
        "doc_type": base.doc_type,
        "structure": structure.kind if structure else "declared",
    }
    if len(found.documents) > 1 or first.loaded.record:
        kept = {name: known[name] for name in ("file_name", "doc_type", "structure")}
        return {**kept, "documents": len(found.documents)}
    known |= {
        "effective_from": base.effective_from and base.effective_from.isoformat(),
        "effective_to": base.effective_to and base.effective_to.isoformat(),
        "superseded_by": base.superseded_by,
        "classification": base.classification and str(base.classification),
    }
    own = {name: value for name, value in base.metadata.items() if name != "source_file"}
    return {**own, **{name: value for name, value in known.items() if value is not None}}
