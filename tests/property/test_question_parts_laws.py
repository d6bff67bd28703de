"""Laws of the parts that questions are held out in: no two share an answer, whatever was judged."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InvalidRequest
from context_engine.learning.parts import QuestionParts, parts_of

Asked = list[tuple[str, frozenset[int]]]

answers = st.frozensets(st.integers(0, 30), max_size=3)
judged = st.lists(st.tuples(st.integers(0, 40).map("Question {}?".format), answers), min_size=2, max_size=40)


def parted(asked: Sequence[tuple[str, frozenset[int]]], count: int) -> QuestionParts:
    return parts_of([text for text, _ in asked], [own for _, own in asked], count)


def connected(asked: Asked) -> list[set[int]]:
    """The groups again, by joining what touches until nothing does."""
    groups: list[tuple[set[int], set[object]]] = []
    for place, (text, own) in enumerate(asked):
        new: tuple[set[int], set[object]] = ({place}, {text, *own})
        apart = []
        for group in groups:
            if group[1] & new[1]:
                new = (new[0] | group[0], new[1] | group[1])
            else:
                apart.append(group)
        groups = [*apart, new]
    return [places for places, _ in groups]


@given(judged, st.integers(2, 6))
def test_every_question_is_in_one_part_and_what_shares_an_answer_in_the_same(asked: Asked, count: int) -> None:
    different = len({text for text, _ in asked})
    if different < count:
        with pytest.raises(InvalidRequest, match="folds must be from 2"):
            parted(asked, count)
        return
    found, groups = parted(asked, count), connected(asked)
    assert sorted(place for part in found.places for place in part) == list(range(len(asked)))
    assert all(found.places)
    assert (found.groups, found.largest) == (len(groups), max(map(len, groups)))
    assert found.cut == (2 * found.largest > len(asked))
    part_of = {place: number for number, part in enumerate(found.places) for place in part}
    for group in groups:
        if not (found.cut and len(group) == found.largest):
            assert len({part_of[place] for place in group}) == 1
    for one, (text, _) in enumerate(asked):
        assert all(part_of[one] == part_of[other] for other, (same, _) in enumerate(asked) if same == text)


@given(judged, st.randoms(use_true_random=False))
def test_the_order_of_the_questions_does_not_matter(asked: Asked, random: Random) -> None:
    if len({text for text, _ in asked}) < 2:
        return
    turned = list(asked)
    random.shuffle(turned)

    def texts(some: Asked) -> tuple[list[list[str]], int, int]:
        found = parted(some, 2)
        return [sorted(some[place][0] for place in part) for part in found.places], found.groups, found.largest

    assert texts(turned) == texts(asked)


@given(judged, st.integers(2, 6))
def test_parts_differ_by_no_more_than_the_largest_group_that_is_whole(asked: Asked, count: int) -> None:
    if len({text for text, _ in asked}) < count:
        return
    found, groups = parted(asked, count), connected(asked)
    if found.cut:
        large = max(groups, key=len)
        groups.remove(large)
        texts = [asked[place][0] for place in large]
        groups += [{place for place in large if asked[place][0] == text} for text in texts]
    sizes = list(map(len, found.places))
    assert max(sizes) - min(sizes) <= max(map(len, groups))
