"""Find what a shown chunk has become: the same text, a changed text, or the chunks it was split into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, NamedTuple

from context_engine.audit.review.shown import ShownChunk
from context_engine.core.models import Chunk
from context_engine.core.text import content_sha256

_ALIKE: Final = 0.75
"""Share of common words from which a text under another id counts as the changed one; neighbours share words too."""

_ALIKE_OF_THE_SAME_ID: Final = 0.5
_HEADING: Final = re.compile(r"^#{1,6} .*$", re.MULTILINE)
_MOST_COMPARED: Final = 200  # chunks, because comparing takes time quadratic in their words
_MOST_OVERLAP: Final = 500  # words


class Counterpart(NamedTuple):
    """The present counterpart of a chunk.

    Attributes:
        chunk: the chunk now in its place; None if it was split into others.
        same_text: whether the text is identical.
        cut_into: ids of the chunks that contain the words of a chunk that was cut differently.
    """

    chunk: Chunk | None
    same_text: bool = False
    cut_into: tuple[str, ...] = ()


def counterpart(shown: ShownChunk, now: Sequence[Chunk], taken: Set[str] = frozenset()) -> Counterpart | None:
    """Return the present counterpart of a chunk; None if there is none.

    Args:
        now: the present chunks of its document in one version; without a document, those with its id.
        taken: content hashes of the other shown chunks; a present chunk with such a text is the counterpart of that
            chunk.
    """
    equal = [chunk for chunk in now if content_sha256(chunk.content) == shown.content_sha256]
    if equal:
        return Counterpart(min(equal, key=lambda chunk: chunk.chunk_id != shown.own_id), same_text=True)
    if shown.chunk is None:
        same_id = next((chunk for chunk in now if chunk.chunk_id == shown.own_id), None)
        return None if same_id is None else Counterpart(same_id)
    words = _words(shown.chunk.content)
    under_another_heading = next((chunk for chunk in now if _words(chunk.content) == words), None)
    if under_another_heading is not None:
        return Counterpart(under_another_heading)
    cut_into = _cut_into(words, now)
    if cut_into:
        return Counterpart(None, cut_into=cut_into)
    free = [chunk for chunk in now if content_sha256(chunk.content) not in taken]
    similar = _most_similar(shown, free)
    return None if similar is None else Counterpart(similar)


def _most_similar(shown: ShownChunk, now: Sequence[Chunk]) -> Chunk | None:
    """Return the chunk whose text is most similar, preferring the one with the same id."""
    assert shown.chunk is not None
    content = shown.chunk.content
    same_id = next((chunk for chunk in now if chunk.chunk_id == shown.own_id), None)
    if same_id is not None and likeness(content, same_id.content) >= _ALIKE_OF_THE_SAME_ID:
        return same_id
    others = [chunk for chunk in now[:_MOST_COMPARED] if chunk is not same_id]
    shares = [likeness(content, other.content, _ALIKE) for other in others]
    best = max(range(len(others)), key=shares.__getitem__, default=0)
    return others[best] if any(shares) else same_id


def _cut_into(words: tuple[str, ...], now: Sequence[Chunk]) -> tuple[str, ...]:
    """Return the chunks that contain the words in sequence, in one chunk or across several."""
    holding = [chunk for chunk in now if _place(words, _words(chunk.content)) is not None]
    if holding:
        return tuple(chunk.chunk_id for chunk in holding)
    ordered = sorted(
        (chunk for chunk in now if chunk.position is not None), key=lambda chunk: (chunk.position, chunk.chunk_id)
    )
    joined: list[str] = []
    owners: list[str] = []
    for chunk in ordered:
        fresh = list(_words(chunk.content))
        shared = _overlap(joined, fresh)
        joined += fresh[shared:]
        owners += [chunk.chunk_id] * (len(fresh) - shared)
    start = _place(words, tuple(joined))
    return () if start is None else tuple(dict.fromkeys(owners[start : start + len(words)]))


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text without headings, which change with the chunking."""
    return tuple(_HEADING.sub("", text).split()) or tuple(text.split())


def _place(words: tuple[str, ...], within: tuple[str, ...]) -> int | None:
    """Return where a sequence of words starts within another; None if it does not occur."""
    if not words:
        return None
    starts = (at for at in range(len(within) - len(words) + 1) if within[at] == words[0])
    return next((at for at in starts if within[at : at + len(words)] == words), None)


def _overlap(before: Sequence[str], fresh: Sequence[str]) -> int:
    """Return how many words at the end of the previous text begin the next chunk: chunks may overlap."""
    for size in range(min(len(before), len(fresh), _MOST_OVERLAP), 0, -1):
        if before[-size] == fresh[0] and before[-size:] == fresh[:size]:
            return size
    return 0


_BEFORE: Final = 4  # words shown before a change
_MOST_CHANGES: Final = 20
_MOST_WORDS: Final = 4000  # per text, because the time to compare grows with the product of the two lengths


class WordChange(NamedTuple):
    """One place where words were replaced, added or removed.

    Attributes:
        before: the last few words before it, common to both texts.
        was, now: the words; "" for none.
    """

    before: str
    was: str
    now: str


def word_changes(was: str, now: str) -> tuple[WordChange, ...]:
    """Return where two texts differ, in order, at most 20 places; white space is ignored.

    >>> word_changes("The limit is 5 million a day", "The limit is 7 million a day")
    (WordChange(before='The limit is', was='5', now='7'),)
    """
    former, present = was.split()[:_MOST_WORDS], now.split()[:_MOST_WORDS]
    return tuple(islice(_changes(former, present), _MOST_CHANGES))


def likeness(was: str, now: str, least: float = 0.0) -> float:
    """Return the share of words that two texts have in the same order, [0, 1]: 2 M / T, as difflib defines it.

    Args:
        was, now: the texts; the first 4000 words of each are compared.
        least: a smaller share is returned as 0, which is often faster.
    """
    former, present = was.split()[:_MOST_WORDS], now.split()[:_MOST_WORDS]
    matcher = SequenceMatcher(None, former, present, autojunk=False)
    if not former and not present:
        return 1.0
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    share = matcher.ratio()
    return share if share >= least else 0.0


def _changes(former: Sequence[str], present: Sequence[str]) -> Iterator[WordChange]:
    matcher = SequenceMatcher(None, former, present, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            before = former[max(start - _BEFORE, 0) : start]
            yield WordChange(" ".join(before), " ".join(former[start:end]), " ".join(present[new_start:new_end]))
