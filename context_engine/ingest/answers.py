"""Questions with their answers as a document gives them: a record with two such fields, or a text that asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from context_engine.core.chunking import QuestionAnswer, outline, questions_of, record_text, without_contents
from context_engine.core.models import Chunk, Notice, NoticeCode
from context_engine.core.text.markup import has_words
from context_engine.ingest.chunk_fields import reference
from context_engine.ingest.declared_fields import ID_FIELDS, RECORD_FIELDS
from context_engine.ingest.documents import PreparedDocument
from context_engine.ingest.loaded_document import file_notice, page_at

_QUESTION: Final = ("question", "q", "问题", "問題", "问")
_ANSWER: Final = ("answer", "a", "答案", "回答", "答")
_MOST_SHOWN: Final = 5
_MOST_WORDS: Final = 80


class AnsweredQuestion(NamedTuple):
    """A question and its answer; the answer's `content` is what it says."""

    question: str
    answer: Chunk


class AnsweredQuestions(NamedTuple):
    """The questions of a document, in order, and what is to be said of the rest."""

    pairs: tuple[AnsweredQuestion, ...]
    notices: tuple[Notice, ...] = ()


def answered_questions(document: PreparedDocument) -> AnsweredQuestions:
    """Return the questions of a document that have an answer; none where it asks nothing, or says more beside them.

    A record asks where it has a field `question` and a field `answer` (or `q` and `a`); its other fields stand below
    the answer. Other documents ask as `core.chunking.questions` says; what stands outside of questions and answers is
    named in a notice.
    """
    return _of_record(document) if document.loaded.record else _of_text(document)


def _of_record(document: PreparedDocument) -> AnsweredQuestions:
    fields = {str(key).strip().casefold(): (key, value) for key, value in document.fields.items()}
    asked = next((fields[name] for name in _QUESTION if _said(fields, name)), None)
    answered = next((fields[name] for name in _ANSWER if _said(fields, name)), None)
    if asked is None or answered is None:
        return AnsweredQuestions((), _left_out([document.loaded.text]))
    known = {*RECORD_FIELDS, *ID_FIELDS[True], asked[0], answered[0]}
    others = record_text("", {key: value for key, value in document.fields.items() if key not in known})
    answer = "\n\n".join(filter(None, (str(answered[1]).strip(), others)))
    question = " ".join(str(asked[1]).split())
    return AnsweredQuestions((AnsweredQuestion(question, document.base._replace(content=answer)),))


def _said(fields: dict[str, tuple[Any, Any]], name: str) -> bool:
    value = fields.get(name, ("", None))[1]
    return isinstance(value, str | int | float) and bool(str(value).strip())


def _of_text(document: PreparedDocument) -> AnsweredQuestions:
    text = without_contents(document.loaded.text, document.contents)
    found = questions_of(text)
    outside = _outside(text, found)
    if sum(map(len, outside)) > sum(one.answer[1] - one.start for one in found):
        return AnsweredQuestions((), _left_out(outside))
    return AnsweredQuestions(
        tuple(AnsweredQuestion(one.question, _answer(document, one)) for one in found), _left_out(outside)
    )


def _answer(document: PreparedDocument, one: QuestionAnswer) -> Chunk:
    base, loaded = document.base, document.loaded
    page = page_at(loaded.pages, one.start)
    return base._replace(
        content=loaded.text[slice(*one.answer)],
        section=one.section,
        heading_path=one.path[1:] if one.path[:1] == (base.title,) else one.path,
        metadata={
            **base.metadata,
            **({} if page is None else {"page": page}),
            **reference(one.section, document.fields),
        },
    )


def _outside(text: str, found: Iterable[QuestionAnswer]) -> list[str]:
    """Return what each section says outside of questions and answers; headings say nothing by themselves."""
    kept: list[str] = []
    place = 0
    for one in found:
        kept += (text[place : one.start], " " * (one.answer[1] - one.start))
        place = one.answer[1]
    rest = "".join([*kept, text[place:]])
    parts = (rest[section.body : section.end].strip() for section in outline(text))
    return [part for part in parts if has_words(part)]


def _left_out(parts: Sequence[str]) -> tuple[Notice, ...]:
    if not parts:
        return ()
    shown = "; ".join(repr(" ".join(part.split())[:_MOST_WORDS]) for part in parts[:_MOST_SHOWN])
    more = f" and {len(parts) - _MOST_SHOWN} more" if len(parts) > _MOST_SHOWN else ""
    size = sum(map(len, parts))
    problem = f"{size:,} characters stand outside of questions and answers, and were left out: {shown}{more}"
    return (file_notice(NoticeCode.OUTSIDE_QUESTIONS, problem, count=size),)
