"""What stands on a PDF page beside its text: values of forms, notes."""

import fpdf
import pytest

from context_engine.ingest.loaded_document import NO_TEXT


def text_field(name, value, more=""):
    return f"/Subtype /Widget /FT /Tx /T ({name}) /V ({value}) {more}"


def test_values_of_text_fields_are_read_though_nothing_draws_them(one, form_pdf):
    data = form_pdf(
        fields=(
            text_field("borrower", "Harbour Ltd", "/TU (Name of the borrower:)"),
            text_field("form1[0].#subform[0].Amount[0]", "25 million"),
            text_field("remarks", "first line\\nsecond line", "/Ff 4096"),
            text_field("empty", ""),
        )
    )
    assert one(data, "a.pdf").text == (
        "Name of the borrower: Harbour Ltd\n\nAmount: 25 million\n\nremarks: first line second line"
    )


def test_a_value_that_stands_with_the_parent_of_its_field(one, form_pdf):
    parent = "<< /FT /Tx /T (desk) /V (Rates) /Kids [7 0 R] >>"
    data = form_pdf("/Subtype /Widget /Parent 8 0 R", fields=(text_field("book", "Cash"),), objects=(parent,))
    data = data.replace(
        b"/Fields [6 0 R]", b"/Fields [6 0 R 8 0 R]"
    )  # the table of objects no longer fits: it is made anew
    assert one(data, "a.pdf").text == "book: Cash\n\ndesk: Rates"


def test_boxes_tell_whether_they_are_checked(one, form_pdf):
    drawn = "/AP << /N << /{} 10 0 R /Off 10 0 R >> >>"
    boxes = (
        f"/T (PEP) /V /Off /AS /Off {drawn.format('Yes')}",
        f"/T (Resident) /V /Yes /AS /Yes {drawn.format('Yes')}",
        "/T (Collateral) /V /Full /AS /Full",  # nothing draws it
        "/T (Netting) /V /Yes",
    )
    nothing = "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 0 >>\nstream\n\nendstream"
    data = form_pdf(fields=[f"/Subtype /Widget /FT /Btn {box}" for box in boxes], objects=(nothing,))
    assert one(data, "a.pdf").text.split("\n\n") == [
        "PEP: not checked",
        "Resident: checked",
        "Collateral: checked (Full)",
        "Netting: checked",
    ]


@pytest.mark.parametrize("appearance", ["", "/AP << /N << /{} 9 0 R /Off 9 0 R >> >>"])
def test_of_radio_buttons_the_one_that_is_chosen(one, form_pdf, appearance):
    button = "/Subtype /Widget /Parent 8 0 R /AS /{} "
    group = "<< /FT /Btn /Ff 49152 /T (Rating) /V /Watch /Kids [6 0 R 7 0 R] >>"
    nothing = "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 0 >>\nstream\n\nendstream"
    fields = [button.format(state) + appearance.format(name) for state, name in (("Off", "Pass"), ("Watch", "Watch"))]
    data = form_pdf(fields=fields, objects=(group, nothing)).replace(b"/Fields [6 0 R 7 0 R]", b"/Fields [8 0 R]")
    assert one(data, "a.pdf").text == "Rating: Watch"


def test_choices(one, form_pdf):
    options = "/Opt [[(c) (Cash)] [(r) (Rates)] [(f) (Credit)]]"
    data = form_pdf(
        fields=(
            f"/Subtype /Widget /FT /Ch /Ff 131072 /T (Desk) {options} /V (r)",
            f"/Subtype /Widget /FT /Ch /Ff 2097152 /T (Books) {options} /V [(c) (f)]",
            "/Subtype /Widget /FT /Ch /Ff 393216 /T (Other) /V (written in)",
        )
    )
    assert one(data, "a.pdf").text == "Desk: Rates\n\nBooks: Cash, Credit\n\nOther: written in"


def test_a_password_in_a_form_is_not_read(refused, form_pdf):
    assert refused(form_pdf(fields=(text_field("pin", "hunter2", "/Ff 8192"),)), "a.pdf") == NO_TEXT


