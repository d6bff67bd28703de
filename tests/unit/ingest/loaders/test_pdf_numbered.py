"""PDF: headings in the type of the text, known by their numbers."""

import fpdf
import pytest

_TEXT = "The committee approves each limit before it is used, and the desk head records the day of the approval."


def _pdf(*lines, step=12):
    """Return a page of lines in one type, below a title in larger type."""
    pdf = fpdf.FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.set_font("helvetica", size=20)
    pdf.text(60, 90, "Credit policy")
    pdf.set_font("helvetica", size=9)
    for number, line in enumerate(lines):
        pdf.text(60, 130 + step * number, line)
    return bytes(pdf.output())


@pytest.fixture
def text(one):
    return lambda data: one(data, "policy.pdf").text


def test_numbers_that_run_through_the_document_are_headings(text):
    lines = ("1 Purpose", _TEXT, _TEXT, "2 Limits", "2.1 Approval of limits", _TEXT, "2.2 Waivers", _TEXT)
    headings = [line for line in text(_pdf(*lines)).split("\n\n") if line.startswith("#")]
    assert headings == ["# Credit policy", "## 1 Purpose", "## 2 Limits", "## 2.1 Approval of limits", "## 2.2 Waivers"]


@pytest.mark.parametrize(
    "lines",
    [
        ("1. Call the desk", "2. Write a note", "3. Wait for the reply", _TEXT, _TEXT, _TEXT, _TEXT),
        ("12 Days notice", _TEXT, "5 Per cent of the capital", _TEXT, "7 Members", _TEXT),
        ("1 The branch and the desk keep the record in the register of limits and waivers for a period of", _TEXT) * 3,
    ],
)
def test_lists_and_numbers_in_sentences_are_no_headings(text, lines):
    assert text(_pdf(*lines)).count("#") == 1


def test_a_numbered_line_above_a_longer_one_is_a_paragraph(text):
    lines = ("4.1 Approval of limits", _TEXT)
    assert text(_pdf(*lines)).split("\n\n")[1:] == ["4.1 Approval of limits", _TEXT]
