"""The first line of a chunk: as a person reads it, and back to the fields it was made of."""

from __future__ import annotations

from datetime import date

import pytest

from context_engine.core.chunking.chunk_line import ChunkLine, escaped, line_of, read_line, restored, with_line
from context_engine.core.models import Chunk

FULL = Chunk(
    content="The desk head classifies the product.",
    document_id="NPA-SOP-001",
    title="New Product Approval Procedure",
    document_version="3.2",
    heading_path=("4 Classification criteria", "4.1 New Product"),
    section="4.1",
    effective_from=date(2026, 1, 1),
    effective_to=date(2027, 1, 1),
    metadata={"page": 12, "reference": "637(4)"},
)


def first(line: ChunkLine, content: str = "Text.") -> str:
    return with_line(line, content).partition("\n")[0]


def test_a_person_reads_it_as_a_citation() -> None:
    assert with_line(line_of(FULL), FULL.content) == (
        "› New Product Approval Procedure › 4 Classification criteria › 4.1 New Product · NPA-SOP-001 · version 3.2"
        " · page 12 · cited as 637(4) · in force from 2026-01-01 to 2026-12-31\n\nThe desk head classifies the product."
    )


def test_document_and_place_are_said_apart() -> None:
    assert first(line_of(FULL, place=False)) == (
        "› New Product Approval Procedure · NPA-SOP-001 · version 3.2 · in force from 2026-01-01 to 2026-12-31"
    )
    assert first(line_of(FULL, document=False)) == (
        "› … › 4 Classification criteria › 4.1 New Product · page 12 · cited as 637(4)"
    )
    assert line_of(FULL, document=False, place=False) == ChunkLine()


def test_the_line_names_the_last_day_in_force_and_reads_back_the_first_that_is_not() -> None:
    line = ChunkLine(title="Rules", effective_to=date(2024, 3, 1))
    assert first(line) == "› Rules · in force to 2024-02-29"
    assert read_line(with_line(line, "Text."))[0] == line


def test_headings_that_the_text_begins_with_are_not_said_twice() -> None:
    line = ChunkLine(title="Rules", path=("4 Limits", "4.2 Desks"), section="4.2")
    content = "# Rules\n\n### 4.2 Desks\n\nNone."
    assert with_line(line, content) == f"› Rules › 4 Limits › …\n\n{content}"
    assert first(line, "### 4.3 Books\n\nNone.") == "› Rules › 4 Limits › 4.2 Desks"
    assert read_line(with_line(line, content)) == (line, content)


def test_a_section_is_said_where_its_heading_does_not_say_it() -> None:
    assert first(ChunkLine(path=("4 Limits",), section="4.1")) == "› … › 4 Limits · section 4.1"
    assert first(ChunkLine(path=("4 Limits",))) == "› … › 4 Limits · no section"
    assert first(ChunkLine(path=("Limits",), section="4")) == "› … › Limits · section 4"


def test_a_text_below_its_own_headings_says_them_once() -> None:
    line = ChunkLine(path=("4 Limits", "4.2 Desks"), section="4.2", page=7)
    content = "## 4 Limits\n\n### 4.2 Desks\n\nNone."
    assert first(line, content) == "› … · page 7"
    assert read_line(with_line(line, content)) == (line, content)
    assert first(ChunkLine(page=7), content) == "› … · no heading · page 7"
    assert read_line(with_line(ChunkLine(page=7), content)) == (ChunkLine(page=7), content)


def test_a_title_with_a_dot_between_its_parts_stands_as_it_is() -> None:
    record = ChunkLine(document_id="NPA-001", title="NPA-001 · Step-Up Note", version="4", path=("Fees · 2 %",))
    assert first(record) == "› NPA-001 · Step-Up Note › Fees · 2 % · NPA-001 · version 4"
    nameless = ChunkLine(title="NPA-001 · Step-Up Note", version="4")
    assert first(nameless) == "› NPA-001 · Step-Up Note · … · version 4"
    like_a_part = ChunkLine(document_id="R-1", title="Rules · version 9 · page 3 · R-2")
    assert first(like_a_part) == "› Rules · version 9 · page 3 · R-2 · R-1"
    for line in (record, nameless, like_a_part):
        assert read_line(with_line(line, "Text.")) == (line, "Text.")


