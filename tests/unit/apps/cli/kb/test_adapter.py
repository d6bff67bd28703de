"""The table of adapters: whatever a base says of one, it neither steers the terminal nor ends the listing."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from context_engine.apps.cli.kb.adapter import _table
from context_engine.core.models import StoredAdapter

MEASURED = {"measure": "nDCG@10", "before": 0.6, "after": 0.65, "interval": [0.02, 0.08], "questions": 240}


def shown(evidence: dict[str, Any], name: str = "3f9a1c0b7e42", made_at: str = "2026-03-02T10:00:00+00:00") -> str:
    console = Console(file=StringIO(), width=200)
    console.print(_table([StoredAdapter("BANK", name, "mini", (1,), evidence, made_at, True)]))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_what_was_measured_is_shown_with_its_interval() -> None:
    assert "nDCG@10 +0.050 (+0.020 to +0.080)" in shown(MEASURED)


def test_the_gain_for_known_answers_stands_beside_it() -> None:
    known = {"nDCG@10": {"before": 0.6, "after": 0.7, "low": 0.06, "high": 0.14}, "R@10": {"before": 0.1, "after": 0.9}}
    assert "+0.100 (+0.060 to +0.140)" in shown({**MEASURED, "known": known})
    assert "nDCG@10 +0.050" in shown({**MEASURED, "known": {"nDCG@10": [0.6, 0.7]}})


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        {**MEASURED, "before": 10**400},
        {**MEASURED, "after": float("nan")},
        {**MEASURED, "before": [0.6]},
    ],
    ids=repr,
)
def test_what_is_no_measurement_is_not_shown(evidence: dict[str, Any]) -> None:
    said = shown(evidence)
    assert "–" in said and "nDCG" not in said


@pytest.mark.parametrize("interval", [["x", 1], [0.02], None, [float("-inf"), 0.0]])
def test_an_interval_that_is_none_is_left_out(interval: Any) -> None:
    said = shown({**MEASURED, "interval": interval})
    assert "nDCG@10 +0.050" in said and "(" not in said


def test_nothing_steers_the_terminal() -> None:
    said = shown({**MEASURED, "measure": "\x1b[31mR", "questions": "[red]\x9b2J"}, "\x1b]0;x", "\u202e2026")
    assert not any(char in said for char in "\x1b\x9b\u202e")
