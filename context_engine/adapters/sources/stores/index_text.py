"""The words of a document's chunks as a text index holds them, and the words of a question that no text has."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, Protocol

from context_engine.core.chunking.strategy import BOOKKEEPING_KEYS
from context_engine.core.models import Chunk, UnknownWord
from context_engine.core.query.spelling import is_offered
from context_engine.core.text import terms, tokens

JOINT: Final = "_"
_FIRST: Final = 5


"""Joins the words of a defined term."""


_MOST_DEFINED: Final = 6


"""Most words of a defined term; the rest of a longer one is ignored."""


class IndexText(NamedTuple):
    """The words of one chunk.

    Attributes:
        body: the terms of its text, in order.
        title: the terms of title and headings.
        head: those, and the terms of document id, type and metadata; of a bare heading also those of its text.
        bare: whether it is a heading without text below it.
        first: the place, in the document, of the first chunk of its section.
    """

    body: list[str]
    title: frozenset[str]
    head: frozenset[str]
    bare: bool
    first: int


def index_texts(chunks: Sequence[Chunk]) -> list[IndexText]:
    """Return the words of the chunks of one document, in order."""
    bodies = [terms(chunk.content) for chunk in chunks]
    titles = [_words(_joined((chunk.title, chunk.section, *chunk.heading_path))) for chunk in chunks]
    sections: dict[Hashable, int] = {}
    out = []
    for place, (chunk, body, title) in enumerate(zip(chunks, bodies, titles, strict=True)):
        bare = chunk.metadata.get("is_heading") is True or title.issuperset(body)
        first = sections.setdefault(chunk.heading_path or chunk.section or place, place)
        out.append(IndexText(body, title, title | _about(chunk, bare), bare, first))
    return out


def written_words(chunk: Chunk) -> list[str]:
    """Return the distinct words of a chunk and its headings that may be suggested for a misspelt word."""
    written = tokens(_joined((chunk.title, chunk.section, *chunk.heading_path, chunk.content)))
    return sorted(word for word in frozenset(written) if is_offered(word))


def defined_terms(chunk: Chunk) -> list[str]:
    """Return each term that a chunk defines, as one word."""
    names = chunk.metadata.get("defines")
    written = [terms(name) for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else []
    return [JOINT.join(words[:_MOST_DEFINED]) for words in written if words]


def names_in(words: Sequence[str]) -> list[str]:
    """Return the terms that a question may name: each run of its words, joined as `defined_terms` joins them."""
    runs = (
        JOINT.join(words[start : start + length])
        for length in range(1, _MOST_DEFINED + 1)
        for start in range(len(words) - length + 1)
    )
    return list(dict.fromkeys(runs))


def _about(chunk: Chunk, bare: bool) -> frozenset[str]:
    about = {key: value for key, value in chunk.metadata.items() if key not in BOOKKEEPING_KEYS}
    text = chunk.content if bare else None
    return _words(_joined((chunk.document_id, chunk.doc_type, text, *_leaves(about))))


def _joined(parts: Iterable[Any]) -> str:
    return "\n".join(str(part) for part in parts if part not in (None, ""))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for below in value.values():
            yield from _leaves(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _leaves(below)
    elif not isinstance(value, bool):
        yield value


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


"""Chunks that are read before the index is queried: the best few contain most words."""


class Vocabulary(Protocol):
    """The words of the texts of one source."""

    def has(self, word: str) -> bool:
        """Return whether some text holds a term of the word; true for a word without terms (a stop word)."""
        ...

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return `spelling.near_words` of a word among those beginning with a letter, also of other sources."""
        ...

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of texts with each of some words, without those that no text has."""
        ...


def unknown_words(
    words: Iterable[str], chunks: Sequence[Chunk], look_up: Callable[[str], tuple[UnknownWord, ...]]
) -> tuple[UnknownWord, ...]:
    """Return the words that no text of a source has.

    Args:
        words: of the question.
        chunks: of the source, best first: most words are in the first ones, and need no look-up.
        look_up: returns a word with its suggestion, or nothing for a word that the source has (`looked_up`).
    """
    texts = cache(lambda: "\n".join(chunk.content.casefold() for chunk in chunks[:_FIRST]))
    return tuple(chain.from_iterable(look_up(word) for word in words if not _is_in(texts(), word.casefold())))


def looked_up(vocabulary: Vocabulary, word: str) -> tuple[UnknownWord, ...]:
    """Return a word with the nearest one, or nothing if the vocabulary has it.

    The nearest word has the fewest edits; of several, the most frequent. It begins with the word's first letter, or if
    no such word is near, with its second: the first letter may be superfluous or swapped.
    """
    return () if vocabulary.has(word) else (UnknownWord(word, _nearest(vocabulary, word.casefold())),)


def _nearest(vocabulary: Vocabulary, word: str) -> str:
    for letter in dict.fromkeys(word[:2]):
        for _, tied in groupby(vocabulary.near(word, letter), key=lambda candidate: candidate[0]):
            if counts := vocabulary.counts([name for _, name in tied]):
                return min(counts, key=lambda name: (-counts[name], name))
    return ""


def _is_in(texts: str, word: str) -> bool:
    """Return whether a text contains the word as a whole word."""
    start = texts.find(word)
    while start >= 0:
        end = start + len(word)
        if not texts[max(start - 1, 0) : start].isalnum() and not texts[end : end + 1].isalnum():
            return True
        start = texts.find(word, end)
    return False
