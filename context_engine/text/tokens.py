"""Text as tokens (what it says) and as search terms (what it is found by).

One analyser serves the embedded index and the engine's own lexical score, so that a term found is a term ranked.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Final

from context_engine.text.stem import stems

__all__ = ["ANALYSER_VERSION", "STOP_WORDS", "bigrams", "has_cjk", "terms", "tokens"]

ANALYSER_VERSION: Final = "1"
"""Raised whenever `terms` gives another answer for some text: an index built before must be rebuilt."""

_STOP: Final = """
    a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each either for from further had has have having he her
    here hers him his how i if in into is it its itself just let me more most my myself of off on once only or
    other our ours out over own same she should so some such than that the their theirs them then there these
    they this those through to too under until up us very was we were what when where which while who whom why
    will with would you your yours
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""English function words. Negations and modals (not, no, must, may, shall) stay: they change what a rule says."""

_TOKEN: Final = re.compile(r"\w+(?:[-./,'’]\w+|\(\w{1,4}\))*|[%‰$€£¥]")
_WORD: Final = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_CJK_OR_OTHER: Final = re.compile(rf"({_CJK.pattern})|((?:(?!{_CJK.pattern}).)+)")
_CONTRACTED: Final = {"can't": "can", "won't": "will", "shan't": "shall"}
_CLAUSE: Final = re.compile(r"(\w+(?:\.\w+)*)((?:\(\w{1,4}\))+)")


def has_cjk(text: str) -> bool:
    """Return whether the text holds a Chinese, Japanese or Korean character."""
    return not text.isascii() and _CJK.search(text) is not None


def tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, casefolded.

    A code, a number, a date or a clause reference is one token; so is a CJK character, and so are % and currency signs.

    >>> tokens("NPA-001, clause 4.2.1(b): high-risk limit of 5 %")
    ['npa-001', 'clause', '4.2.1(b)', 'high', 'risk', 'limit', 'of', '5', '%']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found = _TOKEN.findall(text.casefold())
    out: list[str] = []
    for token in found:
        if token.isalnum() and token.isascii():
            out.append(token)
        else:
            out += _split(token)
    return out


@lru_cache(maxsize=65_536)
def _split(token: str) -> tuple[str, ...]:
    """Keep what has a digit whole (a code); split the rest at punctuation, and CJK into characters."""
    if has_cjk(token):
        return tuple(
            part for one in _CJK_OR_OTHER.finditer(token) for part in ((one[1],) if one[1] else _split(one[2]))
        )
    if len(token) == 1 or any(char.isdigit() for char in token):
        return (token,)
    word = token.replace("’", "'")
    if word.endswith("n't"):
        return (_CONTRACTED.get(word, word[:-3]), "not")
    return tuple(_WORD.findall(word.removesuffix("'s")))


def terms(text: str) -> list[str]:
    """Return the search terms of a text in order: stop words left out, English stems, codes whole and in parts.

    A code is followed by what a reader may call it by: `4.2.1(b)` by `4.2.1`, `637(4)(b)` by `637(4)` and `637`,
    `npa-sop-001` by its parts. Neighbouring CJK characters become overlapping pairs.

    >>> terms("Criteria for approving NPA-001 under 4.2.1(b)")
    ['criteria', 'approv', 'npa-001', 'npa', '001', '4.2.1(b)', '4.2.1']
    """
    words: list[str] = []
    for token in tokens(text):
        if token in STOP_WORDS:
            continue
        if token.isalpha():
            words.append(token)
        else:
            words += _parts(token)
    if has_cjk(text):
        words = _cjk_pairs(words)
    return stems(words)


@lru_cache(maxsize=65_536)
def _parts(token: str) -> tuple[str, ...]:
    clause = _CLAUSE.fullmatch(token)
    if clause:
        heads, rest = [token], token
        while rest.endswith(")"):
            rest = rest[: rest.rindex("(")]
            heads.append(rest)
        return tuple(heads)
    pieces = [piece for piece in re.split(r"[-/]", token) if piece]
    return (token, *pieces) if len(pieces) > 1 else (token,)


def _cjk_pairs(words: list[str]) -> list[str]:
    out: list[str] = []
    for index, word in enumerate(words):
        if len(word) == 1 and _CJK.match(word):
            following = words[index + 1] if index + 1 < len(words) else ""
            previous = words[index - 1] if index else ""
            if len(following) == 1 and _CJK.match(following):
                out.append(word + following)
            elif not (len(previous) == 1 and _CJK.match(previous)):
                out.append(word)
        else:
            out.append(word)
    return out


def bigrams(words: list[str]) -> list[str]:
    """Return each pair of neighbours as one term.

    >>> bigrams(["product", "approv", "criteria"])
    ['product_approv', 'approv_criteria']
    """
    return [f"{first}_{second}" for first, second in pairwise(words)]
