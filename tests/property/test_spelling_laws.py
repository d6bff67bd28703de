"""Laws of near words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.query.spelling import edits, is_offered, near_words
from context_engine.core.text import stems

letters = st.text(alphabet="abelrstäß", min_size=1, max_size=10)


@given(
    word=st.text(alphabet="abelrstäß", min_size=4, max_size=10), vocabulary=st.lists(letters, max_size=25, unique=True)
)
def test_the_words_passed_over_by_their_letters_are_none_that_slips_reach(word: str, vocabulary: list[str]) -> None:
    assert near_words(word, vocabulary) == plainly(word, vocabulary)


def plainly(word: str, vocabulary: list[str]) -> list[tuple[int, str]]:
    """Every word of the vocabulary looked at letter by letter."""
    found = []
    for one in filter(is_offered, vocabulary):
        if len(word) < 6:
            replaced = len(word) == len(one) and sorted(word) != sorted(one)
            slips = None if replaced else edits(word, one, 1)
        else:
            stem, other = stems([word, one])
            slips = edits(word, one, 2 if len(word) >= 8 else 1) or 2 * (edits(stem, other, 1) or 0)
        if slips:
            found.append((slips, one))
    return sorted(found)
