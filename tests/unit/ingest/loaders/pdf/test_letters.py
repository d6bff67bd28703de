"""PDF: accents on their letters, no spaces made up inside words, signs without a name."""

import pytest

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaders import pdf_file
from context_engine.ingest.loaders.ocr import RecognisedPage, Recognition
from context_engine.ingest.loaders.pdf_direction import needs_order
from context_engine.ingest.loaders.pdf_letters import NOTHING, WORD, mended
from context_engine.ingest.loaders.pdf_text import PageText


def _mended(text, boxes, made_up=(), slant=0.0):
    """Return the mended text; each letter begins `slant` points left of its origin."""
    origins = [left + slant for left, *_ in boxes]
    places = boxes.__getitem__, lambda place: place in made_up, origins.__getitem__
    return mended(text, *places).replace(NOTHING, "")


def _typed(text, gap):
    """Return boxes of letters 5 points wide without a gap, and of spaces without a width, after which `gap` follows."""
    boxes, right = [], 0.0
    for char in text:
        boxes.append((right, 0.0, right + (0 if char == " " else 5), 10.0))
        right += gap if char == " " else 5
    return boxes


@pytest.mark.parametrize(
    ("gap", "words"), [(0.0, "of the 152 loans"), (0.3, "of the 152 loans"), (2.5, "of t he 15 2 loans")]
)
def test_a_made_up_space_between_letters_that_touch_is_none(gap, words):
    text = "of t he 15 2 loans"
    assert _mended(text, _typed(text, gap), {text.index(" he"), text.index(" 2")}) == words


def test_a_space_of_the_file_is_kept_however_narrow():
    assert _mended("of t he", _typed("of t he", 0.0)) == "of t he"


def test_letters_that_always_overlap_still_have_spaces_between_words():
    boxes = [(left, 0.0, left + 6, 10.0) for left in (0, 4, 8, 14, 14, 18, 22)]
    assert _mended("set the", boxes, {3}) == "set the"


def test_a_slanted_letter_that_reaches_to_the_left_begins_a_word():
    text = "half of for_user"
    assert _mended(text, _typed(text, 0.2), {7}, slant=2.0) == text


def test_a_space_of_the_file_upon_a_ligature_is_none():
    """Some layout programs set a space upon each ligature; its letters share one box."""
    boxes = [(left, 0.0, right, 10.0) for left, right in ((0, 5), (5, 11), (5, 11), (7, 9), (10, 15), (15, 20))]
    assert _mended("aff er", boxes) == "affer"
    assert _mended("aff er", [*boxes[:3], (11, 0.0, 13, 10.0), (12.5, 0.0, 18, 10.0), (18, 0.0, 23, 10.0)]) == "aff er"
    th = [(left, 0.0, right, 10.0) for left, right in ((0, 8), (0, 8), (5, 7), (8, 13), (13, 15), (15, 20))]
    assert _mended("Th e d", th) == "The d"


def test_words_drawn_upon_each_other_stay_apart():
    boxes = [(left, 0.0, left + 5, 10.0) for left in (0, 5, 10, 12, 12, 17, 22)]
    assert _mended("set the", boxes, {3}) == "set the"


def test_an_accent_drawn_before_or_after_its_letter(one, raw_pdf):
    content = "BT /F 10 Tf 100 500 Td [(B\\250) 444 (orsch, prote) 444 (\\264) -111 (g) 30 (\\355)] TJ ET"
    assert one(raw_pdf(content), "a.pdf").text == "Börsch, protégí"


def test_an_accent_that_the_file_draws_by_itself(one, raw_pdf):
    """Some programs draw it on its letter after the line; PDFium gives it at the end of the line."""
    content = "BT /F 12 Tf 100 500 Td (Bunning et al. report) Tj ET BT /F 12 Tf 109.3 500 Td (\\250) Tj ET"
    assert one(raw_pdf(content), "a.pdf").text == "Bünning et al. report"


def test_a_space_made_up_before_an_accent_is_none():
    """The accent of "für" stands further on in the line, with a space that PDFium makes up on either side."""
    text, drawn = "fur Anw ¨ ¨alte", {"u": (5.0, 10.0), "a": (40.0, 45.0)}
    edges = [(0, 5), drawn["u"], (10, 15), (15, 15), (20, 25), (25, 30), (30, 40), (40, 40), (6, 9), (9, 9), (41, 44)]
    edges += [drawn["a"], (45, 50), (50, 55), (55, 60)]
    boxes = [(left, 0.0, right, 10.0) for left, right in edges]
    assert _mended(text, boxes, {3, 7, 9}) == "für Anwälte"


def test_an_accent_beside_letters_is_left_as_it_is(one, raw_pdf):
    assert one(raw_pdf("BT /F 10 Tf 100 500 Td (a\\264 b and c\\250d) Tj ET"), "a.pdf").text == "a´ b and c¨d"


def test_a_line_without_right_to_left_letters_stays_in_order():
    """The sign for a character that is taken away stands among the Arabic letters of Unicode."""
    assert not needs_order(f"Specifies the{NOTHING}limit of 80")


@pytest.mark.wording
def test_a_sign_without_a_name_is_seen_and_counted(one, raw_pdf):
    loaded = one(raw_pdf("BT /F 10 Tf 100 500 Td (con\\037rmed: \\0010.94 g) Tj ET"), "a.pdf")
    assert loaded.text == "con\ufffdrmed: \ufffd0.94 g"
    assert loaded.warnings == ("page 1: 2 letters have no Unicode mapping and may be wrong",)