def test_nothing_to_say_gives_no_line() -> None:
    assert with_line(ChunkLine(), "Text.") == "Text."
    assert not ChunkLine(title=" \n", path=("\t",))
    assert read_line("Text.") == (None, "Text.")


def test_white_space_and_control_characters_become_single_spaces() -> None:
    assert ChunkLine(title="New\r\n Products\x00 \u2028and\tmore ").title == "New Products and more"


@pytest.mark.parametrize(
    "value",
    ["a › b", "a · b", "a ·", "· a", "a · ·", "a · · b", "a · …", "a · page 3", "a \\·", "no heading", "a \\ b",
     "\\", "…", "›", "·", "page 3", "version 9", "no section", "in force", "\\page 3",
     "a\\", "section 4", "cited as 7", "in force to 2020-01-01", "\\…", "› x", "page ", "#", "限额", "\u202eab"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["document_id", "title", "version", "section", "reference", "path"])
def test_signs_and_words_of_ours_in_a_value_come_back(name: str, value: str) -> None:
    line = ChunkLine(**{"title": "Rules", name: (value, "4 Limits") if name == "path" else value})  # type: ignore[arg-type]
    assert read_line(with_line(line, "Text.")) == (line, "Text.")


def test_lines_of_the_text_that_begin_like_ours_get_one_backslash() -> None:
    content = "› Rules · page 9\n\n\\› a\r\n \t› b\n\u200b\\\\› c\na › d\n\x00›"
    assert escaped(content) == "\\› Rules · page 9\n\n\\\\› a\r\n \t\\› b\n\u200b\\\\\\› c\na › d\n\x00\\›"
    assert restored(escaped(content)) == content
    assert read_line(escaped(content)) == (None, content)


@pytest.mark.parametrize(
    "text",
    [
        "› Rules · page 9",
        "› Rules · page 9\nText.",
        "› Rules · page 9\r\n\r\nText.",
        " › Rules · page 9\n\nText.",
        "\ufeff› Rules · page 9\n\nText.",
        "> Rules · page 9\n\nText.",
        "›\u00a0Rules · page 9\n\nText.",
        "› \n\nText.",
        "›  · page 9\n\nText.",
        "› … \n\nText.",
        "› …\n\nText.",
        "› … › …\n\n## 4 Limits\n\nText.",
        "› … · no heading\n\nText.",
        "› Rules \\· ours · R-1\n\nText.",
        "› Rules · …\n\nText.",
        "› Rules · page 09\n\nText.",
        "› Rules · page nine\n\nText.",
        f"› Rules · page {'9' * 5000}\n\nText.",
        "› Rules · page ٣\n\nText.",
        "› Rules · page 9 · page 10\n\nText.",
        "› Rules · page 9 · version 3\n\nText.",
        "› Rules · in force from 20260101\n\nText.",
        "› Rules · in force to 9999-12-31\n\nText.",
        "› Rules · in force from 2026-02-30\n\nText.",
        "› Rules · in force\n\nText.",
        "› Rules ›  › 4 Limits\n\nText.",
        "› Rules › 4 Limits · section 4\n\nText.",
        "› Rules › … › 4 Limits\n\nText.",
        "› Rules › 4 Limits\n\n## 4 Limits\n\nText.",
        "› Rules › …\n\nText.",
        "› Ru\\les\n\nText.",
        "› Rules\\\n\nText.",
        "› Rules  of ours\n\nText.",
        "› Rules\r\n\nText.",
        "› Rules · page 9\n\n› Rules · page 10\n\nText.",
    ],
)
def test_what_we_would_not_write_is_text(text: str) -> None:
    assert read_line(text) == (None, text)


def test_a_hostile_length_ends() -> None:
    texts = (
        "## " + " " * 60_000 + "\x85",
        "A" * 60_000 + ".1" * 15_000,
        "1" + ".1" * 30_000,
        "Annex " + "I" * 60_000,
        "\t" * 60_000,
        "\\" * 60_000 + "›",
        "›" + " › " * 20_000,
        "## x\n" * 20_000,
        "\u2028\xa0\x85" * 20_000,
    )
    for text in texts:
        assert read_line(with_line(ChunkLine(title=text[:30_000]), text))[1] == text
