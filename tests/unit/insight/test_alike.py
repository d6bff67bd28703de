"""Pairs of sets that share most of their members: the same as by comparing every set with every other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.insight.alike import alike_pairs, pairs_with

SETS = st.lists(st.frozensets(st.integers(0, 9), max_size=8), max_size=25)


@given(SETS, st.sampled_from([0.5, 0.7, 0.8, 1.0]), st.integers(1, 4))
def test_it_finds_each_pair_once(sets: list[frozenset[int]], share: float, least: int) -> None:
    expected = {
        (i, j)
        for j in range(len(sets))
        for i in range(j)
        if len(sets[i] & sets[j]) >= max(least, share * max(len(sets[i]), len(sets[j])) - 1e-9)
        and min(len(sets[i]), len(sets[j])) >= least
    }
    pairs = list(alike_pairs(sets, share, least=least))
    assert set(pairs) == expected and len(pairs) == len(expected)


@given(SETS, st.sets(st.integers(0, 24)), st.sampled_from([0.5, 0.7, 1.0]), st.integers(1, 3))
def test_pairs_with_some_are_those_pairs(sets: list[frozenset[int]], some: set[int], share: float, least: int) -> None:
    some = {index for index in some if index < len(sets)}
    expected = {pair for pair in alike_pairs(sets, share, least=least) if some & set(pair)}
    pairs = list(pairs_with(sets, some, share, least=least))
    assert set(pairs) == expected and len(pairs) == len(expected)


def test_the_larger_set_counts() -> None:
    four, five, six = frozenset("abcd"), frozenset("abcde"), frozenset("abcdef")
    assert set(alike_pairs([four, five, six], 0.7)) == {(0, 1), (1, 2)}  # 4/5 and 5/6, but 4/6 < .7
