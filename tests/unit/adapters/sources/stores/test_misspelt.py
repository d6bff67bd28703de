"""Words that no text has, over a vocabulary in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from context_engine.adapters.sources.stores.chunk_rows import _is_in, looked_up, unknown_words
from context_engine.core.models import Chunk, UnknownWord
from context_engine.core.query.spelling import near_words


class Words:
    """The words of a source, beside those of others, which it must not suggest."""

    def __init__(self, own: Mapping[str, int], of_others: Sequence[str] = ()) -> None:
        self.own, self.every = own, [*own, *of_others]

    def has(self, word: str) -> bool:
        return word.casefold() in self.own

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        return near_words(word, [name for name in self.every if name.startswith(letter)])

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        return {word: self.own[word] for word in words if word in self.own}


def test_of_equally_near_words_the_most_frequent_is_suggested() -> None:
    words = Words({"collateral": 3, "collaterals": 9})
    assert looked_up(words, "collateralz") == (UnknownWord("collateralz", "collaterals"),)


def test_a_nearer_word_of_another_source_is_not_suggested() -> None:
    assert looked_up(Words({"limits": 1}, ["limit"]), "limt") == (UnknownWord("limt", ""),)
    assert looked_up(Words({"limit": 1}), "limt") == (UnknownWord("limt", "limit"),)


def test_a_swapped_first_letter_is_found_by_the_second() -> None:
    assert looked_up(Words({"minimum": 1}), "imnimum") == (UnknownWord("imnimum", "minimum"),)


def test_a_word_in_the_best_texts_is_not_looked_up() -> None:
    chunks = [Chunk(content="The Limit holds.")]
    asked: list[str] = []
    assert unknown_words(["limit", "fee"], chunks, lambda word: asked.append(word) or ()) == ()  # type: ignore[func-returns-value]
    assert asked == ["fee"]


@pytest.mark.parametrize(
    ("texts", "held"),
    [
        ("the limit.", True),
        ("limit", True),
        ("unlimited, limited, a limit", True),  # the third place is a word by itself
        ("limited", False),
        ("unlimit", False),
        ("", False),
    ],
)
def test_a_word_stands_in_a_text_where_neither_side_goes_on(texts: str, held: bool) -> None:
    assert _is_in(texts, "limit") is held
