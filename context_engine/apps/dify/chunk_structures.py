"""Chunks in the three structures of a Dify knowledge base, within Dify's limits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.chunk_form import ChunkForm, Structure
from context_engine.apps.dify.read_document import without_pictures
from context_engine.core.chunking.chunk_line import ChunkLine, escaped, line_of, with_line
from context_engine.core.chunking.pack import Count
from context_engine.core.models import Chunk, Notice, NoticeCode, about, messages
from context_engine.errors import InvalidRequest
from context_engine.ingest.document_forms import (
    MOST_PARENT,
    AnsweredQuestion,
    Parent,
    answered_questions,
    parents_of,
    whole_document,
)
from context_engine.ingest.documents import PreparedDocument
from context_engine.ingest.reading import CutDocument

VARIABLES: Final[dict[Structure, str]] = {
    "general": "general_chunks",
    "parent_child": "parent_child_chunks",
    "qa": "qa_chunks",
}
"""The variable that each structure fills."""

_NO_TEXT: Final = "no chunk is left: the document holds only pictures. Run a text recognition (OCR) over it first"

_NO_QUESTIONS: Final = (
    "this is not a document of questions and answers. Expected are records with the fields 'question' and 'answer', "
    "lines that begin with 'Q:' and 'A:', or headings that end in a question mark, and little beside them; cut other "
    "documents with the structure 'general' or 'parent_child'"
)


class Structured(NamedTuple):
    """Chunks in one of Dify's structures.

    Attributes:
        value: of the structure's variable.
        embedded: the texts that Dify embeds, in order: chunks, children or questions.
        made: number of parents, chunks or questions.
        notices: about passages that are in no chunk, or were split.
    """

    value: Any
    embedded: tuple[str, ...]
    made: int
    notices: tuple[Notice, ...] = ()


def structured(cuts: Sequence[CutDocument], form: ChunkForm, count: Count) -> Structured:
    """Return documents in the structure chosen in the form.

    Raises:
        InvalidRequest: nothing in them fits the structure.
    """
    if form.structure == "qa":
        return _questions(cuts, form)
    if form.structure == "parent_child":
        return _parents(cuts, form, count)
    chunks = tuple(_written(chunk, form) for chunk in _filled(chunk for cut in cuts for chunk in cut.chunks or ()))
    if not chunks:
        raise InvalidRequest(_NO_TEXT)
    return Structured(list(chunks), chunks, len(chunks))


def _parents(cuts: Sequence[CutDocument], form: ChunkForm, count: Count) -> Structured:
    notices: list[Notice] = []
    full_doc = form.parent_mode == "full-doc"
    parents = [_whole(cuts, form, count, notices)] if full_doc else list(_sections(cuts, count, notices))
    rows: list[dict[str, Any]] = []
    for parent in parents:
        children = [
            _written(child, form, document=False) if full_doc else _plain(escaped(child.content))
            for child in _filled(parent.children)
        ]
        if children:
            content = _written(_shown(parent.chunk), form, place=not full_doc)
            rows.append({"parent_content": content, "child_contents": children})
    if not rows:
        raise InvalidRequest(_NO_TEXT)
    value = {"parent_mode": form.parent_mode, "parent_child_chunks": rows}
    embedded = tuple(child for row in rows for child in row["child_contents"])
    return Structured(value, embedded, len(rows), tuple(notices))


def _sections(cuts: Sequence[CutDocument], count: Count, notices: list[Notice]) -> Iterator[Parent]:
    for _, document, chunks in cuts:
        sections = parents_of(document, chunks or (), count)
        notices += _about(document, sections.notices, cuts)
        yield from sections.parents


def _whole(cuts: Sequence[CutDocument], form: ChunkForm, count: Count, notices: list[Notice]) -> Parent:
    """Return all documents as one parent, because Dify shows only the first parent of a full document."""
    parents = [whole_document(document, chunks or ()) for _, document, chunks in cuts]
    content = "\n\n".join(parent.chunk.content for parent in parents)
    tokens = count(content)
    if tokens > MOST_PARENT:
        problem = (
            f"every hit returns the whole document, which has {tokens:,} tokens: sections as parents suit it better"
        )
        notices.append(Notice(NoticeCode.PARENT_LONG, "", problem, {"count": tokens}))
    about_all = parents[0].chunk if len(parents) == 1 else form.stated(Chunk(content=""))
    children = tuple(child for parent in parents for child in parent.children)
    return Parent(about_all._replace(content=content), children)


def _questions(cuts: Sequence[CutDocument], form: ChunkForm) -> Structured:
    notices: list[Notice] = []
    pairs: list[AnsweredQuestion] = []
    for _, document, _ in cuts:
        answered = answered_questions(document)
        notices += _about(document, answered.notices, cuts)
        pairs += answered.pairs
    if not pairs:
        raise InvalidRequest(". ".join((_NO_QUESTIONS, *messages(notices[:1]))))
    rows = [
        {"question": _plain(escaped(_plain(pair.question))), "answer": _written(_shown(pair.answer), form)}
        for pair in pairs
    ]
    value = {"qa_chunks": rows}
    return Structured(value, tuple(row["question"] for row in rows), len(rows), tuple(notices))


def _about(document: PreparedDocument, notices: Sequence[Notice], cuts: Sequence[CutDocument]) -> tuple[Notice, ...]:
    return about(document.loaded.place if len(cuts) > 1 else "", notices)


def _filled(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks as shown, omitting those that held only a picture."""
    return (chunk for chunk in map(_shown, chunks) if chunk.content.strip())


