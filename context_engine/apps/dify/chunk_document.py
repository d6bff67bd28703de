"""The tool `chunk_document`: a document cut into chunks by its type, with a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Final

from context_engine.apps.dify.answer import ToolOutput, lines
from context_engine.apps.dify.chunk_form import UNNAMED, ChunkForm, read_chunk_form, text_of_form
from context_engine.apps.dify.chunk_structures import VARIABLES, Structured, refuse_too_large, structured
from context_engine.apps.dify.dify_json import fitted, plain
from context_engine.apps.dify.file_documents import DifyFile, FileDocuments, file_documents, text_documents
from context_engine.apps.dify.plugin_settings import FileReading
from context_engine.core.chunking.pack import Count
from context_engine.core.models import Chunk, Notice, NoticeCode, about, distinct
from context_engine.errors import InvalidRequest
from context_engine.ingest.documents import PreparedDocument
from context_engine.ingest.reading import CutDocument

_NEITHER: Final = "there is nothing to cut: choose a file, or the text of the tool 'Read document'"
_BOTH: Final = "both file and text are given: choose one of them"


def chunk_document(fields: Mapping[str, Any], reading: FileReading | None = None) -> ToolOutput:
    """Return a document's chunks in one of three variables, and a report of how it was cut.

    Args:
        reading: how files are fetched and cut; None for the defaults.

    Raises:
        InvalidRequest: an invalid field, a document with nothing for the structure, or chunks beyond Dify's limits.
        FileNotFetched, FileNotRead, Overloaded: see `file_documents`.
    """
    reading = reading or FileReading()
    form = read_chunk_form(fields, reading.options)
    cut_file = _documents(fields, form, reading.authorities)
    cuts = [_stated(document, form) for document in cut_file.documents]
    count = form.options.counter.count
    made = structured(cuts, form, count)
    refuse_too_large(made, form.structure)
    report = fitted("report", plain(chunk_report(cut_file, cuts, form, made, count))).value or {}
    text = report_text(report)
    return ToolOutput(
        text=text,
        json=report,
        variables={VARIABLES[form.structure]: plain(made.value), "report": report, "report_text": text},
    )


def _documents(fields: Mapping[str, Any], form: ChunkForm, authorities: str | None) -> FileDocuments:
    file, texts = DifyFile.read(fields), text_of_form(fields)
    if file is not None and texts:
        raise InvalidRequest(_BOTH)
    if file is not None:
        return file_documents(file, rule=form.rule, options=form.options, authorities=authorities)
    if not texts:
        raise InvalidRequest(_NEITHER)
    return text_documents(texts, rule=form.rule, options=form.options)


def _stated(document: CutDocument, form: ChunkForm) -> CutDocument:
    """Return a document with the metadata stated in the form."""
    base, chunks = document.document.base, document.chunks or []
    if document.document.loaded.path == UNNAMED:
        base, *chunks = (_unnamed(chunk, document.document) for chunk in (base, *chunks))
    return document._replace(
        document=replace(document.document, base=form.stated(base)), chunks=[form.stated(chunk) for chunk in chunks]
    )


def _unnamed(chunk: Chunk, document: PreparedDocument) -> Chunk:
    """Return a chunk of a text without a file name, so that Dify's own document name is kept."""
    return chunk._replace(
        document_id=chunk.document_id if document.named else None,
        title=None if chunk.title == UNNAMED else chunk.title,
    )


_SET_ASIDE: Final = frozenset(
    {
        NoticeCode.BOILERPLATE_LEFT_OUT,
        NoticeCode.CONTENTS_LEFT_OUT,
        NoticeCode.EMBEDDED_NOT_READ,
        NoticeCode.HIDDEN_LEFT_OUT,
        NoticeCode.OUTSIDE_QUESTIONS,
        NoticeCode.PAGE_NUMBERS_LEFT_OUT,
        NoticeCode.PAGES_NOT_READ,
        NoticeCode.RUNNING_HEADS_LEFT_OUT,
        NoticeCode.SYMBOLS_LEFT_OUT,
    }
)
"""Notices about passages of a document that are in no chunk."""

