"""Documents as question-answer pairs, and as parent texts with child chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import Any, Final, NamedTuple

from context_engine.core.chunking.contents import between, without_contents
from context_engine.core.chunking.fields import record_text
from context_engine.core.chunking.labels import label_of
from context_engine.core.chunking.outline import QuestionAnswer, outline, questions_of
from context_engine.core.chunking.pack import Count
from context_engine.core.models import Chunk, Notice, NoticeCode
from context_engine.core.text.markup import has_words
from context_engine.ingest.chunk_metadata import reference
from context_engine.ingest.declared_fields import ID_FIELDS, RECORD_FIELDS
from context_engine.ingest.documents import PreparedDocument
from context_engine.ingest.loaded_document import file_notice, page_at

_QUESTION: Final = ("question", "q", "问题", "問題", "问")
_ANSWER: Final = ("answer", "a", "答案", "回答", "答")
_MOST_SHOWN: Final = 5
_MOST_WORDS: Final = 80
MOST_PARENT: Final = 4000
"""Most tokens of a parent that is a section; Dify allows no more for a chunk."""


class AnsweredQuestion(NamedTuple):
    """A question and the chunk that answers it."""

    question: str
    answer: Chunk


class AnsweredQuestions(NamedTuple):
    """The answered questions of a document, in order, and a notice about the remaining text."""

    pairs: tuple[AnsweredQuestion, ...]
    notices: tuple[Notice, ...] = ()


def answered_questions(document: PreparedDocument) -> AnsweredQuestions:
    """Return the answered questions of a document; none if most of its text is other text.

    A record is a pair if it has the fields `question` and `answer` (or `q` and `a`); its other fields follow the
    answer. In other documents `core.chunking.outline` finds the questions. A notice names the text that is left out.
    """
    return _of_record(document) if document.loaded.record else _of_text(document)


def _of_record(document: PreparedDocument) -> AnsweredQuestions:
    fields = {str(key).strip().casefold(): (key, value) for key, value in document.fields.items()}
    asked = next((fields[name] for name in _QUESTION if _has_value(fields, name)), None)
    answered = next((fields[name] for name in _ANSWER if _has_value(fields, name)), None)
    if asked is None or answered is None:
        return AnsweredQuestions((), _left_out([document.loaded.text]))
    known = {*RECORD_FIELDS, *ID_FIELDS[True], asked[0], answered[0]}
    others = record_text("", {key: value for key, value in document.fields.items() if key not in known})
    answer = "\n\n".join(filter(None, (str(answered[1]).strip(), others)))
    question = " ".join(str(asked[1]).split())
    return AnsweredQuestions((AnsweredQuestion(question, document.base._replace(content=answer)),))


def _has_value(fields: dict[str, tuple[Any, Any]], name: str) -> bool:
    value = fields.get(name, ("", None))[1]
    return isinstance(value, str | int | float) and bool(str(value).strip())


def _of_text(document: PreparedDocument) -> AnsweredQuestions:
    text = without_contents(document.loaded.text, document.contents)
    questions = questions_of(text)
    outside = _outside(text, questions)
    if sum(map(len, outside)) > sum(question.answer[1] - question.start for question in questions):
        return AnsweredQuestions((), _left_out(outside))
    return AnsweredQuestions(
        tuple(AnsweredQuestion(question.question, _answer(document, question)) for question in questions),
        _left_out(outside),
    )


def _answer(document: PreparedDocument, question: QuestionAnswer) -> Chunk:
    base, loaded = document.base, document.loaded
    page = page_at(loaded.pages, question.start)
    return base._replace(
        content=loaded.text[slice(*question.answer)],
        section=question.section,
        heading_path=question.path[1:] if question.path[:1] == (base.title,) else question.path,
        metadata={
            **base.metadata,
            **({} if page is None else {"page": page}),
            **reference(question.section, document.fields),
        },
    )


def _outside(text: str, questions: Iterable[QuestionAnswer]) -> list[str]:
    """Return the text of each section outside of questions and answers, without headings."""
    kept: list[str] = []
    place = 0
    for question in questions:
        kept += (text[place : question.start], " " * (question.answer[1] - question.start))
        place = question.answer[1]
    rest = "".join([*kept, text[place:]])
    parts = (rest[section.body : section.end].strip() for section in outline(text))
    return [part for part in parts if has_words(part)]


def _left_out(parts: Sequence[str]) -> tuple[Notice, ...]:
    if not parts:
        return ()
    shown = "; ".join(repr(" ".join(part.split())[:_MOST_WORDS]) for part in parts[:_MOST_SHOWN])
    more = f" and {len(parts) - _MOST_SHOWN} more" if len(parts) > _MOST_SHOWN else ""
    size = sum(map(len, parts))
    problem = f"{size:,} characters outside of questions and answers were left out: {shown}{more}"
    return (file_notice(NoticeCode.OUTSIDE_QUESTIONS, problem, count=size),)


class Parent(NamedTuple):
    """A text and its passages; a search finds the passages.

    Attributes:
        chunk: the parent; its content spans from its first passage to its last.
        children: its passages, in order; at least one.
    """

    chunk: Chunk
    children: tuple[Chunk, ...]


class Parents(NamedTuple):
    """The parents of a document, in order, and notices about sections that had to be split."""

    parents: tuple[Parent, ...]
    notices: tuple[Notice, ...] = ()


def parents_of(document: PreparedDocument, chunks: Sequence[Chunk], count: Count, most: int = MOST_PARENT) -> Parents:
    """Return the sections of a document as parents of its chunks.

    Sections begin at the first heading level that divides the document. A section of more than `most` tokens is divided
    at its subheadings or, if it has none, between chunks. A record, or a document cut in windows, has no sections: its
    chunks are grouped into parents of at most `most` tokens.

    Args:
        chunks: all of its chunks, in order; each gets one parent.
        most: most tokens of a parent; a parent of a single chunk may have more.
    """
    if not chunks:
        return Parents(())
    by_sections = document.strategy.method == "section_aware"
    divided = _Division(document, count, most)
    groups = list(divided.sections(chunks, _first_level(chunks)) if by_sections else divided.filled(chunks))
    return Parents(tuple(divided.parent(group) for group in groups), tuple(divided.notices))


def whole_document(document: PreparedDocument, chunks: Sequence[Chunk]) -> Parent:
    """Return the whole document, without its tables of contents, as the only parent of its chunks (at least one)."""
    content = _text(document, 0, len(document.loaded.text))
    return Parent(document.base._replace(content=content), tuple(chunks))


class _Division:
    def __init__(self, document: PreparedDocument, count: Count, most: int) -> None:
        self.notices: list[Notice] = []
        self._document, self._count, self._most = document, count, most

    def sections(self, chunks: Sequence[Chunk], level: int) -> Iterator[Sequence[Chunk]]:
        """Yield the chunks of each section of a level, or of its subsections if it is too long."""
        for path, section in groupby(chunks, lambda chunk: chunk.heading_path[:level]):
            group = list(section)
            if self._fits(group):
                yield group
            elif any(len(chunk.heading_path) > level for chunk in group):
                yield from self.sections(group, level + 1)
            else:
                parts = list(self.filled(group))
                yield from parts
                self.notices.append(_split(path[-1] if path else self._document.base.title or "", len(parts)))

    def filled(self, chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
        """Yield runs of chunks, each up to the limit of a parent."""
        group: list[Chunk] = []
        for chunk in chunks:
            if group and not self._fits([*group, chunk]):
                yield group
                group = []
            group.append(chunk)
        yield group

    def parent(self, chunks: Sequence[Chunk]) -> Parent:
        first, last = chunks[0], chunks[-1]
        path = _shared([chunk.heading_path for chunk in chunks])
        section = first.section if len(chunks) == 1 else _number(path)
        own = {**_pages(first, last), **reference(section, self._document.fields)}
        chunk = first._replace(
            content=self._content(chunks),
            section=section,
            heading_path=path,
            metadata={**self._document.base.metadata, **own},
        )
        return Parent(chunk, tuple(chunks))

    def _fits(self, chunks: Sequence[Chunk]) -> bool:
        return len(chunks) == 1 or self._count(self._content(chunks)) <= self._most

    def _content(self, chunks: Sequence[Chunk]) -> str:
        (start, _), (_, end) = chunks[0].span or (0, 0), chunks[-1].span or (0, 0)
        offset = self._document.loaded.offset
        return _text(self._document, start - offset, end - offset)


def _first_level(chunks: Sequence[Chunk]) -> int:
    """Return the heading level at which to divide: 2 if the whole document is below one heading."""
    paths = [chunk.heading_path for chunk in chunks if chunk.heading_path]
    return len(_shared(paths)) + 1 if paths else 1


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings that all paths begin with."""
    pairs = zip(min(paths), max(paths))
    return tuple(heading for heading, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _text(document: PreparedDocument, start: int, end: int) -> str:
    """Return the text between two offsets, without tables of contents."""
    parts = (document.loaded.text[slice(*span)].strip() for span in between(document.contents, start, end))
    return "\n\n".join(part for part in parts if part)


def _number(path: Sequence[str]) -> str | None:
    label = label_of(path[-1]) if path else None
    return label.text if label and label.kind != "letter" else None


def _pages(first: Chunk, last: Chunk) -> dict[str, Any]:
    if first.page is None:
        return {}
    end = last.last_page
    return {"page": first.page} if end in (None, first.page) else {"page": first.page, "page_end": end}


def _split(title: str, parts: int) -> Notice:
    problem = f"the section {title[:80]!r} is too long for one parent: it is split into {parts} parents"
    return file_notice(NoticeCode.PARENT_SPLIT, problem, section=title[:80], count=parts)
