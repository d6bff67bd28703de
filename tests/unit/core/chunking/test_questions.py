"""Questions and answers in a text: marked lines, and headings that ask."""

from __future__ import annotations

import pytest

from context_engine.core.chunking import questions_of


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
