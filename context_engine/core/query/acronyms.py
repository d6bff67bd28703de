"""Acronyms as a text itself defines them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

_SHORT: Final = r"(?=[A-Za-z0-9&]*[A-Z][A-Za-z0-9&]*[A-Z])[A-Za-z][A-Za-z0-9&]{1,9}"
_BRACKETED: Final = re.compile(rf"\(\s*(?:the\s+|an?\s+)?[\"'“‘]?({_SHORT})[\"'”’]?\s*\)")
_EXPLAINED: Final = re.compile(rf"(?<![\w-])({_SHORT})\s*\(([A-Za-z][A-Za-z &'’/-]{{4,120}})\)")
_DEFINED: Final = re.compile(
    rf"(?:^|[\"“\n])[ ]*({_SHORT})[\"”]?\s*(?::|means|stands for|is short for)\s+(?:the\s+|an?\s+)?"
    r"([A-Za-z][A-Za-z &'’/-]{4,120})",
    re.MULTILINE,
)
_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:['’][a-z]+)?")
_LINKS: Final = frozenset(
    ("of", "and", "the", "for", "in", "on", "to", "a", "an", "at", "by", "or", "with", "from", "as")
)
_MOST_LINKS: Final = 4


def acronyms(text: str) -> dict[str, str]:
    """Return {acronym: long form} for what a text defines, the long form it gives most often.

    Read are "New Product Approval (NPA)", "NPA (New Product Approval)", "NPA means New Product Approval" and
    "NPA: New Product Approval". Every letter of the acronym must begin a word of the long form, in order, or follow
    inside the word of the letter before; only words such as "of" and "the" may be left out, and the first may not.

    >>> acronyms("The Harbour Conduct Authority (HCA) reviews every New Product Approval (“NPA”).")
    {'HCA': 'Harbour Conduct Authority', 'NPA': 'New Product Approval'}
    """
    return {short: long[0] for short, long in glossary_of([text]).items()}


def glossary_of(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the acronyms that some texts define, each with its long forms, the most frequent first.

    Spellings that differ in case or in a plural alone are one long form.
    """
    counts: dict[str, Counter[str]] = {}
    spelled: dict[tuple[str, str], Counter[str]] = {}
    for text in texts:
        for short, long in _definitions(text):
            one = long.casefold()
            counts.setdefault(short, Counter())[one] += 1
            spelled.setdefault((short, one), Counter())[long] += 1
    return {
        short: tuple(spelled[short, one].most_common(1)[0][0] for one, _ in found.most_common())
        for short, found in sorted(counts.items())
    }


def _definitions(text: str) -> Iterator[tuple[str, str]]:
    for match in _BRACKETED.finditer(text):
        before = text[max(match.start() - 160, 0) : match.start()]
        sentence = re.split(r"[.;:!?\n()\[\]]\s*(?=\S)", before.rstrip())[-1]
        yield from _singular(match[1], _long_form(match[1], sentence, ends=True))
    for match in (*_EXPLAINED.finditer(text), *_DEFINED.finditer(text)):
        yield from _singular(match[1], _long_form(match[1], match[2], ends=False))


def _singular(short: str, long: str | None) -> Iterator[tuple[str, str]]:
    """An acronym in the plural is kept in the singular, its long form too."""
    if long is None:
        return
    if re.fullmatch(r"[A-Z][A-Za-z0-9&]*[A-Z0-9]s", short):
        short, long = short[:-1], re.sub(r"ies$", "y", long) if long.endswith("ies") else long.removesuffix("s")
    yield short, long


def _long_form(short: str, text: str, *, ends: bool) -> str | None:
    """Return the words that spell an acronym: the last ones of the text, or the first; best one letter a word."""
    letters = re.sub(r"[^a-z0-9]", "", re.sub(r"(?<=[A-Z0-9])s$", "", short).casefold())
    words = list(_WORD.finditer(text))
    found: list[list[re.Match[str]]] = []
    for count in range(1, min(len(words), len(letters) + _MOST_LINKS) + 1):
        some = words[-count:] if ends else words[:count]
        spelled = [word[0].casefold() for word in some]
        if some[0][0] in _LINKS or spelled[-1] in _LINKS or not _spells(letters, spelled):
            continue
        if sum(word not in _LINKS for word in spelled) == len(letters):
            return _as_written(text, some)
        found.append(some)
    return _as_written(text, found[0 if ends else -1]) if found else None


def _as_written(text: str, words: list[re.Match[str]]) -> str | None:
    """The words as they stand; None for a single one, which is a name and no long form."""
    long = " ".join(text[words[0].start() : words[-1].end()].split())
    return long if len(words) > 1 or "-" in long else None


def _spells(letters: str, words: list[str], *, first: bool = True) -> bool:
    """Whether the words spell the letters: each takes its first letter and perhaps some more; links may take none."""
    if not words:
        return not letters
    word, rest = words[0], words[1:]
    if word in _LINKS and rest and not first and _spells(letters, rest, first=False):
        return True
    if not letters or word[0] != letters[0]:
        return False
    return any(_spells(letters[taken:], rest, first=False) for taken in _takes(letters, word))


def _takes(letters: str, word: str) -> Iterator[int]:
    """How many letters a word may stand for: its first, then further ones that follow inside it in order."""
    place = 0
    for taken, letter in enumerate(letters, start=1):
        place = word.find(letter, place) + 1
        if not place or (taken == 1 and place != 1) or taken > 3:
            return
        yield taken
