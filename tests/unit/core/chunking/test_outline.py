"""Headings and the sections below them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from context_engine.core.chunking.outline import RECORD, outline, questions_of, structure_of
from context_engine.core.chunking.strategy import ChunkingStrategy, read_strategies, strategy_for


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


@pytest.mark.parametrize(
    ("heading", "label"),
    [
        ("7. Mai 2014", None),
        ("1er Lot", None),
        ("31 December 2025: results", None),
        ("3rd Feb. 2026", None),
        ("5 de junio de 2024", None),
        ("12 août 2023", None),
        ("7. Budget 2014", "7"),
        ("3 Markets 2024", "3"),
        ("4 March report", "4"),
    ],
)
def test_a_day_is_no_number_of_a_section(heading, label):
    assert labels(f"## {heading}\n\nText.") == [(label, (heading,))]


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


def test_a_word_and_its_title_on_the_next_line():
    text = "Article 1\nScope\nThis binds all staff.\n\nArticle 2\n\nTerms used\n\nA desk is a team."
    sections = outline(text)
    assert [(one.label, one.path) for one in sections] == [
        ("Article 1", ("Article 1 Scope",)),
        ("Article 2", ("Article 2 Terms used",)),
    ]
    assert text[sections[0].body :].strip().startswith("This binds")


def test_parts_chapters_and_numbers_nest():
    text = "PART 1: General\n\nChapter 1 Powers\n\n1. Functions\n\nx\n\n2. Rules\n\nx\n\nPart 2 Fees\n\n3. Amounts\n\nx"
    assert labels(text) == [
        ("Part 1", ("PART 1: General",)),
        ("Chapter 1", ("PART 1: General", "Chapter 1 Powers")),
        ("1", ("PART 1: General", "Chapter 1 Powers", "1. Functions")),
        ("2", ("PART 1: General", "Chapter 1 Powers", "2. Rules")),
        ("Part 2", ("Part 2 Fees",)),
        ("3", ("Part 2 Fees", "3. Amounts")),
    ]


def test_roman_numerals_are_headings_where_they_run_on():
    text = "I. Purpose\n\nx\n\nII. Scope\n\nx\n\nIII. Terms\n\nx"
    assert [section.label for section in outline(text)] == ["I", "II", "III"]
    assert [section.label for section in outline("I. Purpose\n\nx")] == [None]


def test_letters_begin_anew_below_each_word():
    text = "Section I\n\nA. Duty\n\nx\n\nB. Term\n\nx\n\nSection II\n\nA. Fee\n\nx\n\nB. Cost\n\nx"
    assert [section.label for section in outline(text)] == ["I", "A", "B", "II", "A", "B"]


def test_paragraphs_numbered_through_the_document_are_sections():
    body = "The firm keeps the record. " * 8  # 216 characters
    text = "\n\n".join(f"{number}) {body}" for number in range(1, 8))
    assert [section.label for section in outline(text)] == list("1234567")


def test_short_steps_are_a_list():
    text = "\n\n".join(f"{number}) Turn the key. Press the button." for number in range(1, 8))
    assert [section.label for section in outline(text)] == [None]


def test_guidance_is_a_section_of_the_rule_above_it():
    text = "1.1.1 A firm must act.\n\nGuidance\n1. A firm acts when it moves.\n\n1.1.2 A firm must stop."
    assert labels(text) == [
        ("1.1.1", ("1.1.1",)),
        ("1.1.1.Guidance", ("1.1.1", "Guidance")),
        ("1.1.2", ("1.1.2",)),
    ]


def test_a_closed_number_before_a_small_letter_goes_on_from_its_parent():
    text = "6. Papers\n\n6.1. with regard to clients:\n\n6.2. with regard to staff:"
    assert [section.label for section in outline(text)] == ["6", "6.1", "6.2"]


def test_a_gap_in_the_numbers_does_not_end_the_headings():
    text = "1. Scope\n\nx\n\n2. Terms\n\nx\n\n9. Fees\n\nx\n\n10. End\n\nx"
    assert [section.label for section in outline(text)] == ["1", "2", "9", "10"]


def test_a_line_of_wrapped_text_is_no_title():
    line = "4 Notional amounts are measured at the price of the day on which the\n"
    text = "1. Scope\n\n" + "words that fill the line of a page up to its end and go on below it now\n" * 9
    assert [section.label for section in outline(f"{text}\n{line}Board met.")] == ["1"]
    assert [section.label for section in outline(f"{text}\n2 Notional amounts\nThe Board met.")] == ["1", "2"]


def test_lettered_paragraphs_are_sections_and_short_lettered_lines_a_list():
    body = "The firm keeps the record of it. " * 6  # 198 characters
    assert [one.label for one in outline(f"Section I\n\nA. {body}\n\nB. {body}\n\nC. Short.")] == ["I", "A", "B", "C"]
    assert [one.label for one in outline(f"Section I\n\nA. Apples.\n\nB. Pears.\n\n{body}")] == ["I"]


def test_a_word_and_its_number_with_a_stop_between():
    assert [one.label for one in outline("Annex.1 Forms\n\nx\n\nAnnex.2 Fees\n\nx")] == ["Annex 1", "Annex 2"]


@pytest.mark.parametrize(
    ("line", "label", "title"),
    [
        ('## <a name="s4"></a>4 Limits', "4", "4 Limits"),
        ('### 5 <a name="AAL"></a>Keys', "5", "5 Keys"),
        ("## Appendix A&mdash;Strength of keys", "Appendix A", "Appendix A—Strength of keys"),
        ("## 4.1 Fees &amp; charges {#fees}", "4.1", "4.1 Fees & charges"),
        ("## [4.2 Waivers](waivers.md#top)", "4.2", "4.2 Waivers"),
        ("## <span class='no'>4.3</span> **Breaches** <%= badge %>", "4.3", "4.3 Breaches"),
        ("<h2 id='s6'>6 Access &ndash; keys</h2>", "6", "6 Access – keys"),
        ("## 7 Use of `<kbd>` ##", "7", "7 Use of <kbd>"),
        ("## The {{company}} rules", None, "The {{company}} rules"),
        ("8 <b>Desks</b>\n---", "8", "8 Desks"),
    ],
)
def test_a_heading_is_what_a_reader_sees_of_it(line, label, title):
    (section,) = outline(f"{line}\n\nText.")
    assert (section.label, section.path) == (label, (title,))


@pytest.mark.parametrize(
    "line", ["# <%= current_page.data.title %>", "# {{ page.title }}", "## <a name='x'></a>", "# {#top}"]
)
def test_a_heading_of_tags_alone_is_none(line):
    assert labels(f"{line}\n\nText.\n\n## Keys\n\nTwo.") == [(None, ()), (None, ("Keys",))]


def test_a_plain_number_is_read_behind_its_anchor():
    text = '<a name="a"></a>1. Scope\n\nAll staff.\n\n<a name="b"></a>2. Access &amp; keys\n\nTwo people.'
    assert labels(text) == [("1", ("1. Scope",)), ("2", ("2. Access & keys",))]


def test_what_holds_no_word_above_the_first_heading_belongs_to_it():
    text = '<a name="sec5"></a>\n\n<div class="breaker"></div>\n\n## 5 Keys\n\nTwo.'
    (section,) = outline(text)
    assert (section.start, section.label) == (0, "5")


LONG = "The desk reports every breach of a limit to market risk control on the day on which it is found. "


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Limits\n\nAll desks.\n\n## Waivers\n\nNone.", "2 headings: by sections"),
        ("# Limits\n\n## 1 Scope\n\nAll desks.\n\n## 2 Waivers\n\nNone.", "3 headings (2 numbered): by sections"),
        ("Limits\n======\n\nAll desks.\n\nWaivers\n-------\n\nNone.", "2 headings: by sections"),
        ("<h1>Limits</h1>\n\nAll desks.\n\n<h2>Waivers</h2>\n\nNone.", "2 headings: by sections"),
        (f"1. Scope\n\n{LONG}\n\n2. Limits\n\n{LONG}\n\n3. Waivers\n\n{LONG}", "3 numbered headings: by sections"),
        (f"Article 1\n\n{LONG}\n\nArticle 2\n\n{LONG}\n\nArticle 3\n\n{LONG}", "3 numbered headings: by sections"),
    ],
)
def test_headings_with_text_below_them_are_sections(text, reason):
    assert structure_of(text).reason == reason


@pytest.mark.parametrize(
    "text",
    [
        LONG * 3,
        f"# Minutes\n\n{LONG}",
        "# Minutes\n\n## Apologies\n\n## Actions\n",
        f"{LONG}\n\n1. Apples\n\n2. Pears\n\n3. Plums\n\n{LONG}",
        "1. Call the desk.\n2. Write it down.\n3. Send it to market risk control.\n4. File it.",
        "(a) calls;\n\n(b) visits;\n\n(c) letters.",
        "```\n# one\nls\n# two\nls\n```\n\nText.",
        "",
    ],
)
def test_one_title_and_numbered_lists_are_no_sections(text):
    assert structure_of(text).kind == "windows"


def test_what_little_was_found_is_said():
    assert structure_of(LONG).reason == "no headings: in windows"
    assert structure_of(f"# Minutes\n\n{LONG}").reason == "1 heading, too little for sections: in windows"
    assert structure_of(LONG).to_dict() == {
        "kind": "windows",
        "headings": 0,
        "numbered": 0,
        "reason": "no headings: in windows",
    }
    assert RECORD.reason == "a record: by fields"


def test_sections_are_cut_with_the_size_of_the_default_row_and_carry_the_fields_of_an_sop():
    sections = structure_of("# A\n\nx\n\n## B\n\ny")
    assert strategy_for(sections) == ChunkingStrategy("section_aware", 512, 64, ("section_number", "version", "date"))
    assert strategy_for(sections, read_strategies({"default": {"chunk_size": 200}})).chunk_size == 200


def test_the_default_row_keeps_its_meaning_for_text_without_sections():
    assert strategy_for(structure_of(LONG)) == ChunkingStrategy("fixed_size", 512, 64)
    assert strategy_for(RECORD).method == "field_level"


def test_a_default_row_with_a_method_of_its_own_holds_for_every_text():
    table = read_strategies({"default": {"method": "section_aware", "chunk_size": 99}})
    assert strategy_for(structure_of(LONG), table) == table["default"]
    assert strategy_for(structure_of("# A\n\nx\n\n## B\n\ny"), table) == table["default"]


def pairs(text: str) -> list[tuple[str, str]]:
    return [(one.question, text[slice(*one.answer)]) for one in questions_of(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Q: Who signs?\nA: The head.\nQ: When?\nA: Today.", [("Who signs?", "The head."), ("When?", "Today.")]),
        ("**Q1:** Who signs?\n\n**A1:** The head.\n\nAlways.", [("Who signs?", "The head.\n\nAlways.")]),
        ("question: Who signs,\nand when?\nanswer: The head.", [("Who signs, and when?", "The head.")]),
        ("问：谁签字？\n答：主管。", [("谁签字？", "主管。")]),
        ("- Q: Who?\n- A: Me.", [("Who?", "Me.")]),
        ("# FAQ\n\n## Q: Who?\n\nA: Me.\n\n## Fees\n\nNone.", [("Who?", "Me.")]),
        ("Q: Who?\nQ: When?\nA: Today.", [("When?", "Today.")]),
        ("Q: Who?\nA:\n", []),
        ("A: The head.\n\nPlan B: none.", []),
        ("", []),
    ],
)
def test_lines_marked_q_and_a(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_headings_that_ask_are_answered_by_all_that_stands_below_them() -> None:
    text = (
        "# Cards\n\nWelcome.\n\n## 1 Who signs?\n\nThe head.\n\n### 1.1 Deputies\n\nOne of two.\n\n"
        "## 2 Limits\n\nNone.\n\n## 3 When does it end？\n\nNever.\n"
    )
    found = questions_of(text)
    assert [(one.question, one.section, one.path) for one in found] == [
        ("Who signs?", "1", ("Cards",)),
        ("When does it end？", "3", ("Cards",)),
    ]
    assert [text[slice(*one.answer)] for one in found] == ["The head.\n\n### 1.1 Deputies\n\nOne of two.", "Never."]
    assert text[found[0].start :].startswith("## 1 Who")


def test_a_question_below_another_has_its_own_answer() -> None:
    text = "# What is NPA?\n\n## Who signs?\n\nThe head.\n\n## Who approves?\n\nThe board."
    assert pairs(text) == [("Who signs?", "The head."), ("Who approves?", "The board.")]
