"""Which term a question wants explained, and how well a statement explains it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from context_engine.answer.closeness import closest
from context_engine.answer.sentences import Statement, StatementKind
from context_engine.core.query import acronyms
from context_engine.core.text import terms

_WORD: Final = r"[\w./()&'-]+"
_KNOWN_AS: Final = r"(?:count(?:s|ed)?|class(?:ed|ified)|regarded|considered|treated) as"
EXPLAINED: Final = (
    r"\bwhat (?:do|does|did) (?:we|you|they|people|it) mean by (?P<meant>[^?]+)"
    r"|\bwhat(?:'s| is| are)? meant by (?P<by>[^?]+)"
    rf"|^\W*what(?:'s| is) an? (?P<single>{_WORD})(?=\W*$)"
    r"|\bwhat (?:does|do) (?P<does>.{1,80}?) (?P<long>stand for|mean\b|refer to)"
    r"|\b(?:define|(?:definition|meaning) of|explain what) (?P<of>[^?]+?)(?: (?:is|are|means?))?(?=\W*$)"
    rf"|^\W*(?:what|who|when)\b.{{0,60}}?\b{_KNOWN_AS} (?P<as>[^?]+)"
    rf"|^\W*(?P<word>{_WORD}(?: {_WORD}){{0,3}}) (?:meaning|definition|abbreviation|(?P<spelt>stands? for))(?=\W*$)"
)
"""A question that asks for an explanation in so many words."""
NAMED: Final = (
    rf"^\W*what(?:'s| is| are)(?: an?| (?P<known>the))? (?P<named>(?:{_WORD} ){{0,4}}?{_WORD}"
    r"(?: (?:when|under|according to|in the context of)\b[^?]*)?)(?=\W*$)"
)
"""A question "what is X", with at most five words for X."""
_CONTEXT: Final = re.compile(r" (?:when|under|according to|in the|for the purposes? of|as opposed to)\b.*")
_SHORT_FORM: Final = re.compile(r"(?:(?i:the|abbreviation|acronym) )*([A-Z][\w&/-]*[A-Z][\w&/-]*)")
_SAYS_WHAT: Final = re.compile(
    r"\b(?:(?:is|are)(?! (?:not|never|no longer|subject to|considered|required)\b)|(?<!not )means?|refers? to"
    r"|stands? for|defined as|includes?|indicates?|describes?)\b|[–—:]| - ",
    re.IGNORECASE,
)
_OPENING: Final = re.compile(r"\W*(?:\d{1,3}\]:\W*)?(?:(?:an?|the)\b)?\s*", re.IGNORECASE)
_BRACKETED: Final = re.compile(r"\s*\([^()]*\)")
_CALLED: Final = r"\b(?:known as|called|referred to as|termed|a\.?k\.?a\.?|i\.e\.,?)\s+(?:an?\s+|the\s+)?['\"“‘]?"
_RULE: Final = re.compile(r"\b(?:must|shall|should|may|can)\b", re.IGNORECASE)

_NEARLY: Final = 0.8
_SPELT: Final = 0.5
_LONGER: Final = 1
_TOLD_OF: Final = 0.1
"""Fitness of a statement that does not explain the term, for a question that takes it as known: "the dress code"."""


class AskedTerm(NamedTuple):
    """What a question wants explained.

    Attributes:
        text: the term as written.
        context: what the question says about it: "under the standard".
        terms: its search terms in order.
        short: the term, if it is an abbreviation; else empty.
        is_long_form: whether only the long form of an abbreviation is asked for.
        is_known: whether the question takes the term as known, so that what a text says of it may be an answer.
    """

    text: str = ""
    context: str = ""
    terms: tuple[str, ...] = ()
    short: str = ""
    is_long_form: bool = False
    is_known: bool = False


def asked_term(match: re.Match[str]) -> AskedTerm:
    """Return what a match of `EXPLAINED` or `NAMED` asks for."""
    named = match.groupdict()
    text = next(
        named[name] for name in ("meant", "by", "does", "of", "as", "word", "single", "named") if named.get(name)
    )
    term = _CONTEXT.sub("", text)
    context = text[len(term) :] + match.string[match.end() :]
    short = _SHORT_FORM.fullmatch(term.strip())
    is_long_form = bool(short) and (named.get("long") == "stand for" or bool(named.get("spelt")))
    return AskedTerm(
        term, context, tuple(terms(term)), short[1] if short else "", is_long_form, bool(named.get("known"))
    )


def explains(asked: AskedTerm, statement: Statement) -> float:
    """Return how well a statement explains a term, [0, 1]; 0 if it does not."""
    spelt = _spells_out(asked.short, statement) if asked.short else 0.0
    if asked.is_long_form:
        return spelt
    text = statement.text()
    least = _TOLD_OF if asked.is_known or not asked.terms else 0.0
    if not asked.terms:
        return least
    if statement.kind is StatementKind.ROW:
        cells = [tuple(terms(statement.text((cell.span,)))) for cell in statement.cells]
        return max(spelt, 1.0 if asked.terms in cells[:1] else least)
    whole = statement.text((*statement.above, *statement.spans))
    ways = (spelt * _SPELT, _says_what(asked, text), _says_what(asked, whole), _below_heading(asked, statement))
    return max(*ways, _NEARLY if _is_called(asked, text) else least)


def _spells_out(short: str, statement: Statement) -> float:
    """Return whether a statement has the long form of an abbreviation, or stands below a heading that has it."""
    text = statement.text()
    in_brackets = rf"(?:\b[A-Z][\w-]+ ){{2,}}\({re.escape(short)}\)"
    if short in acronyms(text) or re.search(in_brackets, text):
        return 1.0
    if any(statement.text((cell.span,)) == short for cell in statement.cells):
        return 1.0
    return 0.4 if any(short in acronyms(heading) for heading in statement.headings[-1:]) else 0.0


def _says_what(asked: AskedTerm, text: str) -> float:
    """Return whether a text begins with the term and says what it is."""
    opening = _OPENING.sub("", text, count=1)
    meaning = _SAYS_WHAT.search(opening)
    if meaning is None or not terms(opening[meaning.end() :]):
        return 0.0
    head = opening[: meaning.start()]
    written = terms(_BRACKETED.sub("", head))
    if asked.short and head.rstrip().endswith(f"({asked.short})"):
        return 1.0
    if not all(closest(term, frozenset(written)) > 0.0 for term in asked.terms):
        return 0.0
    if written[: len(asked.terms)] == list(asked.terms):
        return 1.0
    return _NEARLY if len(written) <= len(asked.terms) + _LONGER else 0.0


def _below_heading(asked: AskedTerm, statement: Statement) -> float:
    """Return whether a statement is the first one below a heading that is the term, as in a glossary."""
    heading = statement.headings[-1] if statement.headings else ""
    is_long_form = bool(asked.short) and f"({asked.short})" in heading
    is_entry = is_long_form or tuple(terms(_BRACKETED.sub("", heading))) == asked.terms
    is_first = not statement.around and not statement.above
    return 1.0 if is_entry and is_first and not _RULE.search(statement.text()) else 0.0


def _is_called(asked: AskedTerm, text: str) -> bool:
    """Return whether a text names the term after what it stands for: "..., known as a vault key, ..."."""
    count = len(asked.terms)
    names = (terms(text[match.end() :])[:count] for match in re.finditer(_CALLED, text, re.IGNORECASE))
    return count > 0 and any(tuple(name) == asked.terms for name in names)
