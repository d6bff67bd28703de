"""A question of several parts as questions of one."""

from __future__ import annotations

import re
from typing import Final

from context_engine.core.text import terms

_ASKING: Final = (
    "what|which|who|whom|whose|when|where|why|how|does|do|did|is|are|was|were|can|could|should|"
    "must|may|would|will|has|have"
)
_SENTENCE: Final = re.compile(r"(?<=[?!;？！；。])\s*|(?<=[^\W\d]\.)\s+(?=[A-Z])")
_ITEM: Final = re.compile(r"(?:^|(?<=[\s:;,]))(?:\(\w{1,3}\)|\d{1,2}[.)]|[a-z]\)|[-*•])\s+(?=\S)")
_JOINED: Final = re.compile(rf",?\s+(?:and|or|but)\s+(?:also\s+)?(?=(?:{_ASKING})\b)", re.IGNORECASE)
_PAIR: Final = re.compile(
    r"^(?P<head>.*?\b(?:differences?|distinction|comparison|relationship)\s+between|compare)\s+(?P<a>.+?)\s+"
    r"(?:and|with|to|versus|vs\.?)\s+(?P<b>.+?)[?.]?$",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(r"[,;]?\s+(?:and|or)$")
_QUOTED: Final = re.compile(r'"[^"]*"')
_MARK: Final = "\x00"
_MASKED: Final = re.compile(rf"{_MARK}(\d+){_MARK}")
_LEAST_TERMS: Final = 2
_MOST: Final = 6


def sub_questions(text: str) -> tuple[str, ...]:
    """Return the parts of a cleaned question that can be asked alone, none where it has only one; at most six.

    Parts are its sentences, the items of an enumeration, what an "and" before a question word joins, and the two sides
    of a comparison. A part needs two search terms; quotes are never cut. Items of an enumeration keep what leads to
    them.

    >>> sub_questions("Who approves a new product and when must Compliance be told?")
    ('Who approves a new product', 'when must Compliance be told')
    >>> sub_questions("What is the difference between a pilot launch and a material variation?")
    ('a pilot launch', 'a material variation')
    """
    masked, quotes = _masked(text)
    parts = _items(masked) or [part for sentence in _SENTENCE.split(masked) for part in _JOINED.split(sentence)]
    parts = [side for part in parts for side in _sides(part)]
    spoken = (_MASKED.sub(lambda mark: quotes[int(mark[1])], part).strip(" ,;?!.。？！；") for part in parts)
    found = tuple(dict.fromkeys(part for part in spoken if len(set(terms(part))) >= _LEAST_TERMS))
    return found[:_MOST] if len(found) > 1 else ()


def _items(text: str) -> list[str]:
    """The items of an enumeration of two or more, each after the words that lead to all of them."""
    lead, *items = _ITEM.split(text)
    if len(items) < 2:
        return []
    lead = lead.strip(" :,;")
    return [f"{lead} {_TRAILING.sub('', item.strip())}".strip() for item in items]


def _sides(part: str) -> list[str]:
    pair = _PAIR.match(part.strip())
    return [pair["a"], pair["b"]] if pair and all(len(set(terms(pair[side]))) > 1 for side in "ab") else [part]


def _masked(text: str) -> tuple[str, list[str]]:
    """Return the text with a number between marks in place of each quote, and the quotes."""
    quotes: list[str] = []

    def keep(quote: re.Match[str]) -> str:
        quotes.append(quote[0])
        return f"{_MARK}{len(quotes) - 1}{_MARK}"

    return _QUOTED.sub(keep, text.replace(_MARK, " ")), quotes
