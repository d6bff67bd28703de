"""What a text shows of its structure, and how it is cut then."""

import pytest

from context_engine.core.chunking import RECORD, ChunkingStrategy, read_strategies, strategy_for, structure_of

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
