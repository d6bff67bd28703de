"""What a query names exactly: identifiers, numbered instruments, section numbers, quoted phrases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from context_engine.text import STOP_WORDS, terms, tokens

__all__ = ["codes", "names_sections_only", "phrases", "references"]

_IDENTIFIER: Final = re.compile(r"(?<![\w.-])(?=[\w./-]*\d)([A-Za-z]{2,12}(?:[-/][A-Za-z0-9]+)+)(?![\w-])")
_INSTRUMENT: Final = re.compile(
    r"((?:[A-Z][\w&]*\s+){0,3})"
    r"((?:notices?|circulars?|guidelines?|directives?|regulations?|bulletins?|forms?|policy|policies|standards?)"
    r"\s+(?:no\.?\s*)?(?:[A-Z]{1,6}[-/ ]?)?\d[\w./-]*(?:\(\w{1,4}\))*)",
    re.IGNORECASE,
)
_SECTION_WORD: Final = (
    r"(?:§+|\b(?:sections?|clauses?|rules?|articles?|paragraphs?|paras?|chapters?|parts?|annex(?:es)?|"
    r"appendix|appendices|schedules?|subsections?)\b\.?)"
)
_SECTION: Final = re.compile(_SECTION_WORD, re.IGNORECASE)
_BRACKETS: Final = r"(?:\(\w{1,4}\))"
_NUMBER: Final = rf"[A-Za-z]?\d+[A-Za-z]?(?:\.\d+[A-Za-z]?)*{_BRACKETS}*"
_LISTED: Final = re.compile(
    rf"{_SECTION_WORD}\s*({_NUMBER}(?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|to)\s+){_NUMBER})*)", re.IGNORECASE
)
_BARE: Final = re.compile(
    rf"(?<![\w.])[A-Za-z]?\d+[A-Za-z]?(?:(?:\.\d+[A-Za-z]?){{2,}}{_BRACKETS}*|(?:\.\d+)*{_BRACKETS}+)"
)
_QUOTED: Final = re.compile(r'"([^"]{1,300})"')


def codes(text: str) -> tuple[str, ...]:
    """Return the identifiers and numbered instruments of a cleaned text, as written, each once.

    Letters typed small are an identifier only with three digits or more ("npa-001", not "covid-19").

    >>> codes("Does MAS Notice 637 apply to NPA-001 within 12-month terms?")
    ('MAS Notice 637', 'NPA-001')
    """
    if not any(map(str.isdigit, text)):
        return ()
    found = [(match.start(2), _named(match)) for match in _INSTRUMENT.finditer(text)]
    found += [(match.start(), match[0]) for match in _IDENTIFIER.finditer(text) if _is_identifier(match[0])]
    named = [name for _, name in sorted(found)]
    return tuple(dict.fromkeys(name for name in named if not any(name != one and name in one for one in named)))


def _is_identifier(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    return any(map(str.isupper, word)) and word[:2].isupper() if digits < 3 else True


def _named(match: re.Match[str]) -> str:
    """An instrument with the capitalised words before it, without a question's first word."""
    before = match[1].split()
    kept: list[str] = []
    for word in reversed(before):
        if word.casefold() in STOP_WORDS or not word[0].isupper():
            break
        kept.insert(0, word)
    return " ".join([*kept, match[2].strip().rstrip(".,;/-")])


def references(text: str) -> tuple[str, ...]:
    """Return the section numbers of a cleaned text, each once: `4.2.1`, `4.2.1(b)`, `3.5` after "section" or "rule".

    >>> references("section 4.2.1(b) of the NPA SOP, Rules 3.5 and 8.4.1, a limit of 5.5 %")
    ('4.2.1(b)', '3.5', '8.4.1')
    """
    if not any(map(str.isdigit, text)):
        return ()
    found: list[tuple[int, str]] = []
    for listed in _LISTED.finditer(text):
        for number in re.finditer(_NUMBER, listed[1]):
            if "." in number[0] or "(" in number[0]:
                found.append((listed.start(1) + number.start(), number[0]))
    found += [(match.start(), match[0]) for match in _BARE.finditer(text)]
    return tuple(dict.fromkeys(name for _, name in sorted(found)))


def names_sections_only(text: str, numbers: Sequence[str]) -> bool:
    """Return whether a text is nothing but section numbers and words such as "section": "Rules 3.5 and 8.4.1"."""
    rest = text
    for number in sorted(numbers, key=len, reverse=True):
        rest = rest.replace(number, " ")
    return bool(numbers) and not terms(_SECTION.sub(" ", rest))


def phrases(text: str) -> tuple[str, ...]:
    """Return what stands in double quotes in a cleaned text and has two words or more, each once.

    One quoted word is only set off: it is searched for like any other.

    >>> phrases('what is a "material change" to a "product"?')
    ('material change',)
    """
    inside = (match[1].strip() for match in _QUOTED.finditer(text))
    return tuple(dict.fromkeys(phrase for phrase in inside if len(tokens(phrase)) > 1))
