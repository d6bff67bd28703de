"""Tables of contents are told from fees, forms and lists, and no piece reaches over one."""

import pytest

from context_engine.core.chunking.contents import contents_of, without_contents
from context_engine.core.chunking.cut import cut
from context_engine.core.chunking.strategy import ChunkingStrategy

BODY = "\n\n1 Scope\n\nAll desks of the bank.\n\n2 Limits\n\nA limit is hard.\n\n3 Waivers\n\nNone are given.\n"


def found(text):
    """What is set aside of a text."""
    return [text[table.start : table.end] for table in contents_of(text)]


def words(text):
    return len(text.split())


@pytest.mark.parametrize(
    "contents",
    [
        "Contents\n\n1 Scope ........ 3\n2 Limits ........ 4\n3 Waivers ........ 9",
        "1 Scope . . . . . . 3\n2 Limits . . . . . . 4\n3 Waivers . . . . . . 9",
        "Table of Contents\n1 Scope\t3\n2 Limits\t4\n3 Waivers\t9",
        "# Contents\n\n1 Scope … iii\n2 Limits … iv\n3 Waivers … 1",
        "Contents\n\n| 1 Scope | 3 |\n| 2 Limits | 4 |\n| 3 Waivers | 9 |",
        "## Contents\n\n- Scope\n- Limits\n- Waivers",
        "* [Scope](#scope)\n  * [Limits](#limits)\n* [Waivers](#waivers)",
        "On this page\n\n[1. Scope](#s1)\n\n[2. Limits](#s2)",
        "目次\n\n1 Scope ‥‥‥ 3\n2 Limits ‥‥‥ 4\n3 Waivers ‥‥‥ 9",
    ],
)
def test_contents_with_their_heading_are_found(contents):
    assert found(f"Harbour Bank\n\n{contents}{BODY}") == [contents]


def test_a_title_over_two_lines_and_the_head_of_the_next_page_stand_inside():
    contents = (
        "Contents\n1 Scope ..... 3\nHarbour Bank Limit Standard\n2 Limits of desks that trade in\n"
        "more than one place ..... 4\n3 Waivers ..... 9"
    )
    assert found(contents + BODY) == [contents]


def test_a_heading_that_ends_in_a_number_is_not_taken_for_an_entry():
    contents = "Contents\nAnnex 1 ..... 3\nAnnex 2 ..... 4\nAnnex 3 ..... 9"
    assert found(f"{contents}\n\nAnnex 1\n\nForms.\n\nAnnex 2\n\nInk.\n\nAnnex 3\n\nPaper.") == [contents]


@pytest.mark.parametrize(
    "text",
    [
        "# Fees\n\nOpening ........ 10\nClosing ........ 20\nStatement ........ 30\nCard ........ 40\n\nDue monthly.",
        "Name ................\nDesk ................\nDate ................\n\nSign here.",
        "Contents of the vault\n\nGold bars 12\nBonds 40\nKeys 2\n\nCounted in May.",
        "Desk limits\n\nRates 5\nCredit 7\nEquity 9\n\nRates and Credit are hard.",
        "See [Limits](#limits).\n\n- [Limits](limits.md)\n- [Waivers](waivers.md)\n- [Fees](fees.md)",
        "- [Limits](#limits): how much to hold\n- [Waivers](#waivers): who gives one\n- [Fees](#fees): what it costs",
        "1. Call the desk.\n2. Write it down.\n3. Send it.\n",
        "Contents\n\nThis box holds two keys.\n",
        "Contents\n\n|||\n\n| |\n",
        "",
    ],
)
def test_fees_forms_lists_and_links_to_other_files_are_no_contents(text):
    assert found(text) == []


def test_a_list_of_figures_is_contents_too():
    figures = (
        "List of Figures\n\nFigure 1 Roles ........ 4\nFigure 2 Escalation ........ 7\nFigure 3 Waivers ........ 9"
    )
    text = f"{figures}\n\nFigure 1 Roles\n\nFigure 2 Escalation\n\nFigure 3 Waivers\n"
    assert found(text) == [figures]


def test_blanked_contents_leave_every_offset_as_it_was():
    text = f"Cover\n\nContents\n1 Scope ..... 3\n2 Limits ..... 4\n3 Waivers ..... 9{BODY}"
    blank = without_contents(text, contents_of(text))
    assert len(blank) == len(text)
    assert blank.count("\n") == text.count("\n")
    assert "....." not in blank
    assert blank.index("All desks") == text.index("All desks")


@pytest.mark.parametrize("method", ["section_aware", "fixed_size"])
def test_contents_stand_in_no_piece_and_the_cover_stays_in_the_first(method):
    cover = "Harbour Bank\n\nLimit Standard, version 3"
    text = f"{cover}\n\nContents\n1 Scope ..... 3\n2 Limits ..... 4\n3 Waivers ..... 9{BODY}"
    pieces = cut(text, ChunkingStrategy(method, 64, 8), words, contents_of(text))
    assert pieces[0].content == cover
    assert all("....." not in piece.content for piece in pieces)
    assert all(piece.content == text[slice(*piece.span)] for piece in pieces)
    assert "All desks of the bank." in " ".join(piece.content for piece in pieces)