def _shown(chunk: Chunk) -> Chunk:
    """Return a chunk with its pictures replaced by words, because Dify would fetch them."""
    return chunk._replace(
        content=_plain(chunk.content),
        title=_plain(chunk.title) if chunk.title else None,
        heading_path=tuple(map(_plain, chunk.heading_path)),
    )


def _written(chunk: Chunk, form: ChunkForm, *, document: bool = True, place: bool = True) -> str:
    """Return a chunk's text, below its line if the form asks for one."""
    line = line_of(chunk, document=document, place=place) if form.chunk_line else ChunkLine()
    return _plain(with_line(line, chunk.content))


def _plain(text: str) -> str:
    return without_pictures(text).text


MOST_SERIALISED: Final = 4 * 1024 * 1024
"""Most bytes of the chunks as one message: Dify ends a plugin that writes a line of more than 5 MiB."""

MOST_EMBEDDED: Final = 65_535
"""Most bytes of an embedded text or of an answer: the limit of Dify's vector stores."""

_NAMES: Final[dict[Structure, str]] = {"general": "chunk", "parent_child": "child chunk", "qa": "question"}

_MEND: Final[dict[Structure, str]] = {
    "general": "set a smaller chunk size",
    "parent_child": "set a smaller chunk size",
    "qa": "shorten it in the document",
}

_MOST_WORDS: Final = 60


def refuse_too_large(made: Structured, structure: Structure) -> None:
    """Refuse chunks that exceed Dify's limits.

    Raises:
        InvalidRequest: a chunk, or all chunks together, are too large; the message says which and what to do.
    """
    _refuse_long(made.embedded, _NAMES[structure], _MEND[structure])
    if structure == "qa":
        _refuse_long([row["answer"] for row in made.value["qa_chunks"]], "answer", _MEND[structure])
    size = len(json.dumps(made.value, ensure_ascii=False).encode())
    if size > MOST_SERIALISED:
        raise InvalidRequest(
            f"the chunks take {size / 1024 / 1024:.1f} MiB, and Dify's plugin runtime carries at most "
            f"{MOST_SERIALISED // 1024 // 1024}: split the document"
            + (", or choose the structure 'general', which writes its text once" if structure == "parent_child" else "")
        )


def _refuse_long(texts: Sequence[str], name: str, mend: str) -> None:
    for number, text in enumerate(texts, start=1):
        size = len(text.encode())
        if size > MOST_EMBEDDED:
            words = " ".join(text[: _MOST_WORDS * 2].split())[:_MOST_WORDS]
            raise InvalidRequest(
                f"{name} {number} ({words!r} …) has {size:,} bytes, and Dify's vector stores take at most "
                f"{MOST_EMBEDDED:,} of one text: {mend}"
            )
