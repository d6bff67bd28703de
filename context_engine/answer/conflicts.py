"""Contradictions between passages: sentences that say the same thing with another value, modal, negation or bound.

Contradictions are shown beside an answer, not blended into it. Which of the two yields follows from authority alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, pairwise
from typing import Final, Literal, NamedTuple, Protocol

from context_engine.answer.clauses import Clause, stated
from context_engine.answer.quantities import Value
from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken, Tokens, content_keys, read
from context_engine.answer.sentences import StatementKind
from context_engine.answer.subjects import divided
from context_engine.answer.values import Evidence, Quote, Sentence
from context_engine.core.ranking.guard import negated
from context_engine.core.text import stems

LEAST_ALIKE: Final = 0.7
"""Least share of the longer sentence's words that both must have to say the same thing."""
_HEADER: Final = re.compile(r"[A-Z][\w .]{1,30}: ")
_NUMBERED: Final = re.compile(r"^(?:§ ?)?\d[\d.]*\.?\s+")
_LEAST_WORDS: Final = 3
_COMPARED: Final = (MeaningKind.MODAL, MeaningKind.NEGATION, MeaningKind.BOUND, MeaningKind.DATE)
_LAW: Final = "section article clause annex appendix chapter schedule paragraph rule regulation cfr usc"
_PARTS_OF_LAWS: Final = frozenset(form for word in _LAW.split() for form in (word, f"{word}s"))

_ACCEPTING: Final = frozenset(stems(["permit", "allow", "accept", "support"]))

Yields = Literal["first", "second", "undecided"]


class HasAuthority(Protocol):
    """A side of a contradiction: its tier, and the ISO date on which it came into force; None if unknown."""

    @property
    def tier(self) -> int | None: ...

    @property
    def effective_from(self) -> str | None: ...


class ConflictDifference(NamedTuple):
    """What two sentences about the same thing say otherwise.

    Attributes:
        code: number, unit, currency, date, modal, negation, bound or opposite.
        first, second: the words concerned, of the first and of the second sentence; empty where it has none.
    """

    code: str
    first: str
    second: str


class Side(NamedTuple):
    """One of two passages that contradict each other.

    Attributes:
        tier: of the passage's source; None if unknown.
        effective_from: ISO date; None if unknown.
    """

    quote: Quote
    tier: int | None
    effective_from: str | None


class Conflict(NamedTuple):
    """Two passages that say the same thing otherwise.

    Attributes:
        differences: at least one.
        yields: which side has less authority: the higher tier number, or of one tier the earlier date on which it came
            into force; "undecided" if neither decides.
    """

    first: Side
    second: Side
    differences: tuple[ConflictDifference, ...]
    yields: Yields


class ComparedStatement(NamedTuple):
    """A sentence of a passage, or a cell.

    Attributes:
        kind: of the statement that it is, or is a cell of.
        named: keys of what names a cell's row and column; empty for a sentence.
        words: keys of its words, without values, modals and negations.
    """

    evidence: Evidence
    kind: StatementKind
    quote: Quote
    named: frozenset[str]
    tokens: tuple[MeaningToken, ...]
    words: frozenset[str]


def conflicts(sentences: Iterable[Sentence], evidence: Mapping[str, Evidence]) -> tuple[Conflict, ...]:
    """Return the contradictions between what an answer quotes and the other passages.

    Args:
        sentences: of the answer; the statements that they quote are compared with every statement of other passages.
        evidence: the passages of the context, by label.

    Returns:
        The pairs in the order of the passages' ranks; the better ranked passage is the first of a pair.
    """
    known = [item for passage in sorted(evidence.values(), key=_rank) for item in compared_statements(passage)]
    quotes = [quote for sentence in sentences for quote in sentence.quotes]
    is_quoted = [any(_overlap(item.quote, quote) for quote in quotes) for item in known]
    pairs = combinations(zip(known, is_quoted, strict=True), 2)
    return tuple(
        _conflicts(
            (first, second)
            for (first, first_is_quoted), (second, second_is_quoted) in pairs
            if first_is_quoted or second_is_quoted
        )
    )


