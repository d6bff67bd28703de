"""A statement as a sentence of an answer: its words with the quotes they come from."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.answer.expressions import has
from context_engine.answer.sentences import RowCell, Statement, StatementKind
from context_engine.answer.synonyms import closest_of
from context_engine.answer.values import Quote, Sentence, Verdict
from context_engine.answer.wants import AskedQuestion
from context_engine.core.chunking.spans import Span


def sentence_of(statement: Statement, question: AskedQuestion) -> Sentence:
    """Return a statement as a sentence: lead-in and conditions first, then its words, then what limits it.

    Of a table's row, the first cell and those that the question asks for are shown, each below its column's name.
    """
    cells = _chosen(statement, question) if statement.kind is StatementKind.ROW else []
    middle = [part for cell in cells for part in (cell.column, cell.span) if part[0] < part[1]] or statement.spans
    spans = tuple(dict.fromkeys((*statement.above, *middle, *statement.after)))
    text = statement.evidence.text
    quotes = tuple(Quote(statement.evidence.label, start, end, text[start:end]) for start, end in spans)
    return Sentence(_text(statement, cells), quotes, Verdict.SUPPORTED, 1.0)


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
    asked = [cell for cell in others if any(_says(statement, cell, term) for term in content)]
    told = all(any(_says(statement, cell, term) for cell in statement.cells) for term in content)
    holding = [cell for cell in others if any(has(kind, _words(statement, cell.span)) for kind in question.want.holds)]
    if question.want.strict and not (told and set(holding).intersection(asked)):
        asked = [cell for cell in others if cell in asked or cell in holding]
    return [first, *asked] if asked else list(statement.cells)


def _says(statement: Statement, cell: RowCell, term: str) -> bool:
    return closest_of((term,), f"{_words(statement, cell.column)} {_words(statement, cell.span)}") > 0.0
