"""Which terms a text defines: "X means ...", glossaries, terms set in bold, and terms named in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MOST_TERMS: Final = 200
_MOST_WORDS: Final = 8
_MOST_LENGTH: Final = 80
_OPEN: Final = "“\"'‘「『《*_"
_CLOSE: Final = "”\"'’」』》*_"
_SAYS: Final = (
    r"(?:means|mean|shall mean|has the (?:same )?meaning|have the (?:same )?meaning|is defined as|are defined as"
    r"|refers to|shall refer to|is taken to mean)\b"
)
_QUALIFIED: Final = (
    r"(?:[ \t]*,? (?:in relation to|for|with respect to|as regards|where)[^.;\n]{0,80}?,?| \([^()\n]{1,60}\))?"
)
_MARKED: Final = re.compile(
    rf"(?:“([^”\n]{{2,{_MOST_LENGTH}}})”|\"([^\"\n]{{2,{_MOST_LENGTH}}})\"|\*\*([^*\n]{{2,{_MOST_LENGTH}}})\*\*)"
    rf"{_QUALIFIED}[ \t:–—-]*{_SAYS}"
)
_PLAIN: Final = re.compile(
    r"(?:^|(?<=[.;:] )|(?<=\t))[ \t]*(?:[-*•][ \t]+|\(\w{1,4}\)[ \t]+|\d[\d.]{0,8}[ \t]+)?"
    r"(?:(?:An?|The|the term) )?"
    rf"([A-Z][\w&/’'-]*(?: [\w&/’'()-]+){{0,{_MOST_WORDS - 1}}}?){_QUALIFIED}[ \t]+{_SAYS}",
    re.MULTILINE,
)
_NAMED: Final = re.compile(r"\((?:(?:the|each,? an?|together,? the|collectively,? the) )?[“\"]([^”\"\n]{2,60})[”\"]\)")
_ASIAN: Final = re.compile(
    r"(?:所称|[“「『《])([^\s，。；：“”「」『』《》]{1,30})[”」』》]?"
    r"(?:[，,]?[ ]?(?:是指|系指|指的是|指)|とは[、]?|이란|란)"
)
_BOLD_ENTRY: Final = re.compile(
    rf"^[ \t]*(?:[-*•][ \t]+)?\*\*([^*\n]{{2,{_MOST_LENGTH}}}?)[:：]?\*\*[ \t]*(?:[:：–—-][ \t]*)?(?=\S.{{10,}})",
    re.MULTILINE,
)
_ENTRY: Final = re.compile(
    rf"^[ \t]*(?:[-*•][ \t]+)?([^\W\d_][^:：|\t\n.;]{{1,{_MOST_LENGTH - 1}}}?)"
    r"[ \t]*(?:[:：]|[ ][–—-][ ]|\t)[ \t]*(?=\S.{10,})",
    re.MULTILINE,
)
_ROW: Final = re.compile(rf"^[ \t]*\|[ \t]*([^|\n]{{2,{_MOST_LENGTH}}}?)[ \t]*\|[ \t]*([^|\n]*)\|", re.MULTILINE)
_TABLE_HEAD: Final = re.compile(
    r"^[ \t]*\|[ \t]*[*_]*(?:term|expression|abbreviation|acronym|word)s?[*_]*[ \t]*\|[ \t]*[*_]*"
    r"(?:definition|meaning|description|explanation)s?\b",
    re.IGNORECASE | re.MULTILINE,
)
_GLOSSARY: Final = re.compile(
    r"\b(?:glossary|definitions?|defined terms|interpretation|abbreviations|acronyms|terminology)\b"
    r"|术语|定义|释义|用語|定義",
    re.IGNORECASE,
)
_FIRST: Final = (
    "this it that which these those what note example he she in when where if for under by as on at to and or"
)
_INSIDE: Final = "must shall may should is are was be that which this these not it"
_NOT_FIRST: Final = frozenset(_FIRST.split())
_NOT_INSIDE: Final = frozenset(_INSIDE.split())


def is_glossary(heading: str) -> bool:
    """Return whether a section with this heading explains terms.

    >>> is_glossary("2 Definitions and interpretation"), is_glossary("3 Limits")
    (True, False)
    """
    return _GLOSSARY.search(heading) is not None


def defined_terms(text: str, *, glossary: bool = False) -> tuple[str, ...]:
    """Return the terms that a text defines, as it writes them, each once, in order; at most 200.

    Args:
        glossary: whether the section explains terms; then "Term: text" and bold terms count too.

    >>> defined_terms('"Client Money" means money held for a Client. A **limit** is hard.')
    ('Client Money',)
    """
    terms: dict[str, None] = {}
    known: set[str] = set()
    for _, term in sorted(_found(text, glossary or _TABLE_HEAD.search(text) is not None)):
        if term.casefold() not in known:
            known.add(term.casefold())
            terms[term] = None
    return tuple(terms)[:_MOST_TERMS]


def _found(text: str, glossary: bool) -> Iterator[tuple[int, str]]:
    patterns = [_MARKED, _ASIAN, _NAMED]
    if "mean" in text or "refer" in text or "defined as" in text:
        patterns.append(_PLAIN)
    if glossary:
        patterns += [_BOLD_ENTRY, _ENTRY]
    for pattern in patterns:
        for match in pattern.finditer(text):
            place = match.lastindex or 1
            yield from _term(match.start(place), match[place])
    for match in _ROW.finditer(text) if glossary else ():
        if match[2].strip(" -:") and not _TABLE_HEAD.match(match[0]):
            yield from _term(match.start(1), match[1])


def _term(start: int, raw: str) -> Iterator[tuple[int, str]]:
    term = " ".join(raw.split()).strip(_OPEN + _CLOSE + " ,:")
    words = term.split()
    if not 0 < len(words) <= _MOST_WORDS or len(term) < 2 or not term.strip("-:"):
        return
    if words[0].casefold() not in _NOT_FIRST and _NOT_INSIDE.isdisjoint(words):
        yield start, term
