"""Text that wants to be more than text, made such that it is only read: marks broken, what is hidden shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from context_engine.core.context.fence import BREAK
from context_engine.core.policy.hidden_text import invisible
from context_engine.core.policy.injection import InjectionFinding, injection_findings
from context_engine.core.text import fold

_MARKS: Final = frozenset("<>|[](){}#:,=\"'_-*~+/")
"""What marks are made of; a break beside each ends the mark."""
_ESCAPES: Final = "&%\\"
_SEEN: Final = "\n\r\t"
_MOST_ROUNDS: Final = 12
_Edits = dict[tuple[int, int], str]


def inert(text: str) -> str:
    """Return a text that claims nothing any more, itself where it claims nothing; doing so twice changes nothing.

    Nothing is lost. In what `injection_findings` finds, a break, U+241B, ends each mark and stands before the first
    character that cannot be seen; text in invisible characters is shown in ⟦brackets⟧. Instructions in plain words stay
    as they are: they are for a fence, whose `claims` this is.
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


def _edits(text: str, findings: Iterable[InjectionFinding]) -> _Edits:
    """Return what stands in the place of which characters."""
    edits = {(start, end): f"\u27e6{says}\u27e7" for start, end, says in invisible(text)}
    for kind, start, end in (one for one in findings if one.kind != "hidden_text"):
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
