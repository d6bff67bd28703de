"""What a section is cited by."""

import pytest

from context_engine.core.chunking.labels import extends, follows, label_of, lettered, numbering, values


@pytest.mark.parametrize(
    ("line", "text", "kind", "depth", "rest"),
    [
        ("4 Scope", "4", "number", 1, "Scope"),
        ("4. Scope", "4", "number", 1, "Scope"),
        ("12) The firm", "12", "number", 1, "The firm"),
        ("1.2 Scope", "1.2", "number", 2, "Scope"),
        ("3.6A.2 Scope", "3.6A.2", "number", 3, "Scope"),
        ("1.2.3(a) Scope", "1.2.3(a)", "number", 4, "Scope"),
        ("1.3.3.(1) A firm", "1.3.3.(1)", "number", 4, "A firm"),
        ("1.2.Guidance.3 Firms", "1.2.Guidance.3", "number", 4, "Firms"),
        ("1.2.Guidance on late fees.3. Firms", "1.2.Guidance on late fees.3", "number", 4, "Firms"),
        ("2.3.2.Guidance Returns are due.", "2.3.2.Guidance", "number", 4, "Returns are due."),
        ("A2.1.4 Reports", "A2.1.4", "number", 3, "Reports"),
        ("Article 5", "Article 5", "word", 1, ""),
        ("ARTICLE 5: Scope", "Article 5", "word", 1, "Scope"),
        ("Section 4 Scope", "4", "word", 1, "Scope"),
        ("Clause 4.2.1(b)", "4.2.1(b)", "word", 4, ""),
        ("Annex II - Forms", "Annex II", "word", 1, "Forms"),
        ("APP1.A2.3 Forms", "App 1.A2.3", "word", 3, "Forms"),
        ("Part 2.Chapter 3.12.(4) The firm", "Part 2.Chapter 3.12.(4)", "word", 4, "The firm"),
        ("IV. Limits", "IV", "letter", 1, "Limits"),
        ("B) Limits", "B", "letter", 1, "Limits"),
        ("第三条 上限", "第三条", "word", 1, "上限"),
        ("第1条の2 目的", "第1条の2", "word", 1, "目的"),
        ("제3조 목적", "제3조", "word", 1, "목적"),
        ("มาตรา 5 ขอบเขต", "มาตรา 5", "word", 1, "ขอบเขต"),
        ("二、范围", "二", "letter", 1, "范围"),
    ],
)
def test_labels(line, text, kind, depth, rest):
    label = label_of(line)
    assert (label.text, label.kind, label.depth, label.rest) == (text, kind, depth, rest)


@pytest.mark.parametrize(
    "line", ["", "The firm must", "(a) an item", "- an item", "2025 in review", "3rd party", "Application"]
)
def test_no_label(line):
    assert label_of(line) is None


def test_a_line_of_nothing_but_numbers_is_no_label():
    assert label_of("1." * 12 + "1 Limits").depth == 13
    assert label_of("1." * 17 + "1 Limits") is None


def test_extends():
    assert extends("4.1", "4")
    assert extends("4(a)", "4")
    assert extends("1.2.Guidance", "1.2")
    assert not extends("41", "4")
    assert not extends("4", "4")
    assert not extends("4", None)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("7 x", (7,)),
        ("B. x", (2,)),
        ("IV. x", (4,)),
        ("C. x", (3, 100)),
        ("XIX. x", (19,)),
        ("十二、x", (12,)),
        ("二十、x", (20,)),
    ],
)
def test_places_in_a_series(line, found):
    assert values(label_of(line)) == found


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
