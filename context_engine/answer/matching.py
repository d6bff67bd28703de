"""How much of a question each statement holds: in its own words, what it hangs on, and the headings above it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import Final, NamedTuple

from context_engine.answer.bands import inside
from context_engine.answer.sentences import Statement, StatementKind
from context_engine.answer.synonyms import closest
from context_engine.answer.wants import AskedQuestion
from context_engine.core.chunking.spans import Span
from context_engine.core.text import terms, tokens

ABOVE: Final = 0.95
SECTION: Final = 0.8
TITLE: Final = 0.75
AFTER: Final = 0.7
AROUND: Final = 0.15
ITEMS: Final = 0.6
"""Strength of a word beside a statement's own words, which have 1: lead-in and columns, sections, the document's title,
exceptions, earlier sentences; and of the words of a whole list's items, which are many."""

_MOST_LIGHT: Final = 2.0


class QuestionMatch(NamedTuple):
    """What a statement holds of a question.

    Attributes:
        coverage: [0, 1], the share of the question's information in the statement and what it stands below.
        literal: [0, 1], the share of the question's tokens that it holds as written, function words included.
        missing: terms of the question that stand nowhere there.
    """

    coverage: float
    literal: float
    missing: frozenset[str]


def matches(question: AskedQuestion, statements: Sequence[Statement]) -> list[QuestionMatch]:
    """Return what each statement holds of a question.

    A word weighs log(1 + N / (n + 1/2)), with n of N statements that hold it themselves: a word that no statement
    holds weighs most.
    """
    asked = list(question.weights)
    words = frozenset(tokens(question.text))
    zones = [_zones(question, statement) for statement in statements]
    everywhere = [{term: _strength(term, zone) for term in asked} for zone in zones]
    counts = {term: sum(_strength(term, zone[:2]) > 0.0 for zone in zones) for term in asked}
    weights = {term: _weight(question.weights[term], len(zones), counts[term]) for term in asked}
    whole = sum(weights.values()) or 1.0
    return [
        QuestionMatch(
            coverage=sum(weights[term] * around[term] for term in asked) / whole,
            literal=len(words.intersection(tokens(statement.text()))) / (len(words) or 1),
            missing=frozenset(term for term in asked if around[term] == 0.0),
        )
        for statement, around in zip(statements, everywhere)
    ]


def _weight(weight: float, count: int, holding: int) -> float:
    """Return a word's weight among `count` statements; a light word weighs no more where it is missing."""
    information = log(1 + count / (holding + 0.5))
    return weight * (min(information, _MOST_LIGHT) if weight < 1.0 else information)


_Zone = tuple[float, frozenset[str]]


def _zones(question: AskedQuestion, statement: Statement) -> tuple[_Zone, ...]:
    """Return the terms of a statement and of what is around it, with the strength of each; its own come first.

    A row for "over 5 years" holds the 7 years of a question.
    """
    banded = (size for cell in statement.cells for size in inside(question.quantities, statement.text((cell.span,))))
    sizes = frozenset[str]().union(*(_terms_of(size.written) for size in banded))
    columns = [cell.column for cell in statement.cells if cell.column[0] < cell.column[1]]
    headings = statement.headings
    return (
        (ITEMS if statement.kind is StatementKind.LIST else 1.0, _terms(statement, statement.spans) | sizes),
        (ABOVE, _terms(statement, (*statement.above, *columns))),
        (SECTION, frozenset().union(*map(_terms_of, headings[1:]))),
        (TITLE, frozenset().union(*map(_terms_of, headings[:1]))),
        (AFTER, _terms(statement, statement.after)),
        (AROUND, _terms(statement, statement.around)),
    )


def _terms(statement: Statement, spans: Sequence[Span]) -> frozenset[str]:
    return frozenset().union(*(_terms_of(statement.text((span,))) for span in spans))


@lru_cache(maxsize=16_384)
def _terms_of(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _strength(term: str, zones: Sequence[_Zone]) -> float:
    return max(share * closest(term, words) for share, words in zones)
