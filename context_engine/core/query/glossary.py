"""A domain's glossary: other names of a query's terms, and acronyms as texts define them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from context_engine.core.query.spelling import edits
from context_engine.core.text import STOP_WORDS, stems, tokens_of_word

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
    """Return {acronym: long form} for the acronyms that a text defines, with the long form it gives most often.

    Recognised forms: "New Product Approval (NPA)", "NPA (New Product Approval)", "NPA means New Product Approval" and
    "NPA: New Product Approval". Every letter of the acronym must begin a word of the long form, in order, or follow
    inside the word of the letter before; only words such as "of" and "the" may be left out, and the first may not.

    >>> acronyms("The Harbour Conduct Authority (HCA) reviews every New Product Approval (“NPA”).")
    {'HCA': 'Harbour Conduct Authority', 'NPA': 'New Product Approval'}
    """
    return {short: long[0] for short, long in glossary_of([text]).items()}


def glossary_of(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the acronyms that the texts define, each with its long forms, the most frequent first.

    Spellings that differ only in case or in a plural count as one long form.
    """
    counts: dict[str, Counter[str]] = {}
    spelled: dict[tuple[str, str], Counter[str]] = {}
    for text in texts:
        for short, long in _definitions(text):
            folded = long.casefold()
            counts.setdefault(short, Counter())[folded] += 1
            spelled.setdefault((short, folded), Counter())[long] += 1
    return {
        short: tuple(spelled[short, folded].most_common(1)[0][0] for folded, _ in long_forms.most_common())
        for short, long_forms in sorted(counts.items())
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
    """Return the last or the first words of the text that spell an acronym, preferably with one letter a word."""
    letters = re.sub(r"[^a-z0-9]", "", re.sub(r"(?<=[A-Z0-9])s$", "", short).casefold())
    words = list(_WORD.finditer(text))
    candidates: list[list[re.Match[str]]] = []
    for count in range(1, min(len(words), len(letters) + _MOST_LINKS) + 1):
        some = words[-count:] if ends else words[:count]
        spelled = [word[0].casefold() for word in some]
        if some[0][0] in _LINKS or spelled[-1] in _LINKS or not _spells(letters, spelled):
            continue
        if sum(word not in _LINKS for word in spelled) == len(letters):
            return _as_written(text, some)
        candidates.append(some)
    return _as_written(text, candidates[0 if ends else -1]) if candidates else None


def _as_written(text: str, words: list[re.Match[str]]) -> str | None:
    """Return the words as written; None for a single word, which is a name and not a long form."""
    long = " ".join(text[words[0].start() : words[-1].end()].split())
    return long if len(words) > 1 or "-" in long else None


def _spells(letters: str, words: list[str], *, first: bool = True) -> bool:
    """Return whether the words spell the letters: each word gives its first letter and perhaps more; link words may
    give none.
    """
    if not words:
        return not letters
    word, rest = words[0], words[1:]
    if word in _LINKS and rest and not first and _spells(letters, rest, first=False):
        return True
    if not letters or word[0] != letters[0]:
        return False
    return any(_spells(letters[taken:], rest, first=False) for taken in _takes(letters, word))


def _takes(letters: str, word: str) -> Iterator[int]:
    """Return how many of the letters a word can stand for: its first letter, then letters that follow inside it in
    order.
    """
    place = 0
    for taken, letter in enumerate(letters, start=1):
        place = word.find(letter, place) + 1
        if not place or (taken == 1 and place != 1) or taken > 3:
            return
        yield taken


_CAPITALS: Final = re.compile(r"(?=.*[A-Z].*[A-Z0-9])[A-Za-z][A-Za-z0-9&]{0,11}")
_PLURAL: Final = re.compile(r"([A-Z][A-Za-z0-9&]*[A-Z0-9])s")
_LEAST_IN_SMALL_LETTERS: Final = 3
_LEAST_MISSPELT: Final = 6


class Mention(NamedTuple):
    """A name of the glossary, found in a query.

    Attributes:
        written: as in the query.
        name: as in the glossary.
        others: its other names.
    """

    written: str
    name: str
    others: tuple[str, ...]


class _Word(NamedTuple):
    """A word as written, and the forms that match it; the first form is its own."""

    written: str
    forms: tuple[str, ...]


class _GlossaryName(NamedTuple):
    text: str
    entry: str
    words: tuple[_Word, ...]
    as_written_only: bool


class Glossary:
    """Finds the names of a glossary in queries.

    Args:
        entries: {term: other names of it}. A query with the term is expanded by each name; a query with a name is
            expanded by the term only, because an acronym may stand for several things.
    """

    def __init__(self, entries: Mapping[str, Sequence[str]]) -> None:
        self._entries = {term: tuple(names) for term, names in entries.items()}
        self._by_first: dict[str, list[_GlossaryName]] = defaultdict(list)
        for term, names in self._entries.items():
            for text in dict.fromkeys((term, *names)):
                words = tuple(_words(text))
                if words:
                    self._by_first[words[0].forms[0]].append(_GlossaryName(text, term, words, _is_common_word(text)))
        self._by_word: dict[str, list[tuple[_GlossaryName, int]]] = defaultdict(list)
        all_names = [name for some in self._by_first.values() for name in some]
        for name in all_names:
            for offset, word in enumerate(name.words):
                self._by_word[word.forms[0]].append((name, offset))
        self._single = [name for name in all_names if len(name.words) == 1 and not _CAPITALS.fullmatch(name.text)]

    def mentions(self, text: str) -> list[Mention]:
        """Return the names in a query, in its order; of two names at one place the longer one."""
        words, mentions, place = _words(text), list[Mention](), 0
        while place < len(words):
            name = max(self._at(words, place), key=lambda candidate: len(candidate.words), default=None)
            if name is not None:
                mentions.append(self._mention(text, words[place : place + len(name.words)], name))
            place += 1 if name is None else len(name.words)
        return mentions

    def misspelt(self, text: str) -> list[Mention]:
        """Return names whose words all stand in a query, one of them spelled slightly differently.

        A word with a digit, in capitals, of fewer than six letters, or known to the glossary is never taken for
        another.
        """
        words, mentions = _words(text), dict[str, Mention]()
        unknown = {place for place, word in enumerate(words) if self._may_be_misspelt(word)}
        for name, start in dict.fromkeys(self._possible(words, unknown)) if unknown else ():
            if 0 <= start <= len(words) - len(name.words) and _nearly(words, start, name, unknown):
                mentions.setdefault(name.text, self._mention(text, words[start : start + len(name.words)], name))
        return list(mentions.values())

    def _possible(self, words: Sequence[_Word], unknown: set[int]) -> Iterator[tuple[_GlossaryName, int]]:
        """Return where a name may begin: at one of its words; a name of one word may begin anywhere."""
        for place, word in enumerate(words):
            for form in word.forms if STOP_WORDS.isdisjoint(word.forms) else ():
                yield from ((name, place - offset) for name, offset in self._by_word.get(form, ()))
        yield from ((name, place) for place in sorted(unknown) for name in self._single)

    def _at(self, words: Sequence[_Word], place: int) -> Iterator[_GlossaryName]:
        for name in (candidate for form in words[place].forms for candidate in self._by_first.get(form, ())):
            some = words[place : place + len(name.words)]
            same = len(some) == len(name.words) and all(map(_is_met, name.words, some))
            if same and (not name.as_written_only or some[0].written.removesuffix("s") == name.text):
                yield name

    def _may_be_misspelt(self, word: _Word) -> bool:
        written = word.written
        return (
            len(written) >= _LEAST_MISSPELT
            and written.isalpha()
            and not _CAPITALS.fullmatch(written)
            and not any(form in self._by_word for form in word.forms)
        )

    def _mention(self, text: str, some: Sequence[_Word], name: _GlossaryName) -> Mention:
        others = self._entries[name.entry] if name.text == name.entry else (name.entry,)
        as_it_stands = re.search(r"\W*".join(re.escape(word.written) for word in some), text)
        written = as_it_stands[0] if as_it_stands else " ".join(word.written for word in some)
        return Mention(written, name.text, tuple(dict.fromkeys(others)))


def _is_met(name: _Word, word: _Word) -> bool:
    return name.forms[0] in word.forms


def _nearly(words: Sequence[_Word], start: int, name: _GlossaryName, unknown: set[int]) -> bool:
    different = [
        place for place, name_word in enumerate(name.words, start=start) if not _is_met(name_word, words[place])
    ]
    if len(different) != 1 or different[0] not in unknown:
        return False
    ours, theirs = words[different[0]].written, name.words[different[0] - start].written
    return not _CAPITALS.fullmatch(theirs) and edits(ours.casefold(), theirs.casefold(), 1) == 1


def _words(text: str) -> list[_Word]:
    """An acronym is met by its letters, another word by its stem; an acronym in the plural by the singular too."""
    written = [token for run in text.split() for token in tokens_of_word(run)]
    folded = [token.casefold() for token in written]
    out: list[_Word] = []
    for token, small, stem in zip(written, folded, stems(folded)):
        plural = _PLURAL.fullmatch(token)
        if plural:
            out.append(_Word(token, (plural[1].casefold(), small, stem)))
        elif _CAPITALS.fullmatch(token):
            out.append(_Word(token, (small, stem)))
        else:
            out.append(_Word(token, (stem, small)))
    return out


def _is_common_word(name: str) -> bool:
    """Return whether a name in lower case would be another word: "IT", "US", "AN"."""
    return bool(_CAPITALS.fullmatch(name)) and (len(name) < _LEAST_IN_SMALL_LETTERS or name.casefold() in STOP_WORDS)


@lru_cache(maxsize=64)
def glossary(entries: tuple[tuple[str, tuple[str, ...]], ...]) -> Glossary:
    """Return the glossary of some entries, built once."""
    return Glossary(dict(entries))
