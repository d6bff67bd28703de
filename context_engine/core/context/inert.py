"""Text that wants to be more than text, made such that it is only read: marks broken, hidden characters shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from context_engine.core.context.fence import BREAK
from context_engine.core.policy.hidden_text import invisible
from context_engine.core.policy.injection import InjectionFinding, injection_findings
from context_engine.core.text import fold

__all__ = ["inert", "inert_line"]

_MARKS: Final = frozenset("<>|[](){}#:,=\"'_-*~+/")
"""What marks are made of; a break before each ends the mark."""
_ESCAPES: Final = "&%\\"
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS: Final = frozenset("\u200c\u200d")
_JOINED_SCRIPTS: Final = ("\u0600", "\u0e00")
"""From Arabic to the scripts of India: there a joiner changes how a word is written."""
_KEPT: Final = "\n\r\t"
_MOST_ROUNDS: Final = 12
_Edits = dict[tuple[int, int], str]


def inert(text: str) -> str:
    """Return a text that claims nothing any more, itself where it claims nothing; doing so twice changes nothing.

    No word is lost. In what `injection_findings` finds, marks are broken by U+241B, text in invisible characters is
    shown in ⟦brackets⟧, characters that turn the direction of writing are named, and those that show nothing left out.
    Instructions keep their words: they are for a fence, whose `claims` this may be.
    """
    for _ in range(_MOST_ROUNDS):
        findings = injection_findings(text)
        changed = _edited(text, _edits(text, findings)) if findings else text
        if changed == text:
            break
        text = changed
    return text


@lru_cache(maxsize=4096)
def inert_line(line: str) -> str:
    """Return a short text as `inert` does; titles come again and again."""
    return inert(line)


def _edits(text: str, findings: Iterable[InjectionFinding]) -> _Edits:
    """Return what stands in the place of which characters."""
    edits: _Edits = {}
    for passage in invisible(text):
        if any(one.kind == "hidden_text" and one.start == passage.start for one in findings):
            edits[passage.start, passage.end] = f"\u27e6{passage.says}\u27e7"
    shown = [place for start, end in edits for place in range(start, end)]
    hidden = set(shown)
    for finding in findings:
        for place in range(finding.start, finding.end):
            if place not in hidden and (instead := _instead(text, place)) is not None:
                edits[place, place + 1] = instead
        if finding.kind not in ("instructions", "hidden_text"):
            for place in _breaks(text, finding):
                if BREAK not in text[place - 1 : place + 1]:
                    edits[place, place] = BREAK
    return edits


def _instead(text: str, place: int) -> str | None:
    """Return what is shown for a character that cannot be seen, None for one that stays."""
    char = text[place]
    if char in _BIDI:
        return f"\u27e6U+{ord(char):04X}\u27e7"
    if unicodedata.category(char) not in ("Cc", "Cf") or char in _KEPT:
        return None
    around = text[max(0, place - 1) : place + 2]
    first, last = _JOINED_SCRIPTS
    return None if char in _JOINERS and any(first <= one < last for one in around) else ""


def _breaks(text: str, finding: InjectionFinding) -> Iterable[int]:
    """Yield the places in a mark where a break ends it: in each escape, after its first sign, before the others."""
    part = text[finding.start : finding.end]
    folded = fold(part)
    for index, char in enumerate(folded.text):
        start, end = folded.span(index, index + 1)
        if part[start] in _ESCAPES and end - start > 1:
            yield from (finding.start + at + 1 for at in range(start, end) if part[at] in _ESCAPES)
        elif char in _MARKS:
            yield finding.start + (start if start else end)


def _edited(text: str, edits: _Edits) -> str:
    pieces, position = [], 0
    for (start, end), instead in sorted(edits.items()):
        if start < position:
            continue
        pieces += [text[position:start], instead]
        position = end
    return "".join([*pieces, text[position:]])
