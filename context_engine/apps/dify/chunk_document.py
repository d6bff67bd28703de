"""The tool `chunk_document`: a document as the chunks of a knowledge base, cut by its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.chunk_form import ChunkForm, read_chunk_form
from context_engine.apps.dify.chunk_limits import refuse_too_large
from context_engine.apps.dify.chunk_report import chunk_report, report_text
from context_engine.apps.dify.chunk_structures import VARIABLES, structured
from context_engine.apps.dify.file_documents import FileDocuments, file_documents, text_documents
from context_engine.apps.dify.given_file import GivenFile
from context_engine.apps.dify.given_text import UNNAMED, given_text
from context_engine.apps.dify.plain import plain
from context_engine.apps.dify.reading import Reading
from context_engine.apps.dify.size import fitted
from context_engine.core.models import Chunk
from context_engine.errors import InvalidRequest
from context_engine.ingest import CutDocument, PreparedDocument

_NEITHER: Final = "there is nothing to cut: choose a file, or the text of the tool 'Read document'"
_BOTH: Final = "both file and text are given: choose one of them"


def chunk_document(fields: Mapping[str, Any], reading: Reading | None = None) -> ToolOutput:
    """Return a document's chunks in one of three variables, and a report of how it was cut.

    Args:
        fields: of the form.
        reading: how files are fetched and cut; None: as they usually are.

    Raises:
        InvalidRequest: a field that cannot be used, a document that has nothing for the structure, or chunks that
            Dify cannot take.
        FileNotFetched, FileNotRead, Overloaded: the document could not be had; see `file_documents`.
    """
    reading = reading or Reading()
    form = read_chunk_form(fields, reading.options)
    found = _documents(fields, form, reading.authorities)
    cuts = [_stated(one, form) for one in found.documents]
    count = form.options.counter.count
    made = structured(cuts, form, count)
    refuse_too_large(made, form.structure)
    report = fitted("report", plain(chunk_report(found, cuts, form, made, count))).value or {}
    text = report_text(report)
    return ToolOutput(
        text=text,
        json=report,
        variables={VARIABLES[form.structure]: plain(made.value), "report": report, "report_text": text},
    )


def _documents(fields: Mapping[str, Any], form: ChunkForm, authorities: str | None) -> FileDocuments:
    given, texts = GivenFile.read(fields), given_text(fields)
    if given is not None and texts:
        raise InvalidRequest(_BOTH)
    if given is not None:
        return file_documents(given, rule=form.rule, options=form.options, authorities=authorities)
    if not texts:
        raise InvalidRequest(_NEITHER)
    return text_documents(texts, rule=form.rule, options=form.options)


def _stated(one: CutDocument, form: ChunkForm) -> CutDocument:
    """Return a document with what the form states of it."""
    base, chunks = one.document.base, one.chunks or []
    if one.document.loaded.path == UNNAMED:
        base, *chunks = (_unnamed(chunk, one.document) for chunk in (base, *chunks))
    return one._replace(
        document=replace(one.document, base=form.stated(base)), chunks=[form.stated(chunk) for chunk in chunks]
    )


def _unnamed(chunk: Chunk, document: PreparedDocument) -> Chunk:
    """Return a chunk of a text without a file, by whose name nothing is known: what Dify calls the document stays."""
    return chunk._replace(
        document_id=chunk.document_id if document.named else None,
        title=None if chunk.title == UNNAMED else chunk.title,
    )
