"""Pairs of question and answer that a base makes itself, where nobody has judged a question.

A piece of a passage, about as long as a question, stands for a question that the passage answers: a sentence, a window
of words, the innermost heading with a sentence. What the texts say of each other adds to them: a term and the passage
that defines it, a sentence that cites a clause and that clause, a sentence with a name spelled by its other name.

Nothing is drawn by chance: of each passage, and of all pairs of a kind, those with the lowest digests are taken, so
that equal texts give equal pairs in whatever order they come.

Source: Lee, Chang, Toutanova, "Latent Retrieval for Weakly Supervised Open Domain Question Answering" (2019), the
inverse cloze task.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from context_engine.core.models import Chunk
from context_engine.core.query.acronyms import glossary_of
from context_engine.core.query.references import references
from context_engine.core.text import terms

__all__ = ["KINDS", "MOST_PAIRS", "OwnPair", "own_pairs"]

MOST_PAIRS: Final = 30_000
"""Of more nothing more is learnt that is worth the minutes that a model takes on a CPU to embed their questions."""

_LEAST_TERMS: Final = 4
_MOST_WORDS: Final = 24
_WINDOW: Final = 12
"""Words; questions have 10 to 30."""
_MOST_A_PASSAGE: Final = 4
_MOST_ANSWERS: Final = 3
"""What stands in more passages than these asks for none of them."""
_MOST_TERMS: Final = 20
"""Of a passage that defines more terms, a vector says nothing of any."""

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:;。！？；])\s+|\n+")
_LABEL: Final = re.compile(r"[^\w()]+(?=\(|$)")


class OwnPair(NamedTuple):
    """A text that stands for a question, and the places of the passages that answer it.

    Attributes:
        kind: one of KINDS.
    """

    kind: str
    question: str
    answers: tuple[int, ...]


Found = Iterator[tuple[int, str, int]]
"""The turn of a question among those of its passage, from 0; the question; the place of a passage that answers it."""


def own_pairs(
    chunks: Sequence[Chunk], *, glossary: Mapping[str, Sequence[str]] | None = None, most: int = MOST_PAIRS
) -> list[OwnPair]:
    """Return the pairs that some passages give of themselves, as many of each kind as there are for its share.

    Left out are questions of fewer than four search terms, those that say the whole of their passage, and those that
    stand in more than three passages.

    Args:
        chunks: the passages; bare headings give none and answer none.
        glossary: {term: its other names} of the domain; the acronyms that the texts explain are added.
        most: pairs in all, >= 0. A kind that has fewer than its share leaves the rest to the others.
    """
    known = _Texts(chunks, {**glossary_of(one.content for one in chunks), **(glossary or {})})
    found = {kind: _pairs(kind, make(known), known) for kind, make in _MAKERS.items()}
    out: list[OwnPair] = []
    for left, kind in zip(range(len(found), 0, -1), sorted(found, key=lambda one: (len(found[one]), one))):
        out += found[kind][: (most - len(out)) // left]
    return out


class _Texts:
    """Passages, cut into sentences once.

    Attributes:
        names: other names by name.
    """

    def __init__(self, chunks: Sequence[Chunk], glossary: Mapping[str, Sequence[str]]) -> None:
        self.chunks = chunks
        self.places = [place for place, one in enumerate(chunks) if not _is_heading(one)]
        self.terms = {place: frozenset(terms(chunks[place].content)) for place in self.places}
        self.sentences = {place: _sentences(chunks[place].content) for place in self.places}
        self.names: dict[str, tuple[str, ...]] = {}
        for term, others in glossary.items():
            for name in (term, *others):
                self.names[name] = tuple(other for other in (term, *others) if other != name)


def _is_heading(chunk: Chunk) -> bool:
    return any(chunk.metadata.get(name) is True for name in ("heading_only", "is_heading"))


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text that say enough, those with the lowest digests first."""
    parts = (part.strip() for part in _SENTENCE_ENDS.split(text))
    return sorted((part for part in parts if len(set(terms(part))) >= _LEAST_TERMS), key=_digest)


def _of_sentences(texts: _Texts) -> Found:
    for place, some in texts.sentences.items():
        yield from ((turn, _cut(one), place) for turn, one in enumerate(some[:_MOST_A_PASSAGE]))


def _of_windows(texts: _Texts) -> Found:
    for place in texts.places:
        words = texts.chunks[place].content.split()
        windows = (words[start : start + _WINDOW] for start in range(0, len(words) - _WINDOW + 1, _WINDOW // 2))
        chosen = sorted(map(" ".join, windows), key=_digest)[:_MOST_A_PASSAGE]
        yield from ((turn, one, place) for turn, one in enumerate(chosen))


def _of_headings(texts: _Texts) -> Found:
    for place, some in texts.sentences.items():
        path = texts.chunks[place].heading_path
        chosen = some[::-1][:_MOST_A_PASSAGE] if path else ()
        yield from ((turn, f"{path[-1]}: {_cut(one)}", place) for turn, one in enumerate(chosen))


def _of_definitions(texts: _Texts) -> Found:
    for place in texts.places:
        defined = texts.chunks[place].metadata.get("defines") or ()
        yield from ((0, str(term), place) for term in defined if len(defined) <= _MOST_TERMS)


def _of_citations(texts: _Texts) -> Found:
    """Yield each sentence that names a clause of its own document, with the passages of that clause."""
    clauses: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for place in texts.places:
        chunk = texts.chunks[place]
        if chunk.section:
            clauses[chunk.document_id, _label(chunk.section)].append(place)
    for place, some in texts.sentences.items():
        for one in some:
            for name in references(one):
                cited = clauses.get((texts.chunks[place].document_id, _label(name)), ())
                yield from ((0, _cut(one), answer) for answer in cited if answer != place)


def _of_names(texts: _Texts) -> Found:
    """Yield a sentence of each passage that has a name of the glossary, with its other name instead."""
    if not texts.names:
        return
    listed = "|".join(map(re.escape, sorted(texts.names, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w-])(?:{listed})(?![\w-])")
    for place, some in texts.sentences.items():
        changed = (pattern.sub(lambda met: texts.names[met[0]][0], one, count=1) for one in some if pattern.search(one))
        yield from ((turn, _cut(one), place) for turn, one in enumerate(islice(changed, _MOST_A_PASSAGE)))


_MAKERS: Final[Mapping[str, Callable[[_Texts], Found]]] = {
    "sentence": _of_sentences,
    "window": _of_windows,
    "heading": _of_headings,
    "definition": _of_definitions,
    "citation": _of_citations,
    "name": _of_names,
}
KINDS: Final = tuple(_MAKERS)
"""sentence, window (of words), heading (with a sentence), definition (a term), citation (a sentence that cites a
clause), name (a sentence with another name)."""


def _pairs(kind: str, found: Found, texts: _Texts) -> list[OwnPair]:
    """Return the pairs of one kind: the first of each passage before the second of any, then by their digests."""
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
    return sorted(kept, key=lambda one: (turns[one.question], _digest(one.question)))


def _asks(question: str, places: set[int], texts: _Texts, least: int) -> bool:
    """Return whether a question says enough, and leaves something of its answer unsaid."""
    said = set(terms(question))
    return len(said) >= least and not any(texts.terms[place] <= said for place in places)


def _cut(sentence: str) -> str:
    return " ".join(sentence.split()[:_MOST_WORDS])


def _label(section: str) -> str:
    """Return the number of a clause in one spelling: `8.3.3.(3)`, `8.3.3(3)` and `8.3.3 (3)` are one clause."""
    return _LABEL.sub("", section.replace(" ", "")).casefold()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
