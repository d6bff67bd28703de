"""Words of a query that a base does not have, and the words of its texts that may be meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Final

from tantivy import Occur, Query

from context_engine.adapters.sources.local.candidates import SearchScope
from context_engine.adapters.sources.local.index import INDEX_OPTION, SCHEMA, WORDS
from context_engine.adapters.sources.local.queries import both
from context_engine.adapters.sources.local.view import View
from context_engine.core.models import Chunk, UnknownWord
from context_engine.core.query.spelling import near_words
from context_engine.core.text import terms

_MOST_KEPT: Final = 4096
_MOST_WORDS: Final = 65_536
_FIRST: Final = 5
"""Chunks that are read before the index is queried: the best few contain most words."""


def unknown_words(
    view: View, scope: SearchScope, words: Sequence[str], chunks: Sequence[Chunk]
) -> tuple[UnknownWord, ...]:
    """Return the words that no text of a scope has, each with the nearest word of its texts.

    The nearest word has the fewest edits; of several, the most frequent. It begins with the word's first letter, or if
    no such word is near, with its second: the first letter may be superfluous or swapped.

    Args:
        chunks: of the scope, best first: most words are in the first ones, and need no look-up.
    """
    texts = cache(lambda: "\n".join(chunk.content.casefold() for chunk in chunks[:_FIRST]))
    return tuple(chain.from_iterable(_unknown(view, scope, word, texts) for word in words))


def _unknown(view: View, scope: SearchScope, word: str, texts: Callable[[], str]) -> tuple[UnknownWord, ...]:
    """Return a word if the scope does not have it; results for a whole source are cached, because words recur."""
    suggestion = None if scope.name is None else view.words.get((scope.name, word))
    if suggestion == () or _is_in(texts(), word.casefold()):
        return ()
    if suggestion is None:
        suggestion = _looked_up(view, scope.query, word)
        if scope.name is not None:
            if len(view.words) >= _MOST_WORDS:
                view.words.clear()
            view.words[scope.name, word] = suggestion
    return suggestion


def _looked_up(view: View, scope: Query, word: str) -> tuple[UnknownWord, ...]:
    return () if _is_held(view, scope, word) else (UnknownWord(word, _nearest(view, scope, word.casefold())),)


def _is_in(texts: str, word: str) -> bool:
    """Whether a text contains the word as a whole word."""
    start = texts.find(word)
    while start >= 0:
        end = start + len(word)
        if not texts[max(start - 1, 0) : start].isalnum() and not texts[end : end + 1].isalnum():
            return True
        start = texts.find(word, end)
    return False


def _is_held(view: View, scope: Query, word: str) -> bool:
    """Whether some row holds a term of the word; true for a word without terms (a stop word)."""
    word_terms = terms(word)
    either = [
        (Occur.Should, Query.term_query(SCHEMA, field, term, INDEX_OPTION))
        for term in word_terms
        for field in ("body", "head")
    ]
    return not word_terms or _count(view, both(Query.boolean_query(either), scope)) > 0


def _nearest(view: View, scope: Query, word: str) -> str:
    for letter in dict.fromkeys(word[:2]):
        for _, tied in groupby(_near(view, word, letter), key=lambda candidate: candidate[0]):
            if counts := dict(_held(view, scope, [name for _, name in tied])):
                return min(counts, key=lambda word_of: (-counts[word_of], word_of))
    return ""


def _near(view: View, word: str, letter: str) -> list[tuple[int, str]]:
    """Return the words of all texts, of any source, that begin with a letter and are near to a word.

    They are cached, because the same words are missing in many small sources.
    """
    key = f"{letter} {word}"
    near = view.near.get(key)
    if near is None:
        known = view.once(
            ("words", letter), lambda: [term for term, _ in view.searcher.terms_with_prefix(WORDS, letter)]
        )
        if len(view.near) >= _MOST_KEPT:
            view.near.clear()
        near = view.near[key] = near_words(word, known)
    return near


def _held(view: View, scope: Query, words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the words that occur in the scope, with the number of rows."""
    for word in words:
        count = _count(view, both(Query.term_query(SCHEMA, WORDS, word, "basic"), scope))
        if count:
            yield word, count


def _count(view: View, query: Query) -> int:
    result = view.searcher.search(query, limit=1, count=True)
    return int(result.count)  # type: ignore[attr-defined]
