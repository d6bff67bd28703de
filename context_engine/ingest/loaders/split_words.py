"""Joins words that a hyphen splits at the end of a line, as the document writes them elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_WORD: Final = re.compile(r"\w[\w-]*")
_LEAST_WORD: Final = 4
_HYPHEN: Final = re.compile(r"(?<=\w)[-‐]$")
_CUT: Final = re.compile(r"(-?)(\w+)\u00ad (\w+)")
_AT_END: Final = re.compile(r"\u00ad(?= |$)")  # a hyphen that splits no word
_COMPOUND: Final = re.compile(  # these are never one word
    r"(?i)(?:long|short|medium|near|high|low|mid|full|part|real|large|small|well|cross|third|first|second|single|double"
    r"|risk|rule|credit|market|client|customer|bank|group|firm|year|quarter|month|event|cash|interest|fixed|cost|value)"
    r"-(?:terms?|based|wide|weighted|adjusted|related|specific|sensitive|bearing|free|backed|rated|party|parties|risk"
    r"|level|quality|value|frequency|border|time|scale|cost|margin|class|driven|linked|end|defined|known)"
    r"|(?:self|anti|non|half|quasi|vice)-\w+"
)
_HANGING: Final = ("and", "or", "und", "et", "to")  # "long- and short-term"
_AT_LINE_END: Final = re.compile(r"(?<=\S)[ \t]+((?:\w+-)*)([^\W\d_]{2,})-\n([ \t]*)([^\W\d_]{2,})(?![\w-])")


def word_counts(lines: Iterable[str]) -> Counter[str]:
    """Count the words of lines in lower case; those with hyphens are one word."""
    return Counter(word for line in lines for word in _WORD.findall(line.lower()))


def unbroken(lines: Iterable[str], words: Counter[str]) -> str:
    """Join lines to one text, including words split at the end of a line."""
    text = " ".join(_HYPHEN.sub("\u00ad", line) for line in lines)  # PDFium marks most of them itself
    before = ""
    while text != before and "\u00ad" in text:  # a narrow column splits a word more than once
        before = text
        text = _CUT.sub(lambda match: match[1] + unsplit(match[2], match[3], words, compound=bool(match[1])), text)
    return " ".join(_AT_END.sub("-", text).replace("\u00ad", "").split())


def unsplit(first: str, rest: str, words: Counter[str], *, compound: bool = False) -> str:
    """Join a word hyphenated at a line's end; the hyphen stays if the document writes it elsewhere.

    Args:
        compound: whether a hyphen precedes the word ("state-of-the-art"): the one at the line's end then belongs to it.
    """
    hyphened, joined = f"{first}-{rest}", first + rest
    if rest in _HANGING:
        return f"{first}- {rest}"
    if _COMPOUND.fullmatch(hyphened) and not words[joined.lower()]:
        return hyphened
    if compound or not first[-1:].isalpha() or not rest[:1].isalpha():
        return hyphened
    written = words.get(hyphened.lower(), 0), words.get(joined.lower(), 0)
    if rest[:1].isupper() and not (joined.isupper() and written[0] < written[1]):  # a code, unless it is a known word
        return hyphened
    if written == (0, 0):  # "risk-weighted" stays if the document has both words
        two = min(len(first), len(rest)) >= _LEAST_WORD and min(words[first.lower()], words[rest.lower()]) > 1
        return hyphened if two else joined
    return hyphened if written[0] > written[1] else joined


def with_whole_words(text: str) -> str:
    """Return a text without words split over two lines: the whole word begins the second line.

    >>> with_whole_words("The commit-\\ntee sets long-\\nterm and state-of-the-\\nart rules.")
    'The\\ncommittee sets\\nlong-term and\\nstate-of-the-art rules.'
    """
    if "-\n" not in text:
        return text
    words = word_counts(text.split("\n"))
    return _AT_LINE_END.sub(lambda match: _whole(match, words), text)


def _whole(match: re.Match[str], words: Counter[str]) -> str:
    before, first, indent, rest = match.groups()
    word = unsplit(first, rest, words, compound=bool(before))
    return match[0] if " " in word or not rest.islower() else f"\n{indent}{before}{word}"