def differs(first: Tokens, second: Tokens) -> tuple[ConflictDifference, ...]:
    """Return what two sentences about the same thing say otherwise; empty if they agree or are about something else.

    Args:
        first, second: as `reading.read` returns them.
    """
    if not same_subject(first, second) or _is_accepted(first, second):
        return ()
    opposites = _opposites(_words(first), _words(second))
    return tuple(dict.fromkeys((*_values(first, second), *_kinds(first, second), *opposites)))


def same_subject(first: Tokens, second: Tokens) -> bool:
    """Return whether two sentences are about the same thing.

    At least `LEAST_ALIKE` of the longer one's words stand in both, and neither has a name, a word of its subject ("user
    codes", "guest codes"), a number that names its subject ("Tier 1 branches", "Tier 2 branches"), or a place in a law
    ("45 CFR 164.524", "Article 17") in place of the other's.
    """
    words, others = _words(first), _words(second)
    common = words & others
    renamed = _names(first) - others and _names(second) - words
    renamed = renamed or (_words(divided(first)[0]) - others and _words(divided(second)[0]) - words)
    numbers, other_numbers = frozenset(_naming_numbers(first)), frozenset(_naming_numbers(second))
    renamed = renamed or (numbers - other_numbers and other_numbers - numbers)
    return not renamed and len(common) >= max(_LEAST_WORDS, LEAST_ALIKE * max(len(words), len(others)))


def _is_accepted(first: Tokens, second: Tokens) -> bool:
    """Return whether one sentence says how much is needed at least, and the other how much is to be accepted at least:
    "must have at least 8 characters", "should permit at least 64 characters".
    """
    lower = (any(token.value and token.value.bound == "at least" for token in tokens) for tokens in (first, second))
    return all(lower) and _permits(first) is not _permits(second)


def _permits(tokens: Tokens) -> bool:
    modals = {token.key for token in tokens if token.kind is MeaningKind.MODAL}
    return any(token.key in _ACCEPTING for token in tokens) or ("may" in modals and len(modals) > 1)


def _is_header(text: str) -> bool:
    """Return whether a statement is a document's header: "Version: 3.2", "Owner: Group Risk"."""
    return len(_HEADER.findall(text)) > 1


def compared_statements(passage: Evidence) -> Iterator[ComparedStatement]:
    """Yield the statements of a passage; of a row or record the name and one cell at a time."""
    for item in stated(passage):
        if _is_header(item.statement.text()):
            continue
        span = (item.statement.spans[0][0], item.statement.spans[-1][1])
        quote = Quote(passage.label, *span, passage.text[slice(*span)])
        for named, tokens in _token_rows(item):
            yield ComparedStatement(passage, item.statement.kind, quote, named, tokens, _words(tokens))


def _overlap(first: Quote, second: Quote) -> bool:
    return first.label == second.label and first.start < second.end and second.start < first.end


def _token_rows(item: Clause) -> Iterator[tuple[frozenset[str], tuple[MeaningToken, ...]]]:
    """Yield the tokens of a statement, of a row those of each cell, with the keys of the names of row and column."""
    if not item.cells:
        yield frozenset(), item.tokens
        return
    name, *cells = item.cells
    named = content_keys(name.tokens) or item.context
    for cell in cells:
        yield named | content_keys(cell.column), (*name.tokens, *cell.column, *cell.tokens)


def _conflicts(pairs: Iterable[tuple[ComparedStatement, ComparedStatement]]) -> Iterator[Conflict]:
    for first, second in pairs:
        if first.quote.label == second.quote.label or first.named != second.named:
            continue
        if _other_sections(first.evidence, second.evidence):
            continue
        if len(first.words & second.words) < LEAST_ALIKE * max(len(first.words), len(second.words)):
            continue
        if differences := differs(first.tokens, second.tokens):
            sides = [Side(each.quote, each.evidence.tier, each.evidence.effective_from) for each in (first, second)]
            yield Conflict(sides[0], sides[1], differences, which_yields(sides[0], sides[1]))


