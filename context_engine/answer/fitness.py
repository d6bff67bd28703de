"""How well a statement fits a question: how much of its words it holds, and an expression of the right kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import fsum, log
from typing import Final, NamedTuple

from context_engine.answer.bands import inside, outside
from context_engine.answer.closeness import closest, closest_of
from context_engine.answer.defining import explains
from context_engine.answer.reading import MeaningKind, read
from context_engine.answer.sentences import Statement, StatementKind
from context_engine.answer.wants import FRAMED, AskedQuestion, Expression, has, places_of
from context_engine.core.chunking.spans import Span
from context_engine.core.text import terms, tokens

_NEAR: Final = 70
_BESIDE: Final = 40
_WORDS_AFTER: Final = 3
_WORDS_BEFORE: Final = 2
_MARK: Final = 3
"""Most characters of a mark in a table of duties: "A", "A/R"."""
_WHOLE_LISTS: Final = frozenset({"list", "steps", "role", "reason", "fact"})
_HALF: Final = 0.5
_WITHOUT: Final = 0.25
"""Fitness of a statement without any expression of the kind, where the question does not insist on one."""

_IN_A_LIST: Final = 0.75
_ROLE_FIRST: Final = 0.75
_OTHER_ACT: Final = 0.25
_SECOND_KIND: Final = 0.7
_IN_PASSING: Final = 0.4
_LABEL_ENDS: Final = r":\s(?=(?:(?:an?|the|of|(?-i:[A-Z])[\w&-]*)\s)*$)"
"""The end of a label right before a role: "approving body: New Product "."""
_CLAUSE: Final = re.compile(
    rf"(?!{_LABEL_ENDS})[,;:.]\s(?!(?:shall|must|may|can|should|will)\b)"
    r"|\b(?:if|when|unless|that|which|who|while|and then)\b",
    re.IGNORECASE,
)
_AGENT: Final = re.compile(r"\b(?:by|to|with|from|of|is|are)\b", re.IGNORECASE)
_BY: Final = re.compile(r"\w(?:ed|wn|ne) by (?:(?:an?|the|our|your) )?(?:[\w/]+ ){0,2}$", re.IGNORECASE)
_ACTS: Final = re.compile(r"(?:[ /][\w/]+){0,3}? (?:shall|must|may|can|should|will|is|are|has|have)\b", re.IGNORECASE)
_POST_NOUN: Final = re.compile(
    r"\b(?:leads?|heads?|chairs?)(?= (?:shall|must|may|can|should|will|is|are|has|have)\b)", re.IGNORECASE
)
"""A post, not what somebody does: "the team leads must keep a copy" does not say who leads."""
_POINTER: Final = re.compile(
    r"^\W*(?:please |also |you can )*(?:see|(?:read|learn|find out) (?:more|about)\b) (?!that|whether|to|if)[^;:]*$"
    r"|\b(?:is|are) (?:described|explained|discussed|documented|detailed) (?:in|at|above|below)\b[^,;:]*$",
    re.IGNORECASE,
)
"""A sentence that only says where something is written: "See section 7 for the differences."."""
_ASKS_WHERE: Final = re.compile(
    r"\b(?:where|documents?|sections?|chapters?|polic(?:y|ies)|procedures?|standards?|described|documented)\b",
    re.IGNORECASE,
)
_RESTRICTS: Final = re.compile(
    r"\b(?:with|having|(?:that|which) ha(?:s|ve)) (?:at least |less than |(?:no )?(?:fewer|more) than )?$"
    r"|\b(?:if|when|where|unless)\b[^,;.]*$",
    re.IGNORECASE,
)
"""Words before a number that is a condition, not an answer: "secrets with fewer than 20 bits"."""
_LIMITED: Final = re.compile(
    r"\b(?:limit(?:s|ed)?|restrict(?:s|ed)?|cap(?:s|ped)?)\b[^,;:.]{1,100}?"
    r" to (?:(?:no|not) more than |at most |a maximum of |fewer than )?$",
    re.IGNORECASE,
)
"""Words before a number that limits what they name: "limit failed attempts on an account to no more than 100"."""
_THRESHOLD: Final = re.compile(
    r"\b(?:above|over|exceed\w*|below|under|(?:more|less|greater|lower|higher) than)(?: [a-z]+){0,2} ?$", re.IGNORECASE
)
"""Words before an amount that is a limit and no price: "losses above EUR 5,000"."""
_EXCEPTED: Final = re.compile(
    r"\b(?:other than|except(?: for)?|apart from|excluding)\b[^,;.]*?"
    r"(?=[,;.]|$|\b(?:must|shall|may|can|should|will|is|are)\b)",
    re.IGNORECASE,
)
"""An exception, to which a value does not apply: "codes sent other than by mail are valid for 10 minutes"."""
_DENIES: Final = re.compile(
    r"\b(?:not|no|never|cannot|nor|neither|none|without|except|other than|unless|only|exempt\w*|exclud\w+|prohibit\w*"
    r"|forbidden|optional)\b|n't\b",
    re.IGNORECASE,
)
_MEASURED: Final = frozenset({"number", "amount", "duration"})
_BOUNDS: Final = {
    **dict.fromkeys(("at least", "more than", "minimum"), "least"),
    **dict.fromkeys(("at most", "less than", "within", "maximum"), "most"),
}
_TOWARDS: Final = {
    word: re.compile(
        rf"\b{word}(?: (?:the|an?|its|their|any|both|each|all|your|our))?(?: [\w'’-]+){{0,2}} ?$", re.IGNORECASE
    )
    for word in ("to", "by", "from", "with", "for")
}
_ROLE_WORDS: Final = 8
_CONDITION: Final = re.compile(r"\W*(?:if|when|whenever|where|once|unless)\b[^,;]*,", re.IGNORECASE)
_RUN_IN: Final = re.compile(r"[A-Z][\w’'/-]*(?: (?:of|for|and|to|the|in|by|or|on|[A-Z][\w’'/-]*)){0,7}\.")
"""A title in the line of its text: "Termination for Cause."."""
_NEW_BLOCK: Final = re.compile(r"\n\s*(?:\n|[-*•(|#]|\d{1,3}[.)])")


def fitness(question: AskedQuestion, statement: Statement) -> float:
    """Return how well a statement's form fits a question, [0, 1]; 0 if it can be no answer.

    A statement that says no word which the question does not say answers no question but one for yes or no. One with
    the other bound than is asked for, with a wish where a duty is asked for, or without a "not" fits less.
    """
    text = statement.text()
    if question.want.name != "rule" and {*tokens(text)} <= {*tokens(question.text)}:
        return 0.0
    fits = _form_fits(question, statement)
    if question.is_denied and not _DENIES.search(statement.text((*statement.above, *statement.spans))):
        fits *= _IN_PASSING
    return fits * _bound_fits(question, text) if question.want.name in _MEASURED else fits


def _bound_fits(question: AskedQuestion, text: str) -> float:
    """Return how well a statement with a measure has the bound and the force that a question asks for."""
    read_text = read(text)
    modals = {token.key for token in read_text if token.kind is MeaningKind.MODAL}
    is_wish = (question.is_duty or question.bound == "least") and bool(modals) and "must" not in modals
    words = (token.value.bound if token.value else token.written for token in read_text)
    bounds = {_BOUNDS[word] for word in words if word in _BOUNDS}
    is_other = bool(question.bound and bounds) and question.bound not in bounds
    return (_IN_PASSING if is_wish else 1.0) * (_IN_PASSING if is_other else 1.0)


def _form_fits(question: AskedQuestion, statement: Statement) -> float:
    """Return how well a statement's form fits a question, [0, 1]; 0 if it can be no answer.

    1: an expression of the kind that is asked for stands beside the words it belongs to. 0.5: it stands elsewhere in
    the statement. A question that needs no certain expression ("which", "how do I") takes any statement with 0.25.
    """
    text = statement.text()
    if not text or statement.kind is StatementKind.LEAD or _of_another_band(question, statement):
        return 0.0
    if _POINTER.search(text) and not _ASKS_WHERE.search(question.text):
        return 0.0
    want = question.want
    if statement.kind is StatementKind.LIST and want.name not in _WHOLE_LISTS:
        return 0.0
    if want.name in ("list", "steps"):
        return _of_list(question, statement)
    if statement.kind is StatementKind.LIST and want.name == "role":
        return _of_members(question, statement)
    if want.name == "definition":
        return explains(question.term, statement)
    if want.name == "role" and (columns := _in_columns(question.act, statement)):
        return columns
    if not want.strict:
        whole = statement.text([*statement.above, *statement.spans])
        if want.name == "rule" and _is_condition(question, text):
            return _WITHOUT
        return 1.0 if any(has(kind, whole) for kind in want.holds) else _WITHOUT
    return max(
        (
            _beside(question, kind, statement) * (_SECOND_KIND if place else 1.0)
            for place, kind in enumerate(want.holds)
        ),
        default=0.0,
    )


def _is_condition(question: AskedQuestion, text: str) -> bool:
    """Return whether a statement takes for granted what is asked: "if keys are lent, ...", for "may keys be lent?"."""
    condition = _CONDITION.match(text)
    if condition is None:
        return False
    parts = (text[: condition.end()], text[condition.end() :])
    held, others = (sum(closest_of((term,), part) > 0.0 for term in question.weights) for part in parts)
    return 0 < held >= 2 * others


def _of_another_band(question: AskedQuestion, statement: Statement) -> bool:
    return any(outside(question.quantities, statement.text((cell.span,))) for cell in statement.cells)


def _of_list(question: AskedQuestion, statement: Statement) -> float:
    if statement.kind is StatementKind.LIST:
        return 1.0
    return _IN_A_LIST if any(has(kind, statement.text()) for kind in question.want.holds) else _WITHOUT


def _of_members(question: AskedQuestion, statement: Statement) -> float:
    """Return how well a list of roles fits: its lead-in says what they do."""
    says = closest_of((question.act,), statement.text(statement.above)) > 0.0
    roles = [has(Expression.ROLE, " ".join(statement.text((span,)).split()[:_ROLE_WORDS])) for span in statement.spans]
    return float(says and sum(roles) * 2 >= len(roles))


def _in_columns(act: str, statement: Statement) -> float:
    """Return how well a row or field names who acts: in a column such as "Decided by", or by marks below roles."""
    name, _, value = statement.text().partition(":")
    field = [(name, value)] if statement.kind is StatementKind.FIELD else []
    cells = [(statement.text((cell.column,)), statement.text((cell.span,))) for cell in statement.cells]
    if any(closest_of((act,), column) and not has(Expression.NUMBER, text) for column, text in (*field, *cells[1:])):
        return 1.0
    marks = [column for column, text in cells[1:] if has(Expression.ROLE, column) and len(text) <= _MARK]
    return _ROLE_FIRST if len(marks) > 1 and closest_of((act,), cells[0][0]) else 0.0


def _beside(question: AskedQuestion, kind: Expression, statement: Statement) -> float:
    text = statement.text()
    places = places_of(kind, text)
    if kind is Expression.FREQUENCY and not places:  # "12 months" in the column "Review cycle"
        text = "; ".join(
            f"{statement.text((cell.column,))}: {statement.text((cell.span,))}" for cell in statement.cells
        )
        places = places_of(kind, text)
    if not places:
        return 0.0
    if question.counted:
        return max(_counts(question.counted, text, place) for place in places)
    if kind in (Expression.ROLE, Expression.PARTY):
        fits = max(_acts(question, text, place) for place in places)
        return fits if kind is Expression.ROLE or fits > _OTHER_ACT else 0.0  # a party only where it acts
    if question.is_price:
        places = [place for place in places if not _THRESHOLD.search(text[: place[0]])]
    beside = (" ".join(_around(text, place, _NEAR)) for place in places)
    return max((_HALF + _HALF * closest_of(question.weights, around) for around in beside), default=0.0)


def _counts(counted: frozenset[str], text: str, place: Span) -> float:
    """Return how well a number counts something: "two signatures", "signatures: 2"; "files with 2 pages" do not."""
    if limited := _LIMITED.search(text[: place[0]]):
        return closest_of(counted, limited[0])
    before, after = _around(text, place, _BESIDE)
    near = closest_of(counted, " ".join((*after.split()[:_WORDS_AFTER], *before.split()[-_WORDS_BEFORE:])))
    return near * (_IN_PASSING if _RESTRICTS.search(text[: place[0]]) else 1.0)


def _around(text: str, place: Span, reach: int) -> tuple[str, str]:
    """Return the whole words within some characters before and after a place."""
    start, end = max(place[0] - reach, 0), min(place[1] + reach, len(text))
    before, after = text[start : place[0]], text[place[1] : end]
    return before.partition(" ")[2] if start else before, after.rpartition(" ")[0] if end < len(text) else after


def _acts(question: AskedQuestion, text: str, place: Span) -> float:
    """Return how likely the role at a place is the one that acts: "R approves", "approved by R", "report to R".

    A role that the question itself names does not answer to whom that role reports. If the verb of the question is
    general ("carries out", "puts"), any verb will do.
    """
    before, after = _around(text, place, _NEAR)
    if question.before and _TOWARDS[question.before].search(before):
        return 0.0 if question.weights.keys() >= _terms_of(text[slice(*place)]) else 1.0
    act = question.act
    before, after = _CLAUSE.split(before)[-1], _POST_NOUN.sub(" ", _CLAUSE.split(after)[0])
    if closest_of((act,), after):
        return 1.0
    if closest_of((act,), before):
        return 1.0 if _AGENT.search(before) else _ROLE_FIRST
    is_general = question.weights.get(act, 0.0) < 1.0
    if is_general and _BY.search(before):
        return _ROLE_FIRST
    return (_ROLE_FIRST if is_general else _OTHER_ACT) if _ACTS.match(after) else 0.0


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
        aside: those that only the sentences around it hold.
    """

    coverage: float
    literal: float
    missing: frozenset[str]
    aside: frozenset[str]


