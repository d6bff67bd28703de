"""PDF: Hebrew and Arabic lines with Latin codes and numbers, in the order in which they are read."""

import pytest

from context_engine.ingest.loaders.pdf_direction import in_logical_order, needs_order

_CODE_POINTS = {char: 0x05D0 + number for number, char in enumerate("abcdefghij")}
"""The letters of Helvetica by which the test draws Hebrew ones."""


def _boxes(visual, *, size=10):
    """Return the characters of a line as they stand on the page, each 6 points wide."""
    return [(char, (6 * at, 0, 6 * at + 6, size)) for at, char in enumerate(visual) if char != " "]


@pytest.mark.parametrize(
    ("visual", "logical"),
    [
        ("NPA-001 לש", "של NPA-001"),
        ("הנש לכ 4.2.1 ףיעס", "סעיף 4.2.1 כל שנה"),
        ("הנש 80% אוה", "הוא 80% שנה"),
        ("€500 אוה", "הוא €500"),
        ("ACME Ltd (הרבח)", "(חברה) ACME Ltd"),
        ("2026-01-31 ךיראת", "תאריך 2026-01-31"),
        ("הרבח Harbour Bank AG לש", "של Harbour Bank AG חברה"),
        ("F-7, NPA/12 :םידוק", "קודים: F-7, NPA/12"),
    ],
)
def test_runs_of_each_direction_are_put_in_order(visual, logical):
    assert in_logical_order(_boxes(visual)) == logical


def test_a_word_in_an_english_line_is_turned_alone():
    visual = "The word (םולש) means NPA-001."
    assert in_logical_order(_boxes(visual)) == "The word (שלום) means NPA-001."


def test_the_order_given_does_not_matter():
    boxes = _boxes("NPA-001 לש")
    assert in_logical_order(boxes[::-1]) == in_logical_order(boxes[3:] + boxes[:3]) == "של NPA-001"


def test_the_letters_of_a_ligature_keep_their_order():
    assert in_logical_order(
        [("ل", (0, 0, 6, 10)), ("ا", (0, 0, 6, 10)), ("س", (6, 0, 12, 10)), ("7", (20, 0, 26, 10))]
    ) == ("7 سلا")


@pytest.mark.parametrize(
    ("text", "needed"),
    [("NPA-001", False), ("שלום", False), ("שלום NPA", True), ("שלום 80", True), ("שָלום 80", False), ("é 80", False)],
)
def test_only_lines_of_both_directions_need_order(text, needed):
    assert needs_order(text) is needed


def test_a_page_with_a_code_in_a_hebrew_line(one, raw_pdf):
    mapping = "".join(f"<{ord(char):02X}> <{code:04X}>\n" for char, code in _CODE_POINTS.items())
    letters = f"{len(_CODE_POINTS)} beginbfchar\n{mapping}endbfchar"
    cmap = f"begincmap 1 begincodespacerange <00> <FF> endcodespacerange {letters} endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 6 0 R >>"
    content = "BT /F 12 Tf 100 700 Td (NPA-001) Tj ET BT /F 12 Tf 153 700 Td (cba) Tj ET"
    stream = f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream"
    assert one(raw_pdf(content, stream, font=font), "a.pdf").text == "אבג NPA-001"


def test_texts_upon_each_other_are_left_as_they_are():
    boxes = [*_boxes("הרבח 7"), ("N", (2, 0, 8, 10))]
    assert in_logical_order(boxes) is None
