from __future__ import annotations

import pytest

from context_engine.core.query import sub_questions


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "Who approves a new product and when must Compliance be told?",
            ("Who approves a new product", "when must Compliance be told"),
        ),
        (
            "What records are kept? How long are records retained?",
            ("What records are kept", "How long are records retained"),
        ),
        (
            "Which approvals are needed for: (a) a new product, (b) a variation, and (c) a withdrawal?",
            (
                "Which approvals are needed for a new product",
                "Which approvals are needed for a variation",
                "Which approvals are needed for a withdrawal",
            ),
        ),
        (
            "What is the difference between a pilot launch and a material variation?",
            ("a pilot launch", "a material variation"),
        ),
        ("审批标准是什么？谁负责批准产品？", ("审批标准是什么", "谁负责批准产品")),
        (
            'what is a "change and how it is made" and when does it apply to products?',
            ('what is a "change and how it is made"', "when does it apply to products"),
        ),
        (
            'Which "change and what" rules apply to: (a) a "new one" of a desk, (b) an old desk?',
            (
                'Which "change and what" rules apply to a "new one" of a desk',
                'Which "change and what" rules apply to an old desk',
            ),
        ),
        ("What is a new product?", ()),
        ("limits and controls of the desk", ()),
        ("limits under 4.2.1. See NPA-001", ()),
        ("Who signs? Why?", ()),
        ("difference between A and B", ()),
    ],
)
def test_parts_of_a_question(text: str, parts: tuple[str, ...]) -> None:
    assert sub_questions(text) == parts


def test_at_most_six_parts() -> None:
    text = " ".join(f"What is rule number{place} about banks?" for place in range(9))
    assert len(sub_questions(text)) == 6
