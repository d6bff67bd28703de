"""Headings and the sections below them."""

from itertools import pairwise

import pytest

from context_engine.chunking import outline


def labels(text):
    return [(section.label, section.path) for section in outline(text)]


def test_markdown_headings_nest_by_level():
    text = "# Rules\n\nIntro.\n\n## 4 Class\n\nText.\n\n### 4.1 New\n\nText.\n\n## 5 Route\n\nText."
    assert labels(text) == [
        (None, ("Rules",)),
        ("4", ("Rules", "4 Class")),
        ("4.1", ("Rules", "4 Class", "4.1 New")),
        ("5", ("Rules", "5 Route")),
    ]


def test_numbers_nest_headings_of_one_level():
    text = "## 4 Class\n\nx\n\n## 4.1 New\n\nx\n\n## 4.1.1 Tests\n\nx\n\n## 5 Next\n\nx"
    assert [path for _, path in labels(text)] == [
        ("4 Class",),
        ("4 Class", "4.1 New"),
        ("4 Class", "4.1 New", "4.1.1 Tests"),
        ("5 Next",),
    ]


def test_plain_numbered_headings_and_paragraphs():
    text = (
        "RULES OF THE VAULT\n\n1. Scope\n\nAll staff.\n\n2. Access\n\n2.1 Keys are held by two people.\n\n"
        "2.2(a) Codes are held by one.\n\nAnnex A - Forms\n\nUse ink."
    )
    assert labels(text) == [
        (None, ()),
        ("1", ("1. Scope",)),
        ("2", ("2. Access",)),
        ("2.1", ("2. Access", "2.1")),
        ("2.2(a)", ("2. Access", "2.2(a)")),
        ("Annex A", ("Annex A - Forms",)),
    ]


def test_a_heading_directly_above_its_text():
    text = "1. Scope\nThese rules bind all staff.\n2. Access\nKeys are held by two people."
    assert labels(text) == [("1", ("1. Scope",)), ("2", ("2. Access",))]


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("Article 5", "Article 5"),
        ("ARTICLE 5 Scope", "Article 5"),
        ("Article 3a - Scope", "Article 3a"),
        ("Annex II: Forms", "Annex II"),
        ("Schedule B", "Schedule B"),
        ("Section 4 Scope", "4"),
        ("Clause 4.2.1(b)", "4.2.1(b)"),
        ("4.2.1(a) Threshold tests", "4.2.1(a)"),
        ("1.1.1.(2) Nothing here applies abroad.", "1.1.1.(2)"),
        ("A2.1 Reports", "A2.1"),
        ("**3.1 Limits**", "3.1"),
        ("## **3.1 Limits** ##", "3.1"),
        ("第三条 上限", "第三条"),
        ("3 限额", "3"),
    ],
)
def test_labels(line, label):
    assert [section.label for section in outline(f"{line}\n\nText below it.")] == [label]


@pytest.mark.parametrize(
    "line",
    [
        "Section 4 applies to all staff.",
        "Article 5 of the Act binds the bank",
        "5 million was lost",
        "5.1 million was lost",
        "3.5 % of the total is kept",
        "12 March 2025",
        "2025 in review",
        "(a) an item",
        "1. An item that ends as a sentence.",
        "| 4.1 | Limits |",
    ],
)
def test_what_is_no_heading(line):
    assert [section.label for section in outline(f"Text above it.\n\n{line}\n\nText below it.")] == [None]


def test_a_number_out_of_order_is_no_heading():
    assert [section.label for section in outline("1. Scope\n\nx\n\n2. Terms\n\nx\n\n40 Days\n\nx")] == ["1", "2"]


def test_below_markdown_headings_only_their_numbers_go_on():
    lines = [
        "# Policy",
        "## 4 Approval",
        "4.1 A bank shall approve.",
        "1. Apples",
        "2. Pears",
        "9.9 Elsewhere",
        "## 5 End",
    ]
    text = "\n\n".join(lines)
    assert [section.label for section in outline(text)] == [None, "4", "4.1", "5"]


def test_underlined_headings():
    assert labels("Title\n=====\n\nx\n\n1 Purpose\n---------\n\nx") == [
        (None, ("Title",)),
        ("1", ("Title", "1 Purpose")),
    ]


def test_code_holds_no_headings():
    assert labels("# One\n\n```\n# not this\n## 2 nor this\n```\n") == [(None, ("One",))]


def test_sections_leave_no_gap():
    text = "\n\nintro\n\n# One\n\ntext\n\n## 1 Two\n\n## 2 Three\n"
    sections = outline(text)
    assert sections[0].start == 0
    assert sections[-1].end == len(text)
    assert all(first.end == second.start for first, second in pairwise(sections))


def test_an_empty_text_is_one_section():
    assert [(section.start, section.end) for section in outline("")] == [(0, 0)]
