"""PDF: links keep their targets where they stand in the text."""

import pytest

_TARGET = "https://intranet.example/haircuts"


def _link(left, right, bottom=480, target=_TARGET):
    return (
        f"<< /Type /Annot /Subtype /Link /Border [0 0 0] /Rect [{left} {bottom} {right} {bottom + 12}]"
        f" /A << /S /URI /URI ({target}) >> >>"
    )


def _linked_page(raw_pdf, content, *links):
    numbers = " ".join(f"{number} 0 R" for number in range(6, 6 + len(links)))
    return raw_pdf(f"BT /F 10 Tf {content} ET", *links, page=f"/Annots [{numbers}]")


def test_the_link_of_a_pdf_keeps_its_target(one, raw_pdf):
    shown = "100 482 Td (See the ) Tj (haircut ladder) Tj ( of the bank.) Tj"
    twice = _linked_page(raw_pdf, shown, _link(136, 200), _link(136, 200))
    assert one(twice, "a.pdf").text == f"See the [haircut ladder]({_TARGET}) of the bank."


def test_the_link_of_a_pdf_is_given_to_its_own_line(one, raw_pdf):
    shown = "100 600 Td (First: here.) Tj 0 -118 Td (Second: here.) Tj"
    text = one(_linked_page(raw_pdf, shown, _link(141, 160)), "a.pdf").text
    assert text == f"First: here.\n\nSecond: [here]({_TARGET})."


def test_a_link_of_a_pdf_over_two_lines_is_one(one, raw_pdf):
    shown = "100 482 Td (The ladder of haircuts is in the policy on) Tj 0 -12 Td (collateral, which the desk keeps.) Tj"
    links = _link(250, 310), _link(95, 139.5, bottom=468)
    text = one(_linked_page(raw_pdf, shown, *links), "a.pdf").text
    assert text.count(_TARGET) == 1 and f" collateral]({_TARGET})," in text


@pytest.mark.parametrize(
    "target", ["javascript:alert\\\\(1\\\\)", "file:///etc/passwd", "https://bank.example/" + "a" * 600]
)
def test_other_targets_of_a_pdf_are_left_out(one, raw_pdf, target):
    shown = "100 482 Td (See the ) Tj (haircut ladder) Tj ( of the bank.) Tj"
    assert (
        one(_linked_page(raw_pdf, shown, _link(136, 200, target=target)), "a.pdf").text
        == "See the haircut ladder of the bank."
    )


def test_words_that_only_a_target_has_are_no_link(one, raw_pdf):
    """A link for each word of an address: one that reaches over two words is not written into the other's target."""
    links = _link(100, 108.3, target=f"{_TARGET}-of-ides"), _link(105.5, 111.6, target=f"{_TARGET}-of-ides")
    text = one(
        _linked_page(raw_pdf, "100 482 Td (of-ides are listed, each with its haircut.) Tj", *links), "a.pdf"
    ).text
    assert text == f"[of]({_TARGET}-of-ides)-ides are listed, each with its haircut."
