"""A domain's glossary: what else the terms of a query are called."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from context_engine.core.query.spelling import edits
from context_engine.core.text import STOP_WORDS, stems, tokens_of_word

_CAPITALS: Final = re.compile(r"(?=.*[A-Z].*[A-Z0-9])[A-Za-z][A-Za-z0-9&]{0,11}")
_PLURAL: Final = re.compile(r"([A-Z][A-Za-z0-9&]*[A-Z0-9])s")
_LEAST_IN_SMALL_LETTERS: Final = 3
_LEAST_MISSPELT: Final = 6


class Mention(NamedTuple):
    """A name of the glossary found in a query.

    Attributes:
        written: the words of the query.
        name: as the glossary has it.
        others: what else that is called.
    """

    written: str
    name: str
    others: tuple[str, ...]


class _Word(NamedTuple):
    """A word as written, and the forms by which it may be met: the first is its own."""

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
        entries: {term: other names of it}. A term is also called by each of its names, a name by its term alone, for
            one acronym may stand for several things.
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
        self._single = [one for one in all_names if len(one.words) == 1 and not _CAPITALS.fullmatch(one.text)]

    def mentions(self, text: str) -> list[Mention]:
        """Return what a query names, in its order; of two names at one place the longer."""
        words, found, place = _words(text), list[Mention](), 0
        while place < len(words):
            name = max(self._at(words, place), key=lambda one: len(one.words), default=None)
            if name is not None:
                found.append(self._mention(text, words[place : place + len(name.words)], name))
            place += 1 if name is None else len(name.words)
        return found

    def misspelt(self, text: str) -> list[Mention]:
        """Return names of which a query has every word, one of them spelled a little differently.

        A word with a digit, in capitals, of fewer than six letters, or known to the glossary is never taken for
        another.
        """
        words, found = _words(text), dict[str, Mention]()
        unknown = {place for place, word in enumerate(words) if self._may_be_misspelt(word)}
        for name, start in dict.fromkeys(self._possible(words, unknown)) if unknown else ():
            if 0 <= start <= len(words) - len(name.words) and _nearly(words, start, name, unknown):
                found.setdefault(name.text, self._mention(text, words[start : start + len(name.words)], name))
        return list(found.values())

    def _possible(self, words: Sequence[_Word], unknown: set[int]) -> Iterator[tuple[_GlossaryName, int]]:
        """Where a name may begin: one of its words is there, or it has one word only."""
        for place, word in enumerate(words):
            for form in word.forms if STOP_WORDS.isdisjoint(word.forms) else ():
                yield from ((name, place - offset) for name, offset in self._by_word.get(form, ()))
        yield from ((name, place) for place in sorted(unknown) for name in self._single)

    def _at(self, words: Sequence[_Word], place: int) -> Iterator[_GlossaryName]:
        for name in (one for form in words[place].forms for one in self._by_first.get(form, ())):
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
    different = [place for place, one in enumerate(name.words, start=start) if not _is_met(one, words[place])]
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
    """Whether a name in small letters would be another word: "IT", "US", "AN"."""
    return bool(_CAPITALS.fullmatch(name)) and (len(name) < _LEAST_IN_SMALL_LETTERS or name.casefold() in STOP_WORDS)


@lru_cache(maxsize=64)
def glossary(entries: tuple[tuple[str, tuple[str, ...]], ...]) -> Glossary:
    """Return the glossary of some entries, made once."""
    return Glossary(dict(entries))
