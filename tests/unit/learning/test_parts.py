"""Parts of questions, counted by hand: chains stay together, large groups come first, the too large one is cut."""

import pytest

from context_engine.errors import InvalidRequest
from context_engine.learning.parts import parts_of


def parts(answers, count, texts=None):
    return parts_of(texts or [f"question {place}" for place in range(len(answers))], answers, count)


def test_questions_that_share_an_answer_through_another_are_in_one_part():
    found = parts([{1}, {2}, {1, 2}, {3}, {4}, {5}], 2)
    assert (found.groups, found.largest, found.cut) == (4, 3, False)
    assert found.places == [[0, 1, 2], [3, 4, 5]]


def test_the_largest_groups_come_first_each_into_the_smallest_part():
    """Groups of 3, 2, 2, 1, 1 and 1 questions: 3 + 1, 2 + 1 and 2 + 1."""
    found = parts([{1}, {1}, {1}, {2}, {2}, {3}, {3}, {4}, {5}, {6}], 3)
    assert sorted(map(len, found.places)) == [3, 3, 4]
    (large,) = (part for part in found.places if {0, 1, 2} <= set(part))
    assert len(large) == 4
    assert not {3, 4, 5, 6} & set(large)


def test_a_group_of_more_than_half_is_cut_between_its_texts():
    texts = ["a", "A ", "b", "c", "d", "e"]
    found = parts([{1}, {2}, {1, 2}, {1}, {7}, {8}], 3, texts)
    assert (found.groups, found.largest, found.cut) == (3, 4, True)
    assert sorted(map(len, found.places)) == [2, 2, 2]
    assert [0, 1] in found.places, "questions of one text stay together"
    assert found.evidence() == {"questions": [2, 2, 2], "groups": 3, "largest_group": 4, "cut": True}


def test_a_group_of_half_is_whole_and_there_may_be_fewer_parts_than_asked_for():
    found = parts([{1}, {1}, {2}, {2}], 3)
    assert (found.groups, found.largest, found.cut) == (2, 2, False)
    assert sorted(found.places) == [[0, 1], [2, 3]]


def test_without_answers_questions_of_one_text_are_in_one_part():
    texts = [f"question {number // 2}" if number % 2 else f"Question  {number // 2}" for number in range(20)]
    found = parts_of(texts, None, 5)
    assert sorted(place for part in found.places for place in part) == list(range(20))
    assert all({place // 2 * 2, place // 2 * 2 + 1} <= set(part) for part in found.places for place in part)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_number_of_parts_that_cannot_be(count):
    with pytest.raises(InvalidRequest, match=r"folds must be from 2 to the number of judged questions \(3\)"):
        parts([{1}, {1}, {2}], count)
