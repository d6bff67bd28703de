"""The answer without a model: the statements of the evidence that hold what a question asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from context_engine.answer.closeness import closest_of
from context_engine.answer.fitness import QuestionMatch, fitness, matches
from context_engine.answer.sentences import RowCell, Statement, StatementKind, statements
from context_engine.answer.values import AnswerRefusal, Evidence, Extraction, Quote, Sentence, Verdict
from context_engine.answer.wants import AskedQuestion, has, read_question
from context_engine.core.chunking.spans import Span
from context_engine.core.query import acronyms
from context_engine.core.text import terms, words
from context_engine.errors import InvalidRequest


def sentence_of(statement: Statement, question: AskedQuestion) -> Sentence:
    """Return a statement as a sentence: lead-in and conditions first, then its words, then what limits it.

    Of a table's row, the first cell and those that the question asks for are shown, each below its column's name.
    """
    statement = _with_long_form(statement, question.term.short) if question.term.is_long_form else statement
    cells = _chosen(statement, question) if statement.kind is StatementKind.ROW else []
    middle = [part for cell in cells for part in (cell.column, cell.span) if part[0] < part[1]] or statement.spans
    spans = tuple(dict.fromkeys((*statement.above, *middle, *statement.after)))
    text = statement.evidence.text
    quotes = tuple(Quote(statement.evidence.label, start, end, text[start:end]) for start, end in spans)
    return Sentence(_text(statement, cells), quotes, Verdict.SUPPORTED, 1.0)


def _with_long_form(statement: Statement, short: str) -> Statement:
    """Return a statement with the heading above it that spells out an abbreviation, where it does not do so itself."""
    heading = statement.headings[-1] if statement.headings else ""
    start = statement.evidence.text.find(heading)
    if start < 0 or short not in acronyms(heading) or short in acronyms(statement.text()):
        return statement
    return statement._replace(above=((start, start + len(heading)), *statement.above))


def _text(statement: Statement, cells: Sequence[RowCell]) -> str:
    if statement.kind is StatementKind.ROW:
        own = "; ".join(_named(statement, cell) for cell in cells)
    elif statement.kind is StatementKind.LIST:
        own = "\n".join(f"- {_words(statement, span)}" for span in statement.spans)
    else:
        own = statement.text()
    before, after = statement.text(statement.above), statement.text(statement.after)
    joint = "\n" if statement.kind is StatementKind.LIST else " "
    return " ".join(filter(None, (joint.join(filter(None, (before, own))), after)))


def _named(statement: Statement, cell: RowCell) -> str:
    name = _words(statement, cell.column)
    return f"{name}: {_words(statement, cell.span)}" if name else _words(statement, cell.span)


def _words(statement: Statement, span: Span) -> str:
    return statement.text((span,))


def _chosen(statement: Statement, question: AskedQuestion) -> list[RowCell]:
    """Return the cells of a row to show: the first, which names it, and those that the question asks for.

    Where columns cannot tell which of several amounts, durations ... is asked for, all of them are shown.
    """
    first, *others = statement.cells
    content = [term for term, weight in question.weights.items() if weight == 1.0]
    content += [question.act] if question.want.name == "role" else []
    asked = [cell for cell in others if any(_says(statement, cell, term) for term in content)]
    told = all(any(_says(statement, cell, term) for cell in statement.cells) for term in content)
    holding = [cell for cell in others if any(has(kind, _words(statement, cell.span)) for kind in question.want.holds)]
    if question.want.strict and not (told and set(holding).intersection(asked)):
        asked = [cell for cell in others if cell in asked or cell in holding]
    return [first, *asked] if asked else list(statement.cells)


def _says(statement: Statement, cell: RowCell, term: str) -> bool:
    return closest_of((term,), f"{_words(statement, cell.column)} {_words(statement, cell.span)}") > 0.0


LEAST_SCORE: Final = 1.0
"""Least score of an answer. With the limits below, of 582 questions of eight lists 311 show the right sentence first
and 53 another one; 200 of 214 that the texts do not answer are refused. .9 gives 318, 66 and 192; .8: 324, 81, 186."""
LEAST_COVERAGE: Final = 0.4
"""Least share of a question's information that an answer holds, with its lead-in and headings."""
LEAST_NAMED: Final = 0.5
"""An answer has more than this share of the words that name the subject of a question."""
SHORT: Final = 3
"""A subject of at most so many words stands whole in an answer: "7 days" alone does not tell the notice period."""

SIMILAR: Final = 0.85
"""Further sentences are shown if they score at least this share of the best one."""

_FIT: Final = 0.4
_RANK: Final = 0.2
_LITERAL: Final = 0.2
_LONG: Final = 0.003


