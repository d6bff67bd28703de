"""PDF: text in reading order, in whatever order it was drawn."""

import fpdf
import pytest

_RULES = [
    "The desk keeps a register of collateral.",
    "The custodian confirms each holding.",
    "A waiver ends with the year.",
    "The committee reviews the haircuts.",
]


def _pdf(draw, *, rotation=0):
    pdf = fpdf.FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.set_font("helvetica", size=11)
    draw(pdf)
    data = bytes(pdf.output())
    return data.replace(b"/Type /Page\n", b"/Type /Page\n/Rotate %d\n" % rotation) if rotation else data


def _words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1), (3, 0, 1, 2)])
def test_a_column_is_read_from_the_top_in_any_order_of_drawing(one, order):
    def draw(pdf):
        for number in order:
            pdf.text(60, 200 + 40 * number, _RULES[number])

    assert _words(one(_pdf(draw), "order.pdf").text) == " ".join(_RULES)


def test_a_title_drawn_last_comes_first(one):
    def draw(pdf):
        for number, rule in enumerate(_RULES):
            pdf.text(60, 120 + 15 * number, rule)
        pdf.text(60, 60, "Rules of the collateral desk")

    assert _words(one(_pdf(draw), "title.pdf").text).startswith("Rules of the collateral desk The desk keeps")


@pytest.mark.parametrize("upwards", [False, True])
def test_columns_drawn_upwards_are_read_one_after_the_other(one, upwards):
    lines = [(side, number) for side in (0, 1) for number in range(4)]

    def draw(pdf):
        for side, number in reversed(lines) if upwards else lines:
            pdf.text(
                60 + 260 * side, 300 + 14 * number, f"{'left' if side == 0 else 'right'} {number}: {_RULES[number]}"
            )

    text = _words(one(_pdf(draw), "columns.pdf").text)
    assert [text.index(f"{side} {number}:") for side in ("left", "right") for number in range(4)] == sorted(
        text.index(f"{side} {number}:") for side in ("left", "right") for number in range(4)
    )


def test_a_heading_over_both_columns_is_read_before_them(one):
    def draw(pdf):
        for number in reversed(range(4)):
            pdf.text(60, 300 + 14 * number, f"left {number}: {_RULES[number]}")
            pdf.text(320, 300 + 14 * number, f"right {number}: {_RULES[number]}")
        pdf.text(60, 270, "All of these rules apply to every desk of the bank and to each of its branches abroad")

    text = _words(one(_pdf(draw), "heading.pdf").text)
    places = [text.index(words) for words in ("All of these", "left 0", "left 3", "right 0", "right 3")]
    assert places == sorted(places)


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_rotated_page_is_read_in_the_order_of_its_text(one, rotation):
    def draw(pdf):
        for side in (0, 1):
            for number in range(30):
                pdf.text(50 + 270 * side, 90 + 24 * number, f"{side}-{number:02}: {_RULES[number % 4]}")

    text = _words(one(_pdf(draw, rotation=rotation), "turned.pdf").text)
    places = [text.index(f"{side}-{number:02}:") for side in (0, 1) for number in range(30)]
    assert places == sorted(places)


def test_raised_signs_do_not_change_the_order(one):
    def draw(pdf):
        for number, rule in enumerate(_RULES):
            pdf.set_font("helvetica", size=11)
            pdf.text(60, 300 + 16 * number, rule)
            pdf.set_font("helvetica", size=6)
            pdf.text(70, 296 + 16 * number, "2")

    text = one(_pdf(draw), "raised.pdf").text
    places = [text.index(rule[-12:]) for rule in _RULES]
    assert places == sorted(places)


@pytest.mark.parametrize("shifts", [(0, 0, 0), (0, 3, 6), (5, 0, 3)])
def test_three_columns_drawn_line_by_line_are_read_one_after_the_other(one, shifts):
    words = ("The desk keeps a full register", "A custodian confirms holdings", "Each committee reviews haircuts")
    lines = [
        (200 + 12 * number + shift, column, f"{number:02} {words[column]}")
        for number in range(20)
        for column, shift in enumerate(shifts)
    ]

    def draw(pdf):
        for y, column, text in sorted(lines):
            pdf.text(40 + 180 * column, y, text)

    text = _words(one(_pdf(draw), "woven.pdf").text)
    places = [text.index(f"{number:02} {words[column]}") for column in range(3) for number in range(20)]
    assert places == sorted(places)


def test_columns_end_where_a_line_crosses_one_gutter(one):
    words = ("The desk keeps a full register", "A custodian confirms holdings", "Each committee reviews haircuts")

    def draw(pdf):
        for number in range(14):
            pdf.text(40, 200 + 12 * number, f"{number:02} {words[0]}")
            if number == 7:
                pdf.text(220, 200 + 12 * number, "All positions of the desk are marked to market every evening")
                continue
            for column in (1, 2):
                pdf.text(40 + 180 * column, 200 + 12 * number, f"{number:02} {words[column]}")

    text = _words(one(_pdf(draw), "crossed.pdf").text)
    for numbers in (range(7), range(8, 14)):
        places = [text.index(f"{number:02} {words[column]}") for column in range(3) for number in numbers]
        assert places == sorted(places)


def test_a_heading_beside_a_line_of_another_column_is_the_only_heading(one):
    def draw(pdf):
        for number in range(20):
            pdf.text(60, 200 + 14 * number, f"left {number:02} {_RULES[number % 4]}")
            pdf.set_font("helvetica", "B" if number == 9 else "", size=16 if number == 9 else 11)
            pdf.text(320, 200 + 14 * number, "Waivers" if number == 9 else f"right {number:02} {_RULES[number % 4]}")
            pdf.set_font("helvetica", size=11)

    headings = [line for line in one(_pdf(draw), "beside.pdf").text.splitlines() if line.startswith("#")]
    assert [line.strip("# ") for line in headings] == ["Waivers"]


def test_notes_at_the_foot_that_are_drawn_before_the_letter_come_last(one):
    notes = [f"Note {number} of the bank." for number in ("one", "two", "three", "four")]

    def draw(pdf):
        for number, note in enumerate(notes):
            pdf.text(60, 600 + 12 * number, note)
        pdf.text(400, 660, "Harbour Bank, 1 Quay Street")
        for number, rule in enumerate(_RULES):
            pdf.text(60, 200 + 15 * number, rule)

    text = _words(one(_pdf(draw), "letter.pdf").text)
    assert text == " ".join([*_RULES, *notes, "Harbour Bank, 1 Quay Street"])


def test_a_foot_that_is_drawn_before_the_page_comes_last(one):
    def draw(pdf):
        pdf.text(60, 800, "Payment is due within 30 days.")
        for number, rule in enumerate(_RULES):
            pdf.text(60, 60 + 200 * number, rule)

    assert _words(one(_pdf(draw), "foot.pdf").text) == " ".join([*_RULES, "Payment is due within 30 days."])
