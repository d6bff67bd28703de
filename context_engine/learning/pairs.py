"""Training pairs, and pairs made of a store's own texts."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from context_engine.core.models import Chunk
from context_engine.core.text import terms


class TrainingPairs(NamedTuple):
    """Questions and their answers.

    Attributes:
        questions: their texts.
        passages: the rows of the held vectors that answer each question, at least one.
    """

    questions: list[str]
    passages: list[list[int]]


MOST_PAIRS: Final = 30_000
"""More pairs gain too little for the minutes that a model on a CPU takes to embed their questions."""

_LEAST_TERMS: Final = 4
_MOST_WORDS: Final = 24
_WINDOW: Final = 12
"""Words; questions have 10 to 30."""

_MOST_A_PASSAGE: Final = 4
_MOST_ANSWERS: Final = 3
"""A text in more passages than these identifies none of them."""

_MOST_TERMS: Final = 20
"""The vector of a passage that defines more terms represents none of them."""

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:;。！？；])\s+|\n+")


class OwnPair(NamedTuple):
    """A text used as a question, and the places of the passages that answer it.

    Attributes:
        kind: one of KINDS.
    """

    kind: str
    question: str
    answers: tuple[int, ...]


Found = Iterator[tuple[int, str, int]]
"""Rank of a question among those of its passage, from 0; the question; the place of a passage that answers it."""


def own_pairs(chunks: Sequence[Chunk], *, most: int = MOST_PAIRS) -> list[OwnPair]:
    """Return pairs made of some passages; each kind gets an equal share.

    Questions with fewer than four search terms, those that repeat their whole passage, and those found in more than
    three passages are left out.

    Args:
        chunks: the passages; bare headings neither ask nor answer.
        most: maximum number of pairs, >= 0. The unused share of a kind goes to the others.
    """
    known = _Texts(chunks)
    by_kind = {kind: _pairs(kind, make(known), known) for kind, make in _MAKERS.items()}
    out: list[OwnPair] = []
    for left, kind in zip(range(len(by_kind), 0, -1), sorted(by_kind, key=lambda name: (len(by_kind[name]), name))):
        out += by_kind[kind][: (most - len(out)) // left]
    return out


class _Texts:
    """Passages, cut into sentences once."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks
        self.places = [place for place, chunk in enumerate(chunks) if not _is_heading(chunk)]
        self.terms = {place: frozenset(terms(chunks[place].content)) for place in self.places}
        self.sentences = {place: _sentences(chunks[place].content) for place in self.places}


def _is_heading(chunk: Chunk) -> bool:
    return any(chunk.metadata.get(name) is True for name in ("heading_only", "is_heading"))


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text with enough terms, lowest digests first."""
    parts = (part.strip() for part in _SENTENCE_ENDS.split(text))
    return sorted((part for part in parts if len(set(terms(part))) >= _LEAST_TERMS), key=_text_digest)


def _of_sentences(texts: _Texts) -> Found:
    for place, some in texts.sentences.items():
        yield from ((turn, _cut(sentence), place) for turn, sentence in enumerate(some[:_MOST_A_PASSAGE]))


def _of_windows(texts: _Texts) -> Found:
    for place in texts.places:
        words = texts.chunks[place].content.split()
        windows = (words[start : start + _WINDOW] for start in range(0, len(words) - _WINDOW + 1, _WINDOW // 2))
        chosen = sorted(map(" ".join, windows), key=_text_digest)[:_MOST_A_PASSAGE]
        yield from ((turn, window, place) for turn, window in enumerate(chosen))


def _of_headings(texts: _Texts) -> Found:
    for place, some in texts.sentences.items():
        path = texts.chunks[place].heading_path
        chosen = some[::-1][:_MOST_A_PASSAGE] if path else ()
        yield from ((turn, f"{path[-1]}: {_cut(sentence)}", place) for turn, sentence in enumerate(chosen))


def _of_definitions(texts: _Texts) -> Found:
    for place in texts.places:
        defined = texts.chunks[place].metadata.get("defines") or ()
        yield from ((0, str(term), place) for term in defined if len(defined) <= _MOST_TERMS)


_MAKERS: Final[Mapping[str, Callable[[_Texts], Found]]] = {
    "sentence": _of_sentences,
    "window": _of_windows,
    "heading": _of_headings,
    "definition": _of_definitions,
}

KINDS: Final = tuple(_MAKERS)
"""A sentence, a window of words, a heading with a sentence, a term that is defined."""


def _pairs(kind: str, found: Found, texts: _Texts) -> list[OwnPair]:
    """Return the pairs of one kind: first pairs of all passages before second ones, then by digest."""
    answers: dict[str, set[int]] = defaultdict(set)
    turns: dict[str, int] = {}
    for turn, question, place in found:
        answers[question].add(place)
        turns[question] = min(turn, turns.get(question, turn))
    least = 1 if kind == "definition" else _LEAST_TERMS
    kept = (
        OwnPair(kind, question, tuple(sorted(places)))
        for question, places in answers.items()
        if len(places) <= _MOST_ANSWERS and _asks(question, places, texts, least)
    )
    return sorted(kept, key=lambda pair: (turns[pair.question], _text_digest(pair.question)))


def _asks(question: str, places: set[int], texts: _Texts, least: int) -> bool:
    """Return whether a question has enough terms and its answer has terms beyond it."""
    asked_terms = set(terms(question))
    return len(asked_terms) >= least and not any(texts.terms[place] <= asked_terms for place in places)


def _cut(sentence: str) -> str:
    return " ".join(sentence.split()[:_MOST_WORDS])


def _text_digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
