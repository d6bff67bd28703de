"""Laws of near-duplicate detection for any texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.ranking import dedup
from context_engine.core.ranking.candidates import AnalysedText, Body
from context_engine.core.ranking.dedup import Match, _says_the_same
from context_engine.core.ranking.guard import allows, marks, meaning
from context_engine.core.text import normalize

WORDS = (
    "the desk must may not report excess limit 5 % 7 USD EUR before after bonds archive committee approves rejects "
    "proposal records procedure assessment compliance counterparty settlement. documentation, classification Retention "
    "NPA-001 限额 不"
)
words = st.sampled_from(WORDS.split())
MARKED = (
    "INCREAS increase increased RAIS raise APPROV approval. approved sign43 + +5 -5 >5 sign62 AA- aa AA-. Then x 5. 5% "
    "(b) 4(b) 4.2(-5) USD+5 This is. Art. KYC kyc don't not. # Head: Notes: IS One. Two"
)
marked = st.sampled_from([*WORDS.split(), *MARKED.split(" "), ".", "\n"])
text = st.one_of(
    st.lists(words, max_size=30).map(" ".join),
    st.lists(words, min_size=30, max_size=60, unique=False).map(" ".join),
    st.text(max_size=80),
)


def deduplicate(texts: Sequence[str], **how: Any) -> list[Match | None]:
    """Dedup of plain texts."""
    return dedup.deduplicate([AnalysedText(text) for text in texts], **how)


@st.composite
def pools(draw: Callable[..., object]) -> list[str]:
    """Texts of which many are edits of one another."""
    texts: list[str] = list(draw(st.lists(text, min_size=1, max_size=8)))  # type: ignore[call-overload]
    for _ in range(draw(st.integers(0, 6))):  # type: ignore[call-overload]
        row = str(draw(st.sampled_from(texts))).split(" ")
        place = draw(st.integers(0, len(row) - 1))
        row[place] = draw(words)  # type: ignore[index, call-overload]
        texts.append(" ".join(row))
    return texts


@given(pools())
def test_no_chains_and_the_kept_have_no_match(texts: list[str]) -> None:
    found = deduplicate(texts)
    kept = [texts[index] for index, match in enumerate(found) if match is None]
    assert len(found) == len(texts)
    assert all(match is None or (found[match.into] is None and match.into < index) for index, match in enumerate(found))
    assert deduplicate(kept) == [None] * len(kept)


@given(pools())
def test_the_same_texts_give_the_same_answer(texts: list[str]) -> None:
    before = list(texts)
    assert deduplicate(texts) == deduplicate(tuple(texts))
    assert texts == before


@given(pools(), st.sampled_from(["near", "exact"]))
def test_equal_text_always_merges(texts: list[str], method: str) -> None:
    doubled = [*texts, *(f"  {one.swapcase()}\n" if one.isascii() else one for one in texts)]
    found = deduplicate(doubled, method=method)  # type: ignore[arg-type]
    for index in range(len(texts), len(doubled)):
        assert (found[index] is None) == (not normalize(doubled[index]))


@given(pools())
def test_a_match_has_the_similarity_it_says(texts: list[str]) -> None:
    for index, match in enumerate(deduplicate(texts)):
        if match is not None and match.how == "equal_text":
            assert normalize(texts[index]) == normalize(texts[match.into])
            assert match.similarity == 1.0
        elif match is not None:
            assert 0.85 <= match.similarity <= 1.0


@given(pools())
def test_exact_is_a_dictionary_of_normalised_text(texts: list[str]) -> None:
    seen: dict[str, int] = {}
    expected: list[Match | None] = []
    for index, one in enumerate(texts):
        first = seen.setdefault(normalize(one), index)
        expected.append(Match(first, 1.0, "equal_text") if normalize(one) and first != index else None)
    assert deduplicate(texts, method="exact") == expected


@given(st.data(), st.lists(text.filter(normalize), min_size=1, max_size=6, unique_by=normalize))
def test_with_exact_duplicates_alone_the_order_does_not_change_the_groups(
    data: st.DataObject, texts: list[str]
) -> None:
    pool = data.draw(st.permutations([*texts, *texts]))
    found = deduplicate(pool, method="exact")
    groups = {frozenset(i for i, one in enumerate(pool) if one == each) for each in texts}
    joined = {frozenset({i, *(j for j, match in enumerate(found) if match and match.into == i)})
              for i, match in enumerate(found) if match is None}  # fmt: skip
    assert joined == groups


@given(
    st.lists(words, min_size=1, max_size=40),
    st.lists(words, min_size=1, max_size=40),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
)
def test_a_higher_threshold_never_merges_a_pair_more(one: list[str], other: list[str], low: float, high: float) -> None:
    low, high = sorted((low, high))
    pair = [" ".join(one), " ".join(other)]
    if deduplicate(pair, threshold=high)[1] is not None:
        assert deduplicate(pair, threshold=low)[1] is not None


@given(text, text)
def test_the_guard_is_symmetric_and_allows_a_text_itself(one: str, other: str) -> None:
    assert allows(one, one)
    assert allows(one, other) == allows(other, one)


@given(st.lists(marked, min_size=1, max_size=14), st.data())
def test_texts_that_the_guard_allows_have_the_same_marks(row: list[str], data: st.DataObject) -> None:
    """Shuffled, repeated and changed in one place: what the guard lets pass, the marks let pass."""
    other = data.draw(st.one_of(st.permutations(row), st.just(row)))
    place = data.draw(st.integers(0, len(row) - 1))
    changed = [*other[:place], *data.draw(st.lists(marked, max_size=2)), *other[place + data.draw(st.integers(0, 1)) :]]
    one, two = " ".join(row), " ".join(changed)
    if _says_the_same(AnalysedText(one).body, AnalysedText(two).body):
        found = [marks(AnalysedText(text).body.text) for text in (one, two)]
        assert found[0] == found[1] or None in found


def _alike(new: Body, kept: Body, threshold: float) -> bool:
    """Enough words in common, none that means something in one alone, and no two title pages."""
    one, other = frozenset(new.tokens), frozenset(kept.tokens)
    if len(one & other) / len(one | other) < threshold or (new.head and kept.head and new.head != kept.head):
        return False
    return not any(meaning(word) == word for word in one ^ other)


@given(pools(), st.sampled_from([0.3, 0.5, 0.6, 0.75, 0.85, 0.95, 1.0]))
def test_no_pair_is_missed_that_comparing_all_of_them_finds(texts: list[str], threshold: float) -> None:
    """Every kept text is compared, whatever it carries."""
    bodies = [AnalysedText(text).body for text in texts]
    kept: list[int] = []
    for index, match in enumerate(deduplicate(texts, threshold=threshold)):
        if match is not None and match.how == "equal_text":
            continue
        new = bodies[index]
        close = [
            one
            for one in kept
            if len(new.tokens) > 5 and _alike(new, bodies[one], threshold) and _says_the_same(new, bodies[one])
        ]
        assert (None if match is None else match.into) == (close[0] if close else None)
        if match is None and len(new.tokens) > 5:
            kept.append(index)