_MOST_NAMED: Final = 5
_NOUNS: Final = {"general": "chunk", "parent_child": "parent", "qa": "question"}


def chunk_report(
    cut_file: FileDocuments, cuts: Sequence[CutDocument], form: ChunkForm, made: Structured, count: Count
) -> dict[str, Any]:
    """Return the report of how documents were cut, ready for JSON.

    Args:
        cuts: the file's documents, cut, with the metadata stated in the form.
    """
    documents = [document for _, document, _ in cuts]
    several = len(cuts) > 1
    notices = [
        notice
        for document in documents
        for notice in about(document.loaded.place if several else "", (*document.notices, *_never_in_force(document)))
    ]
    notices = [*distinct((*notices, *made.notices))]
    tokens = sorted(map(count, made.embedded))
    return {
        "title": cut_file.name if several else documents[0].base.title,
        "documents": len(documents),
        "document_type": _distinct_words(document.base.doc_type or "" for document in documents),
        "why": _distinct_words(
            _questions_reason(document) if form.structure == "qa" else _cut_reason(document) for document in documents
        ),
        "structure": form.structure,
        "parent_mode": form.parent_mode if form.structure == "parent_child" else None,
        "chunks": made.made,
        "embedded": len(made.embedded),
        "sections": _sections(cuts),
        "tokens": {"least": tokens[0], "median": round(median(tokens)), "most": tokens[-1]},
        "chunk_line": form.chunk_line,
        "set_aside": [_sentence(notice) for notice in notices if notice.code in _SET_ASIDE],
        "warnings": [
            *(_sentence(notice) for notice in notices if notice.code not in _SET_ASIDE),
            *map(str, cut_file.skipped),
        ],
    }


def report_text(report: Mapping[str, Any]) -> str:
    noun = _NOUNS[report["structure"]]
    made = f"{report['chunks']:,} {noun}{'s' * (report['chunks'] != 1)}"
    if report["structure"] == "parent_child":
        made += f" of {report['embedded']:,} children"
    tokens = report["tokens"]
    rows = [
        f"{report['title']}: {made}",
        f"{report['document_type']}: {report['why']}",
        f"{report['sections']:,} sections; {tokens['least']} to {tokens['most']} tokens, median {tokens['median']}",
    ]
    for title, sentences in (("Set aside", report["set_aside"]), ("Warnings", report["warnings"])):
        rows += [f"{title}:", lines(title, sentences)] if sentences else []
    return "\n".join(rows)


def _cut_reason(document: PreparedDocument) -> str:
    row = document.strategy
    how = f"{row.method}, at most {row.chunk_size} tokens, overlap {row.overlap}"
    return f"{document.structure.reason} ({how})" if document.structure else how


def _questions_reason(document: PreparedDocument) -> str:
    return "the fields of records" if document.loaded.record else "lines marked Q and A, or headings that ask"


def _distinct_words(words: Iterable[str]) -> str:
    different = list(dict.fromkeys(words))
    return "; ".join(different[:_MOST_NAMED]) + (" …" if len(different) > _MOST_NAMED else "")


def _sections(cuts: Sequence[CutDocument]) -> int:
    """Return the number of headings with text below them."""
    return len(
        {
            (number, chunk.heading_path)
            for number, cut in enumerate(cuts)
            for chunk in cut.chunks or ()
            if chunk.heading_path
        }
    )


def _never_in_force(document: PreparedDocument) -> tuple[Notice, ...]:
    """Return a notice if the dates in the form leave no day on which a document is in force."""
    start, end = document.base.effective_from, document.base.effective_to
    if start is None or end is None or start < end:
        return ()
    problem = f"effective_to {end} is not after effective_from: never in force"
    return (Notice(NoticeCode.NEVER_IN_FORCE, "", problem),)


def _sentence(notice: Notice) -> str:
    return f"{notice.subject}: {notice.message}" if notice.subject else notice.message
