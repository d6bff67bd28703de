"""Numbers that run through a document."""

import pytest

from context_engine.core.chunking.series import follows, lettered, numbering


@pytest.mark.parametrize(
    ("number", "last", "ahead", "fits"),
    [
        (1, 9, None, True),  # begins anew
        (40, None, None, True),  # the first of an extract
        (4, 3, None, True),
        (6, 3, None, True),  # two repealed
        (7, 3, None, False),
        (40, 2, None, False),
        (40, 2, 41, True),  # pages are missing, and it goes on
        (40, 2, 3, False),
        (2, 5, 3, False),
    ],
)
def test_follows(number, last, ahead, fits):
    assert follows(number, last, ahead) is fits


def test_numbered_paragraphs_run_on():
    assert numbering([1, 2, 3, 4, 5, 6, 8], [200] * 7) == {0, 1, 2, 3, 4, 5, 6}


def test_a_list_within_numbered_paragraphs_is_no_part_of_them():
    # 1 2 3 [1 2] 4 5 6 7: seven of nine run on
    assert numbering([1, 2, 3, 1, 2, 4, 5, 6, 7], [200] * 9) == {0, 1, 2, 5, 6, 7, 8}


def test_lists_that_begin_anew_number_nothing():
    assert numbering([1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6], [200] * 12) == set()


def test_five_are_too_few_and_short_lines_are_a_list():
    assert numbering([1, 2, 3, 4, 5], [200] * 5) == set()
    assert numbering([1, 2, 3, 4, 5, 6], [149] * 6) == set()
    assert numbering([1, 2, 3, 4, 5, 6], [150] * 6) == {0, 1, 2, 3, 4, 5}


def test_letters_from_the_first_on():
    assert lettered([(1,), (2,), (3, 100), (4, 500)]) == {0, 1, 2, 3}
    assert lettered([(1,)]) == set()
    assert lettered([(2,), (3, 100)]) == set()


def test_roman_numerals():
    # I, II, III, IV, V: I is the ninth letter too
    assert lettered([(9, 1), (2,), (3,), (4,), (22, 5)]) == {0, 1, 2, 3, 4}
