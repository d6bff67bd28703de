"""Which term a question wants explained, and how well a statement explains it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from context_engine.answer.closeness import closest
from context_engine.answer.sentences import Statement, StatementKind
from context_engine.core.query import acronyms
from context_engine.core.text import terms


def _forms(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_REQUEST: Final = r"^\W*(?:(?:please|can|could|would|will|how|you|someone|anyone|somebody|we|one)\b\s*)*"
_EMPHASIS: Final = r"(?: (?:exactly|actually|precisely|really))?"
_THAT: Final = r"(?:it|that|this|those|they)"
_NOT_A_CLAUSE: Final = (
    r"(?!(?:how|why|who|whom|whose|when|where|which|what|whether|if|is|are|does|do|may|must|can|should)\b)"
)
_NOT_A_STATE: Final = (
    r"(?!(?:not|done|to|it|this|that|there|in|on|at)\b"
    r"|\w+(?:ed|able|ible)(?=$| (?:for|in|to|by|when|before|after|if|under|on|at|from|with)\b))"
)
"""No participle: "what is required for travel" asks for a rule."""
_EXPLICIT: Final = _forms(
    rf"{_REQUEST}(?:explain|describe|define|(?P<spell>spell out)) (?:what )?{_NOT_A_CLAUSE}(?P<term>.+?)"
    r"(?: (?:is|are|means?))?$",
    rf"{_REQUEST}(?:tell (?:me|us) )?what (?!the\b|our\b|my\b){_NOT_A_CLAUSE}(?P<term>.+?)"
    rf"{_EMPHASIS} (?:is|are|means?)$",
    r"^\W*(?:what|who|when)\b.{0,60}? (?:count|class|qualif)\w* as (?P<term>.+)$",
    r"^\W*what(?:'s| is| are| do| does| did)?(?: (?:we|you|they|people))? (?:meant|mean) by (?P<term>.+)$",
    r"\bwhat (?:does|do) (?P<term>.+?) (?:(?P<stand>stand for)|mean|refer to)\b(?! time\b).*$",
    r"\b(?:definition|meaning) of (?P<term>.+)$",
    rf"^\W*{_NOT_A_CLAUSE}(?P<term>.+?) (?:(?P<stands>stands? for)(?: what)?|meaning|definition|abbreviation)$",
    rf"^\W*(?P<term>(?:\S+ ){{0,2}}\S+?)(?: [-–—]|[,:]) (?:what|which \w+) (?:is|are|does) {_THAT}(?: mean)?$",
    rf"^\W*what(?:'s| is){_EMPHASIS} an? (?P<term>\S+)$",
)
_PLAIN: Final = _forms(
    rf"^\W*what(?:'s| is| are){_EMPHASIS}(?: an?(?= ))? {_NOT_A_STATE}(?P<term>(?:the )?(?:\S+ ){{0,4}}?\S+?"
    r"(?:,? (?:when|under|according to|within|in|for|and|as opposed to)\b.*)?)$"
)
_TRAILING: Final = re.compile(r"\?.*| [-–—] (?=(?:does|do|is|are|can)\b).*|[\s?.!]+$", re.DOTALL)
_LEADING: Final = re.compile(
    r"^(?:(?:an?|the|acronym|abbreviation|term|word)\b\s*)+|\s*\b(?:for (?:me|us)|please)\b", re.IGNORECASE
)
_CONTEXT: Final = re.compile(
    r",? (?:when|under|according to|within|in|for|and (?:why|how|when|what)|as opposed to)\b.*", re.IGNORECASE
)
_SHORT_FORM: Final = re.compile(r"(?=\w*[A-Z]\w*[A-Z])[\w&/-]+")
_KNOWN: Final = re.compile(r"(?:the|our|your|my|their|its|this|these|those)\b", re.IGNORECASE)
_PLURAL: Final = re.compile(r"\W*what are\b", re.IGNORECASE)
_MOST_TERMS: Final = 5
_LONGEST: Final = 300
"""Characters of a question for a definition, so that its forms are matched in little time."""


class AskedTerm(NamedTuple):
    """What a question wants explained.

    Attributes:
        text: the term as written.
        context: what the question says about it: "under the standard".
        terms: the search terms of the term in order.
        with_context: the search terms of term and context, because a term may hold a preposition: "data in use".
        short: the term, if it is an abbreviation; else empty.
        is_long_form: whether only the long form of an abbreviation is asked for.
        is_known: whether the question takes the term as known ("the dress code", "what are ..."), so that what a text
            says of it may be an answer.
    """

    text: str = ""
    context: str = ""
    terms: tuple[str, ...] = ()
    with_context: tuple[str, ...] = ()
    short: str = ""
    is_long_form: bool = False
    is_known: bool = False


def asked_term(question: str, *, explicit: bool) -> AskedTerm | None:
    """Return the term that a question of one sentence wants explained, or None.

    Args:
        explicit: True reads "what does X mean", "define X", "what counts as X" ...; False reads "what is X" only.

    >>> asked_term("What does RTO stand for?", explicit=True).short
    'RTO'
    """
    if len(question) > _LONGEST:
        return None
    asked = _TRAILING.sub("", question)
    forms = _EXPLICIT if explicit else _PLAIN
    match = next((match for form in forms if (match := form.search(asked))), None)
    if match is None:
        return None
    named = match.groupdict()
    text = _LEADING.sub("", named["term"]).strip("\"'“”‘’ ")
    term = _CONTEXT.sub("", text)
    words = tuple(terms(term))
    if not words or len(words) > _MOST_TERMS:
        return None
    short = _SHORT_FORM.fullmatch(term)
    spelt = any(named.get(name) for name in ("spell", "stand", "stands"))
    context = f"{text[len(term) :]} {question[len(asked) :]}"
    known = bool(_KNOWN.match(named["term"]) or _PLURAL.match(asked))
    return AskedTerm(term, context, words, tuple(terms(text)), short[0] if short else "", bool(short and spelt), known)


_DEFINING: Final = re.compile(
    r"\b(?:(?:is|are) (?:an?|the|any|those|all|one|when|where|how|what|someone|anyone|used to|defined)\b"
    r"|(?<!not )means?\b|refers? to\b|stands? for\b|defined as\b|includes?\b|determines?\b)|[–—:]| - ",
    re.IGNORECASE,
)
_BARE_IS: Final = re.compile(
    r"\b(?:is|are)\b(?! (?:not|never|no longer|subject to)\b| (?:\w+ly )?\w+(?:ed|en|wn)"
    r"(?:[,.;]| (?:by|in|at|on|to|for|with|from|when|until|unless|as|and|or|before|after)\b))",
    re.IGNORECASE,
)
_OPENING: Final = re.compile(r"\W*(?:\d{1,3}\]:\W*)?(?:(?:an?|the)\b)?\s*", re.IGNORECASE)
_CONDITION: Final = re.compile(r"(?:if|when|where|once|as|for|use of|using)\b", re.IGNORECASE)
_BRACKETED: Final = re.compile(r"\s*\([^()]*\)")
_CALLED: Final = re.compile(
    r"\b(?:known as|called|referred to as|termed|a\.?k\.?a\.?|i\.e\.,?)\s+(?:an?\s+|the\s+)?['\"“‘]?", re.IGNORECASE
)
_RULE: Final = re.compile(r"\b(?:must|shall|should)\b|(?<!that )(?<!which )(?<!who )\b(?:may|can)\b", re.IGNORECASE)

_LOOSE: Final = 0.8
"""Fitness where the term is not at the very beginning, is named afterwards, or heads a row of several columns."""
_BARE: Final = 0.7
"""Fitness of "X is ..." without an article, which may tell a property: "an RTO is about time"."""
_IN_HEADING: Final = 0.4
"""Fitness where only the heading has the long form of an abbreviation."""
_LONG_FORM: Final = 0.3
"""Share of the fitness of a long form, where an explanation would be better."""
_MENTION: Final = 0.1
"""Fitness of a statement that does not explain the term, if the question takes the term as known."""
_SPARE_WORDS: Final = 1
"""Words that may stand beside the term before "is" or "means"."""


def explains(asked: AskedTerm, statement: Statement) -> float:
    """Return how well a statement explains a term, [0, 1]; 0 if it does not."""
    spelt = _spells_out(asked.short, statement) if asked.short else 0.0
    if asked.is_long_form:
        return spelt
    least = _MENTION if asked.is_known else 0.0
    terms_asked = dict.fromkeys((asked.terms, asked.with_context))
    return max(spelt * _LONG_FORM, least, *(_explains(asked.short, wanted, statement) for wanted in terms_asked))


def _explains(short: str, wanted: tuple[str, ...], statement: Statement) -> float:
    text = statement.text()
    if statement.kind is StatementKind.ROW:
        cells = [tuple(terms(statement.text((cell.span,)))) for cell in statement.cells]
        return (1.0 if len(cells) == 2 else _LOOSE) if wanted in cells[:1] else 0.0
    whole = statement.text((*statement.above, *statement.spans))
    called = _LOOSE if _is_called(wanted, text) else 0.0
    return max(
        called, _says_what(short, wanted, text), _says_what(short, wanted, whole), _entry(short, wanted, statement)
    )


def _spells_out(short: str, statement: Statement) -> float:
    """Return how well a statement gives the long form of an abbreviation, [0, 1]."""
    text = statement.text()
    in_brackets = rf"(?:\b[A-Z][\w-]+ ){{2,}}\({re.escape(short)}\)"
    if short in acronyms(text) or re.search(in_brackets, text):
        return 1.0
    if any(statement.text((cell.span,)) == short for cell in statement.cells):
        return 1.0
    return _IN_HEADING if any(short in acronyms(heading) for heading in statement.headings[-1:]) else 0.0


def _says_what(short: str, wanted: tuple[str, ...], text: str) -> float:
    """Return how well a text begins with the term and says what it is, [0, 1]."""
    opening = _OPENING.sub("", text, count=1)
    meaning = _DEFINING.search(opening) or _BARE_IS.search(opening)
    if meaning is None or _CONDITION.match(opening) or not terms(opening[meaning.end() :]):
        return 0.0
    head = opening[: meaning.start()]
    full = 1.0 if _DEFINING.match(opening, meaning.start()) else _BARE
    if short and head.rstrip().endswith(f"({short})"):
        return full
    written = terms(_BRACKETED.sub("", head))
    if not all(closest(term, frozenset(written)) > 0.0 for term in wanted):
        return 0.0
    is_short = len(written) <= len(wanted) + _SPARE_WORDS
    if written[: len(wanted)] == list(wanted) and (is_short or "," in head):
        return full
    return full * _LOOSE if is_short else 0.0


def _entry(short: str, wanted: tuple[str, ...], statement: Statement) -> float:
    """Return 1 for the first statement below a heading that is the term, as in a glossary; else 0."""
    heading = statement.headings[-1] if statement.headings else ""
    is_long_form = bool(short) and f"({short})" in heading
    is_entry = is_long_form or tuple(terms(_BRACKETED.sub("", heading))) == wanted
    is_first = not statement.around and not statement.above
    return float(is_entry and is_first and not _RULE.search(statement.text()))


def _is_called(wanted: tuple[str, ...], text: str) -> bool:
    """Return whether a text names the term after what it stands for: "..., known as a vault key, ..."."""
    names = (terms(text[match.end() :])[: len(wanted)] for match in _CALLED.finditer(text))
    return any(tuple(name) == wanted for name in names)