@pytest.fixture
def rows_of(monkeypatch):
    """The rows of letters 5 points wide that PDFium gives line by line, each `gap` points after the one before."""

    def run(text, gap, turn=0):
        places, left = {}, 0.0
        for at, char in enumerate(text):
            places[at] = (left, 0.0, left + 5, 10.0)
            left += 0 if char == "\r" else gap if char == "\n" else 5
        reader = object.__new__(PageText)
        reader.text = text
        monkeypatch.setattr(PageText, "box_at", lambda _, unit, __: places[unit])
        monkeypatch.setattr(PageText, "_turn_at", lambda _, unit: turn if unit > 1 else 0)
        return [row.strip() for row in reader._rows()]

    return run


def test_letters_that_are_drawn_one_by_one_are_words(rows_of):
    """Word processors on the web draw each letter by itself; PDFium then breaks the line after each."""
    (row,) = rows_of("l\r\ni\r\nmit", 0.0)
    assert (row.replace(NOTHING, ""), len(row)) == ("limit", len("l\r\ni\r\nmit"))
    assert [word.replace(NOTHING, "") for word in WORD.findall(rows_of("no\r\nlimit", 3.0)[0])] == ["no", "limit"]


def test_a_raised_mark_stands_in_its_line(one, raw_pdf):
    content = (
        "BT /F 11 Tf 100 500 Td (responsibility) Tj ET BT /F 9 Tf 167 504 Td (1) Tj ET BT /F 11 Tf 172 500 Td (.) Tj ET"
    )
    below = "BT /F 11 Tf 100 487 Td (The desk keeps to it.) Tj ET"
    assert one(raw_pdf(f"{content} {below}"), "a.pdf").text == "responsibility 1. The desk keeps to it."


def test_a_small_capital_in_the_middle_does_not_make_a_line_small(one, raw_pdf):
    lines = (
        "BT /F 10 Tf 100 500 Td (The text goes on, and its class is of L) Tj /F 7 Tf 2 Ts (A) Tj /F 10 Tf 0 Ts "
        "(TEX as all of us know it from the books) Tj ET "
        "BT /F 10 Tf 100 488 Td (and so it ends in the line below it.) Tj ET"
    )
    above = "BT /F 10 Tf 100 512 Td (It begins in the line above, where every letter has one size, and) Tj ET"
    assert one(raw_pdf(f"{above} {lines}"), "a.pdf").text.count("\n") == 0


def test_letters_apart_or_turned_stay_lines(rows_of):
    assert rows_of("12\r\n34", 5.0) == rows_of("12\r\n34", 0.0, turn=1) == ["12", "34"]


@pytest.fixture
def nameless(raw_pdf):
    """The bytes of a PDF in whose Type 3 font the codes from 1 say nothing about the letters that are drawn."""
    glyph = "500 0 0 0 400 700 d1 0 0 400 700 re f"
    font = (
        "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 750 750] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 0 "
        f"/LastChar 9 /Widths [{'500 ' * 10}] /Encoding << /Differences [1 /n1 /n2 /n3] >> "
        "/CharProcs << /n1 6 0 R /n2 6 0 R /n3 6 0 R >> /Resources << >> >>"
    )
    drawn = f"<< /Length {len(glyph)} >>\nstream\n{glyph}\nendstream"
    return raw_pdf("BT /F 10 Tf 100 500 Td (\\001\\002\\003 \\003\\002) Tj ET", drawn, font=font)


@pytest.mark.wording
def test_letters_without_a_mapping_are_named(refused, nameless):
    assert refused(nameless, "a.pdf") == (
        "its letters have no Unicode mapping: set `ocr`, or run a text recognition (OCR) over it first"
    )


def test_letters_without_a_mapping_are_recognised(read, nameless, monkeypatch):
    recognition = Recognition({0: RecognisedPage(["Limits."], 91.0)})
    monkeypatch.setattr(pdf_file, "recognise", lambda *_: recognition)
    (loaded,) = read(nameless, "a.pdf", settings=IngestSettings(ocr="tesseract"))
    assert loaded.text == "[OCR, confidence 91 %]\n\nLimits."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A N N U A L  R E P O R T", "ANNUAL  REPORT"),
        ("L i m i t s", "Limits"),
        ("p r ofi t s  a n d", "profits  and"),
        ("A B C D E F", "A B C D E F"),
        ("x ∈ T u n d", "x ∈ T u n d"),
        ("y n n y n", "y n n y n"),
    ],
)
def test_letters_of_a_word_set_wide_are_joined(text, words):
    assert _mended(text, _typed(text, 2.0), range(len(text))) == words


def test_letters_of_a_word_set_wide_stay_apart_where_a_line_begins():
    text = "s p o t s o n"
    boxes = _typed(text, 2.0)
    moved = [box if place < 10 else (box[0] - 400, -20.0, box[2] - 400, -10.0) for place, box in enumerate(boxes)]
    assert _mended(text, moved, range(len(text))) == "spots on"


def test_letters_drawn_twice_are_read_once():
    text = "CCoommmmiitttteeee  11,,000000"
    boxes = [(5.0 * (place // 2) + 0.3 * (place % 2), 0.0, 5.0 * (place // 2) + 5, 10.0) for place in range(len(text))]
    assert _mended(text, boxes) == "Committee  1,000"
    assert _mended("1100220033", _typed("1100220033", 0.0)) == "1100220033"
    stacked = [(0.0, -10.0 * place, 5.0, 10.0 - 10.0 * place) for place in range(4)]  # the pieces of a tall bracket
    assert _mended("BBCC", stacked) == "BBCC"
