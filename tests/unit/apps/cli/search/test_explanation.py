""""""

from __future__ import annotations

import io

from rich.console import Console

from context_engine.apps.cli.search.explanation import question_table
from context_engine.core.models import Expansion, PreparedQuery


def shown(query: PreparedQuery) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(question_table(query))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [" ".join(line.split()) for line in text.splitlines()]


def test_everything_that_was_made_of_a_question() -> None:
    query = PreparedQuery(
        original=" NPA  limits",
        text="NPA limits",
        language="en",
        codes=("NPA-001",),
        references=("4.2.1(b)",),
        phrases=("material change",),
        expansions=(Expansion("NPA", "New Product Approval", 1.0), Expansion("", "sign-off", 0.2, "refiner")),
        sub_queries=("Who signs?",),
        concepts=("sign-off",),
        suggestions=(("prodcut", "product"),),
        refiner="m",
    )
    assert shown(query) == [
        "searched as NPA limits",
        "language en",
        "codes NPA-001",
        "sections 4.2.1(b)",
        "phrases material change",
        "also NPA = New Product Approval (weight 1, glossary)",
        "also m = sign-off (weight 0.2, refiner)",
        "beside it Who signs?",
        "did you mean product (for prodcut)",
        "concepts sign-off",
    ]


def test_a_plain_question_has_a_language_only() -> None:
    assert shown(PreparedQuery(original="limits", text="limits", language="en")) == ["language en"]