def test_a_value_that_the_page_prints_at_its_place_is_read_once(one, form_pdf):
    printed = "BT /F 10 Tf 102 705 Td (Harbour Ltd) Tj ET BT /F 10 Tf 102 300 Td (Cash) Tj ET"
    data = form_pdf(fields=(text_field("borrower", "Harbour Ltd"), text_field("desk", "Cash")), content=printed)
    assert one(data, "a.pdf").text == "Harbour Ltd\n\nCash\n\ndesk: Cash"  # the word elsewhere is another


@pytest.mark.parametrize(
    "subtype, label",
    [
        ("Text", "Note"),
        ("FreeText", "Text"),
        ("Highlight", "Highlight"),
        ("Underline", "Underline"),
        ("StrikeOut", "Struck out"),
        ("Stamp", "Stamp"),
        ("Caret", "Insertion"),
        ("Square", "Note"),
    ],
)
def test_annotations_are_read_with_their_kind(one, form_pdf, subtype, label):
    data = form_pdf(f"/Subtype /{subtype} /Contents (Check the limit.)")
    assert one(data, "a.pdf").text == f"[{label}: Check the limit.]"


def test_a_stamp_that_draws_its_text_and_does_not_say_it(one, form_pdf):
    drawing = "BT /F 10 Tf 2 5 Td (Approved by the board) Tj ET"
    form = (
        "<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F 5 0 R >> >> "
        f"/Length {len(drawing)} >>\nstream\n{drawing}\nendstream"
    )
    note = "/Subtype /Square /Contents (Sealed.)"
    page = "BT /F 10 Tf 102 305 Td (The text of the page.) Tj ET"
    data = form_pdf("/Subtype /Stamp /AP << /N 8 0 R >>", note, content=page, objects=(form,))
    assert one(data, "a.pdf").text == "The text of the page.\n\n[Note: Sealed.]\n\n[Drawn: Approved by the board]"


def test_links_and_the_windows_of_notes_say_nothing_of_their_own(refused, form_pdf):
    data = form_pdf("/Subtype /Link /Contents (to page 4)", "/Subtype /Popup /Contents (Check the limit.)")
    assert refused(data, "a.pdf") == NO_TEXT


def test_notes_stand_with_their_page(one):
    pdf = fpdf.FPDF()
    for number in (1, 2):
        pdf.add_page()
        pdf.set_font("helvetica", size=10)
        pdf.text(20, 100, f"The text of sheet {number}.")
        pdf.text_annotation(20, 110, f"A note on sheet {number}.")
    with pdf.highlight("Too high?"):
        pdf.text(20, 150, "The limit is EUR 5 million.")
    loaded = one(bytes(pdf.output()), "a.pdf")
    assert loaded.text == (
        "The text of sheet 1.\n\n[Note: A note on sheet 1.]\n\n"
        "The text of sheet 2.\n\nThe limit is EUR 5 million.\n\n[Note: A note on sheet 2.]\n\n[Highlight: Too high?]"
    )
    assert loaded.pages == ((0, 1), (loaded.text.index("The text of sheet 2"), 2))


@pytest.mark.wording
def test_what_is_hidden_is_not_text_but_told(one, refused, form_pdf):
    fields = (text_field("desk", "Cash"), text_field("code", "X7", "/F 2"))
    loaded = one(form_pdf(fields=fields), "a.pdf")
    assert loaded.text == "desk: Cash"
    assert loaded.warnings == ("hidden text, fields and notes left out: code: X7",)
    assert refused(form_pdf(fields=fields[1:]), "b.pdf") == "has no text but hidden text, fields and notes: code: X7"


def _strike_out(left, right, low):
    quad = f"{left} {low + 12} {right} {low + 12} {left} {low - 2} {right} {low - 2}"
    return f"/Subtype /StrikeOut /QuadPoints [{quad}]"


def test_struck_words_are_marked_where_they_stand(one, form_pdf):
    content = "BT /F 10 Tf 100 500 Td (The limit is 25 % of own funds.) Tj ET"
    text = one(form_pdf(_strike_out(151, 173, 500), content=content), "a.pdf").text
    assert text == "The limit is ~~25 %~~ of own funds."


def test_struck_words_that_occur_twice_are_named(one, form_pdf):
    content = "BT /F 10 Tf 100 500 Td (25 % or) Tj 0 -12 Td (25 % less) Tj ET"
    text = one(form_pdf(_strike_out(99, 121, 500), content=content), "a.pdf").text
    assert text == "25 % or 25 % less\n\n[Struck out: 25 %]"