class AnswerCandidate(NamedTuple):
    """A statement with what decides whether it is the answer.

    Attributes:
        fit: [0, 1], see `fitness`.
        score: what candidates are sorted by, from about 0 to 2.
    """

    statement: Statement
    match: QuestionMatch
    fit: float
    score: float


def extract(question: str, evidence: Sequence[Evidence], *, language: str = "en", most: int = 3) -> Extraction:
    """Return the sentences that answer a question, best first, each verbatim with its quotes, or a refusal.

    Args:
        evidence: the passages of a search.
        language: ISO 639-1, of the question; what it asks for is recognised in English alone.
        most: most sentences, at least 1.

    Raises:
        InvalidRequest: `most` is not a whole number of at least 1.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidRequest(f"most must be a whole number, 1 or more, got {most!r}")
    asked = read_question(question, language)
    ranked = candidates(asked, evidence)
    able = [each for each in ranked if _answers(asked, each)]
    if not able:
        return Extraction(asked.want.name, (), _refusal(asked, evidence, ranked))
    shown = list(_distinct(able))[:most]
    return Extraction(asked.want.name, tuple(sentence_of(candidate.statement, asked) for candidate in shown), None)


def _answers(asked: AskedQuestion, candidate: AnswerCandidate) -> bool:
    """Return whether a statement scores high enough and names the subject of the question.

    If the question asks for a certain expression, words that stand only in the sentences around the statement do not
    count. A question of general words alone ("my last day") needs them side by side.
    """
    if candidate.score < LEAST_SCORE or candidate.match.coverage < LEAST_COVERAGE:
        return False
    named = {term for term, weight in asked.weights.items() if weight == 1.0}
    if not named:
        return f" {' '.join(asked.weights)} " in f" {' '.join(terms(candidate.statement.text()))} "
    beside = candidate.match.aside if asked.want.strict else frozenset()
    held = len(named - candidate.match.missing - beside)
    return held == len(named) if len(named) <= SHORT else held > LEAST_NAMED * len(named)


def candidates(asked: AskedQuestion, evidence: Sequence[Evidence]) -> list[AnswerCandidate]:
    """Return the statements of the passages that could be an answer by their form, best first."""
    read = [statement for passage in evidence for statement in statements(passage)]
    fits = [fitness(asked, statement) for statement in read]
    scored = [
        AnswerCandidate(statement, match, fit, _score(statement, match, fit))
        for statement, match, fit in zip(read, matches(asked, read), fits)
        if fit > 0.0
    ]
    return sorted(scored, key=_order)


def _order(candidate: AnswerCandidate) -> tuple[float, int, str, int]:
    evidence = candidate.statement.evidence
    return (-candidate.score, evidence.rank, evidence.label, candidate.statement.start)


def _score(statement: Statement, match: QuestionMatch, fit: float) -> float:
    length = len(statement.text(statement.spans[:1]).split())
    return match.coverage + _FIT * fit + _LITERAL * match.literal + _RANK / statement.evidence.rank - _LONG * length


def _distinct(able: Sequence[AnswerCandidate]) -> Iterator[AnswerCandidate]:
    """Yield the best candidate and those nearly as good that say something else."""
    shown: list[tuple[str, str]] = []
    for candidate in able:
        if candidate.score < SIMILAR * able[0].score:
            break
        statement = candidate.statement
        own = " ".join(words(statement.text()))
        whole = " ".join(words(statement.text((*statement.above, *statement.spans, *statement.after))))
        if not any(own in other_whole or other_own in whole for other_own, other_whole in shown):
            shown.append((own, whole))
            yield candidate


def _refusal(asked: AskedQuestion, evidence: Sequence[Evidence], ranked: Sequence[AnswerCandidate]) -> AnswerRefusal:
    """Return what was looked for, and which words of the question stand in no sentence of that kind."""
    telling = {term for term, weight in asked.weights.items() if weight == 1.0} or set(asked.weights)
    named = [word for word in words(asked.text) if telling.intersection(terms(word))]
    missing = ranked[0].match.missing if ranked else frozenset(asked.weights)
    absent = [word for word in named if missing.intersection(terms(word))]
    about = ", ".join(dict.fromkeys(word.strip("?.,;:!") for word in named))
    message = f"None of the {len(evidence)} passages has a sentence with {asked.want.asked} about: {about}."
    if absent:
        message += f" The nearest one lacks: {', '.join(dict.fromkeys(word.strip('?.,;:!') for word in absent))}."
    return AnswerRefusal("no_sentence", f"{message} Read the passages, or ask in the words of the documents.")