def _other_sections(first: Evidence, second: Evidence) -> bool:
    """Return whether two passages stand in one document under different headings, which speak of different things.

    Passages that came into force on different dates are of two versions.
    """
    is_one_document = (first.source_id, first.headings[:1], first.effective_from) == (
        second.source_id,
        second.headings[:1],
        second.effective_from,
    )
    return is_one_document and heading_words(first.headings) != heading_words(second.headings)


def heading_words(headings: Iterable[str]) -> str:
    """Return the words of headings as keys, outermost first, without the numbers of sections.

    >>> heading_words(["4 Limits", "4.2 Limits of desks"])
    'limit limit desk'
    """
    texts = (_NUMBERED.sub("", heading) for heading in headings)
    return " ".join(token.key for text in texts for token in read(text) if token.kind in CONTENT)


def which_yields(first: HasAuthority, second: HasAuthority) -> Yields:
    """Return which of two sides has less authority; see `Conflict.yields`."""
    if first.tier is not None and second.tier is not None and first.tier != second.tier:
        return "first" if first.tier > second.tier else "second"
    dates = (first.effective_from, second.effective_from)
    if first.tier != second.tier or dates[0] is None or dates[1] is None or dates[0] == dates[1]:
        return "undecided"
    return "first" if dates[0] < dates[1] else "second"


def _rank(passage: Evidence) -> tuple[int, str]:
    return passage.rank, passage.label


def _words(tokens: Iterable[MeaningToken]) -> frozenset[str]:
    return frozenset(
        token.key for token in tokens if token.kind in (MeaningKind.WORD, MeaningKind.SIDE, MeaningKind.REFERENCE)
    )


def _names(tokens: Iterable[MeaningToken]) -> frozenset[str]:
    return frozenset(token.key for token in tokens if token.is_name)


def _naming_numbers(tokens: Tokens) -> Iterator[str]:
    """Yield the bare number behind each word for a part of a law, and behind each word of the subject: "Article 17"."""
    subject = divided(tokens)[0]
    in_law = (pair for pair in pairwise(tokens) if pair[0].written in _PARTS_OF_LAWS)
    in_subject = (pair for pair in pairwise(subject) if pair[0].kind is MeaningKind.WORD)
    for _, token in (*in_law, *in_subject):
        if token.value and token.value == Value(token.value.number):
            yield token.key


def _values(first: Tokens, second: Tokens) -> Iterator[ConflictDifference]:
    """Yield the values that only one sentence has, each with that of the other which stands in its place."""
    values, others = _valued(first), _valued(second)
    left = [(value, token) for value, token in values.items() if value not in others]
    right = [(value, token) for value, token in others.items() if value not in values]
    for (value, token), (value_too, token_too) in zip(left, right):
        yield ConflictDifference(value.differs_in(value_too), token.written, token_too.written)


def _valued(tokens: Iterable[MeaningToken]) -> dict[Value, MeaningToken]:
    return {token.value: token for token in tokens if token.value}


def _kinds(first: Tokens, second: Tokens) -> Iterator[ConflictDifference]:
    """Yield the modals, bounds and dates of one sentence that stand in place of the other's, and negations."""
    for kind in _COMPARED:
        first_keys = dict.fromkeys(token.key for token in first if token.kind is kind)
        second_keys = dict.fromkeys(token.key for token in second if token.kind is kind)
        left = [key for key in first_keys if key not in second_keys]
        right = [key for key in second_keys if key not in first_keys]
        if (left and right) or (kind is MeaningKind.NEGATION and (left or right)):
            yield ConflictDifference(kind.value, ", ".join(left), ", ".join(right))


def _opposites(words: frozenset[str], others: frozenset[str]) -> Iterator[ConflictDifference]:
    """Yield a word that the other sentence has with a negating prefix."""
    lost, gained = set(words - others), set(others - words)
    if negated(lost, gained) or negated(gained, lost):
        yield ConflictDifference("opposite", ", ".join(sorted(lost)), ", ".join(sorted(gained)))
