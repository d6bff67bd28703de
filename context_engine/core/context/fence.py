"""Fences around untrusted text, and text with its marks broken so that it is only read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Final
from unicodedata import category

from context_engine.core.policy.injection import InjectionFinding, injection_findings
from context_engine.core.policy.injection_patterns import invisible
from context_engine.core.text import BLANK, BRACKETS, fold
from context_engine.errors import InvalidRequest

BREAK: Final = "\u241b"
"""Breaks a mark, visibly."""

_BREAKS: Final = re.compile(BREAK + "+")
_NONCE: Final = re.compile(r"[A-Za-z0-9_-]{6,64}")
_WIDTH: Final = {char: width for width, pairs in BRACKETS.items() for char in pairs.replace(" ", "")}
_KINDS: Final = frozenset(("Cc", "Cf", "Mn", "Mc", "Me"))


@cache
def _unseen() -> str:
    """Return a pattern for a character that leaves a marker a marker to the reader's eye.

    That is white space and every control, format and combining character, but no line break. Unicode has them in its
    first two planes and among the tags.
    """
    chars = map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))
    codes = [ord(char) for char in chars if char != "\n" and (category(char) in _KINDS or char.isspace())]
    return f"[{BLANK}{''.join(_ranges(codes))}]"


def _ranges(codes: Sequence[int]) -> Iterator[str]:
    """Yield ascending code points as ranges of a character class."""
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        members = [code for _, code in run]
        yield rf"\U{members[0]:08x}-\U{members[-1]:08x}"


def _bracket(side: int) -> str:
    """Return a pattern for one opening (0) or closing (1) bracket in any spelling."""
    chars = "".join(pair[side] for pairs in BRACKETS.values() for pair in pairs.split())
    name, digit, hexadecimal = (("lt", "60", "3c"), ("gt", "62", "3e"))[side]
    entity = rf"&(?:amp;|#0*38;|#x0*26;)*(?:{name}|#0*{digit}|#x0*{hexadecimal});?"
    return rf"(?:[{chars}]|{entity}|%{hexadecimal}|\\(?:u00|x|u\{{0*){hexadecimal}\}}?)"


@cache
def _any_bracket() -> re.Pattern[str]:
    return re.compile(f"{_bracket(0)}|{_bracket(1)}", re.IGNORECASE)


@cache
def _runs() -> re.Pattern[str]:
    """Return the pattern of one or more brackets of one side, with only invisible characters between them."""
    sides = (rf"{_bracket(side)}(?:{_unseen()}*{_bracket(side)})*" for side in (0, 1))
    return re.compile("|".join(sides), re.IGNORECASE)


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"{_unseen()}+")


def checked_nonce(nonce: str) -> str:
    """Return the nonce if a marker can hold it.

    Raises:
        InvalidRequest: not 6 to 64 letters, digits, "_" or "-".
    """
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise InvalidRequest(f"nonce must be 6 to 64 letters, digits, '_' or '-', got {nonce!r}")
    return nonce


@lru_cache(maxsize=64)
def _plain_nonce(nonce: str) -> re.Pattern[str]:
    """Return the pattern of a nonce, in any case and also in full-width letters."""
    return re.compile("".join(_letters(nonce)), re.IGNORECASE)


@lru_cache(maxsize=64)
def _spread_nonce(nonce: str) -> re.Pattern[str]:
    """Return the pattern of a nonce with anything unseen between its letters; takes long to make."""
    return re.compile(f"{_unseen()}*".join(_letters(nonce)), re.IGNORECASE)


def _letters(nonce: str) -> list[str]:
    return [f"[{re.escape(char)}{chr(ord(char) + 0xFEE0)}]" for char in checked_nonce(nonce)]


_SPELT: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_OTHERS: Final = bytes(set(range(256)) - _SPELT)
_LOWER: Final = bytes(range(256)).lower()
_ALIKE: Final = re.compile("[\u0130\u0131\u017f\u212a\uff01-\uff5e]")
"""Every character outside ASCII that counts as a letter, digit or sign of a nonce."""


def _may_hold(text: str, nonce: str) -> bool:
    """Return whether a text may hold a nonce in any spelling; a No is certain, and quicker than the patterns."""
    spelt = text.encode("ascii", "ignore").translate(_LOWER, _OTHERS)
    return nonce.lower().encode() in spelt or _ALIKE.search(text) is not None


def _break_first(match: re.Match[str]) -> str:
    return match[0][0] + BREAK + match[0][1:]


def _break_run(match: re.Match[str]) -> str:
    if sum(_WIDTH.get(bracket, 1) for bracket in _any_bracket().findall(match[0])) < 3:
        return match[0]
    broken = _any_bracket().sub(lambda bracket: bracket[0] + BREAK, match[0])
    after = _BREAKS.match(match.string, match.end())
    return broken.removesuffix(BREAK) if after and len(after[0]) % 2 else broken  # there is a break already


def neutralise(text: str, nonce: str, claims: Callable[[str], str] = str) -> str:
    """Return the text with every marker broken; reversible.

    Args:
        claims: breaks other forbidden parts of a text by inserting a break.
    """
    return without_nonce(_without_markers(text, claims), nonce)


def _without_markers(text: str, claims: Callable[[str], str]) -> str:
    return _runs().sub(_break_run, claims(text.replace(BREAK, BREAK * 2)))


def without_nonce(text: str, nonce: str) -> str:
    """Return a trusted text. It stays verbatim unless it contains the nonce, so it cannot open or close a fence by
    accident.
    """
    if not _may_hold(text, nonce):
        return text
    seen = "".join(text.split())
    if not (seen.isascii() and seen.isprintable()):
        seen = _hidden().sub("", seen)
    if not _plain_nonce(nonce).search(seen):
        return text
    return _spread_nonce(nonce).sub(_break_first, text)


def fence(text: str, nonce: str, claims: Callable[[str], str] = str) -> str:
    """Return the text between its markers, three lines or more.

    Args:
        claims: as in `neutralise`.

    Raises:
        InvalidRequest: the nonce is not 6 to 64 letters, digits, "_" or "-".
    """
    return f"<<<untrusted {checked_nonce(nonce)}\n{neutralise(text, nonce, claims)}\n{nonce}>>>"


def parse_fences(text: str, nonce: str) -> list[str]:
    """Return the original texts of all fences with this nonce, in order.

    Raises:
        InvalidRequest: a marker without its counterpart.
    """
    opening, closing = f"<<<untrusted {checked_nonce(nonce)}", f"{nonce}>>>"
    fenced = re.findall(rf"{re.escape(opening)}\n(.*?)\n{re.escape(closing)}", text, re.DOTALL)
    if text.count(opening) != len(fenced) or text.count(closing) != len(fenced):
        raise InvalidRequest(f"half a fence: {opening!r} and {closing!r} do not pair up")
    # An inserted break is single; breaks of the text come in pairs, with at most one inserted before them.
    return [_BREAKS.sub(lambda run: BREAK * (len(run[0]) // 2), body) for body in fenced]


_MARKS: Final = frozenset("<>|[](){}#:,=\"'_-*~+/")
"""The characters of marks; a break beside one ends the mark."""

_ESCAPES: Final = "&%\\"
_SEEN: Final = "\n\r\t"
_MOST_ROUNDS: Final = 12
_Edits = dict[tuple[int, int], str]


def inert(text: str) -> str:
    """Return a text whose markers and instructions are broken; idempotent, and the text itself if it has none.

    Nothing is lost. In each finding of `injection_findings`, a break (U+241B) ends each mark and precedes the first
    invisible character; text in invisible characters is shown in ⟦brackets⟧. Instructions in plain words stay, because
    the fence itself guards against them; this function is the `claims` of a fence.
    """
    for _ in range(_MOST_ROUNDS):
        changed = _edited(text, _edits(text, injection_findings(text)))
        if changed == text:
            break
        text = changed
    return text


@lru_cache(maxsize=4096)
def inert_line(line: str) -> str:
    """Return a short text as `inert` does; titles come again and again."""
    return inert(line)


@lru_cache(maxsize=4096)
def _inert_line_without_markers(line: str) -> str:
    return _without_markers(line, inert)


def neutral_line(line: str, nonce: str) -> str:
    """Return a short text as `neutralise` does, its instructions broken as by `inert`."""
    return without_nonce(_inert_line_without_markers(line), nonce)


def _edits(text: str, findings: Iterable[InjectionFinding]) -> _Edits:
    """Return the replacement of each character."""
    edits = {(start, end): f"\u27e6{says}\u27e7" for start, end, says in invisible(text)}
    for kind, start, end in (finding for finding in findings if finding.kind != "hidden_text"):
        places = () if kind == "instructions" else _in_mark(text[start:end])
        for place in (*places, *_first_unseen(text[start:end])):
            if BREAK not in text[max(0, start + place - 1) : start + place + 1]:
                edits[start + place, start + place] = BREAK
    return edits


def _in_mark(mark: str) -> Iterator[int]:
    """Yield the places in a mark where a break ends it: in each escape, after angle brackets, before other signs."""
    folded = fold(mark)
    for index, char in enumerate(folded.text):
        start, end = folded.span(index, index + 1)
        if mark[start] in _ESCAPES and end - start > 1:
            yield from (place + 1 for place in range(start, end) if mark[place] in _ESCAPES)
        elif char in _MARKS:
            yield end if char in "<>" else start or end


def _first_unseen(text: str) -> Iterator[int]:
    for place, char in enumerate(text):
        if unicodedata.category(char) in ("Cc", "Cf") and char not in _SEEN:
            yield place
            return


def _edited(text: str, edits: _Edits) -> str:
    pieces, position = [], 0
    for (start, end), instead in sorted(edits.items()):
        if start >= position:
            pieces += [text[position:start], instead]
            position = end
    return "".join([*pieces, text[position:]])
