"""RTF: paragraphs and tables, encodings, what stands beside the text, what is said."""

import pytest

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaded_document import NO_TEXT
from context_engine.ingest.loaders import load

HEAD = r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial;}}"
STYLES = r"{\stylesheet{\s0 Normal;}{\s1 heading 1;}{\s2 heading 2;}{\s9 Title;}}"


@pytest.fixture
def text(one):
    return lambda body: one(f"{HEAD}{STYLES}{body}}}".encode("cp1252"), "a.rtf").text


def test_headings_by_style_and_outline_level_and_lists(text):
    body = (
        r"\pard\s9 Limit Policy\par\pard\s1 Purpose\par\pard Words of the\line policy.\par"
        r"\pard\outlinelevel1 Scope\par\pard{\listtext\pard\plain \'b7\tab}first\par{\listtext 2.\tab}second\par"
    )
    assert text(body) == ("# Limit Policy\n\n## Purpose\n\nWords of the\npolicy.\n\n### Scope\n\n- first\n\n2. second")


def test_tables_merged_cells_and_tables_in_cells(text):
    body = (
        r"\trowd\cellx1\cellx2\pard\intbl Excess\cell Approver\cell\row"
        r"\trowd\clvmgf\cellx1\cellx2\pard\intbl above 5 %\cell Officer\cell\row"
        r"\trowd\clvmrg\cellx1\cellx2\pard\intbl\cell Board\par of directors\cell\row\pard After.\par"
    )
    assert text(body) == (
        "| Excess | Approver |\n| --- | --- |\n| above 5 % | Officer |\n| above 5 % | Board of directors |\n\nAfter."
    )
    nested = (
        r"\trowd\cellx1\cellx2\pard\intbl Limits\cell\pard\intbl\itap2 EUR\nestcell 5\nestcell"
        r"{\*\nesttableprops\trowd\cellx1\cellx2\nestrow}\pard\intbl\cell\row\pard"
    )
    assert text(nested) == "| Limits | EUR, 5; |\n| --- | --- |"


def test_letters_of_other_alphabets_and_signs(text):
    body = r"caf\'e9 \u8364?\uc2\u8211\'20- {\f1\'c1\'e0\'ed\'ea} \emdash  \{a\}~\u-10179 ?\u-8704 ?\par"
    assert text(body.replace(r"\u-10179 ?\u-8704 ?", r"\uc1\u-10179 ?\u-8704 ?")) == "café €– Банк — {a}~😀"


def test_fields_show_their_text_not_their_code(text):
    assert text(r"See {\field{\*\fldinst HYPERLINK x}{\fldrslt the policy}} now.\par") == "See the policy now."


def test_a_star_within_a_group_hides_nothing(text):
    body = "\\pard Limits {\\f0\\i0\\*\\cs7\\cf0 bind{\n\\*\\unknown not} all desks}.\\par"
    assert text(body) == "Limits bind all desks."


def test_what_stands_beside_the_text(one):
    body = (
        r"{\header Borrower: Meridian Harbour Ltd\par}{\footer Page {\field{\*\fldinst PAGE}{\fldrslt 3}}\par}"
        r"\pard Limits bind{\footnote Except Treasury.} all desks{\*\annotation Really all?}.\par"
        r"{\shp{\*\shpinst{\sp{\sn x}{\sv 1}}{\shptxt\pard Boxed words\par}}}After.\par"
    )
    assert one(f"{HEAD}{body}}}".encode(), "a.rtf").text == (
        "Page header: Borrower: Meridian Harbour Ltd\n\nLimits bind[^1] all desks.\n\n[^1]: Except Treasury.\n\n"
        "[Comment: Really all?]\n\nAfter.\n\nBoxed words"
    )


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("accept", "The limit is 7."),
        ("reject", "The limit is 5."),
        ("both", "The limit is [deleted: 5][inserted: 7]."),
    ],
)
def test_tracked_changes(folder, how, says):
    root = folder({"a.rtf": rf"{HEAD}The limit is {{\deleted 5}}{{\revised 7}}.\par}}"})
    (loaded,) = load(root / "a.rtf", root, settings=IngestSettings(tracked_changes=how))
    assert loaded.text == says


@pytest.mark.wording
def test_hidden_text_and_objects_are_said_and_pictures_are_not_text(one):
    body = r"Shown{\v  two words}.\par{\object{\*\objdata 0102}{\result{\pict 89504e47}}}{\pict\bin4 }}}}\par"
    loaded = one(f"{HEAD}{body}}}".encode(), "a.rtf")
    assert loaded.text == "Shown."
    assert loaded.warnings == ("hidden text is left out: 2 words", "embedded objects are not read: 1")


def test_properties_and_a_file_that_is_cut_off(one):
    loaded = one(rb"{\rtf1{\info{\title Limit Policy}{\author Risk Control}}\pard{\b Words of a cut", "a.rtf")
    assert (loaded.text, loaded.fields) == ("Words of a cut", {"title": "Limit Policy", "author": "Risk Control"})


def test_groups_without_end_and_without_text(refused):
    assert refused(b"{\\rtf1" + b"{" * 200_000, "a.rtf").endswith("groups nested too deep")
    assert refused(b"{\\rtf1{\\pict 00}}", "a.rtf") == NO_TEXT