def matches(question: AskedQuestion, statements: Sequence[Statement]) -> list[QuestionMatch]:
    """Return what each statement holds of a question.

    A word weighs log(1 + N / (n + 1/2)), with n of N statements that hold it themselves: a word that no statement
    holds weighs most.
    """
    asked = list(question.weights)
    words = frozenset(tokens(FRAMED.sub("", question.text)))
    zones = [_zones(question, statement) for statement in statements]
    everywhere = [{term: _strength(term, zone) for term in asked} for zone in zones]
    counts = {term: sum(_strength(term, zone[:2]) > 0.0 for zone in zones) for term in asked}
    weights = {term: _weight(question.weights[term], len(zones), counts[term]) for term in asked}
    whole = fsum(weights.values()) or 1.0
    return [
        QuestionMatch(
            coverage=fsum(weights[term] * around[term] for term in asked) / whole,
            literal=len(words.intersection(tokens(statement.text()))) / (len(words) or 1),
            missing=frozenset(term for term in asked if around[term] == 0.0),
            aside=frozenset(term for term in asked if 0.0 < around[term] <= AROUND),
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

    A row for "over 5 years" holds the 7 years of a question. A value for all "other than" mail is none for mail.
    """
    banded = (size for cell in statement.cells for size in inside(question.quantities, statement.text((cell.span,))))
    sizes = frozenset[str]().union(*(_terms_of(size.written) for size in banded))
    columns = [cell.column for cell in statement.cells if cell.column[0] < cell.column[1]]
    titles = [span for span in statement.around if _is_run_in(statement, span)]
    headings = statement.headings
    own = _terms(statement, statement.spans)
    asks_for_others = question.is_denied or _EXCEPTED.search(question.text)
    if question.want.strict and question.want.name != "role" and not asks_for_others:
        own = _terms_of(_EXCEPTED.sub(" ", statement.text())) if _EXCEPTED.search(statement.text()) else own
    return (
        (ITEMS if statement.kind is StatementKind.LIST else 1.0, own | sizes),
        (ABOVE, _terms(statement, (*statement.above, *columns))),
        (SECTION, frozenset().union(*map(_terms_of, headings[1:]), _terms(statement, titles))),
        (TITLE, frozenset().union(_named_file(question, statement.evidence.file), *map(_terms_of, headings[:1]))),
        (AFTER, _terms(statement, statement.after)),
        (AROUND, _terms(statement, statement.around)),
    )


def _named_file(question: AskedQuestion, name: str) -> frozenset[str]:
    """Return the words of a file's name if the question has at least half of them; else none."""
    words = _terms_of(name.replace("_", " "))
    return words if 2 * len(words.intersection(question.weights)) >= len(words) else frozenset()


def _is_run_in(statement: Statement, span: Span) -> bool:
    """Return whether a sentence before a statement in its block is the title of the block."""
    text = statement.evidence.text
    is_before = span[1] <= statement.start and not _NEW_BLOCK.search(text, span[1], statement.start)
    return is_before and _RUN_IN.fullmatch(statement.text((span,))) is not None


def _terms(statement: Statement, spans: Sequence[Span]) -> frozenset[str]:
    return frozenset().union(*(_terms_of(statement.text((span,))) for span in spans))


@lru_cache(maxsize=16_384)
def _terms_of(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _strength(term: str, zones: Sequence[_Zone]) -> float:
    return max(share * closest(term, words) for share, words in zones)
