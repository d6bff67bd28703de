"""Findings: which are joined, how many are kept, how they are ordered and shown."""

from __future__ import annotations

import pytest

from context_engine.audit.checks.findings import Finding, Findings, Place, Verification, joined


def gap(first: int | None, last: int | None = None, *, name: str | None = None, problem: str = "gone") -> Finding:
    return Finding("gap", Place("log", first, last, name), problem)


@pytest.mark.parametrize(
    ("first", "second", "last"),
    [
        (gap(0), gap(1), 1),
        (gap(3), gap(4), 4),
        (gap(3, 5), gap(6, 8), 8),
        (gap(3), gap(3), None),
        (gap(3), gap(5), None),
        (gap(3, 5), gap(4), None),
        (gap(None), gap(1), None),
        (gap(3), gap(None), None),
        (gap(None), gap(None), None),
        (gap(3), gap(4, problem="changed"), None),
        (gap(3), gap(4, name="x"), None),
        (gap(3), Finding("other", Place("log", 4), "gone"), None),
        (gap(3), Finding("gap", Place("tile", 4), "gone"), None),
    ],
)
def test_findings_on_neighbouring_rows_with_one_problem_are_one(
    first: Finding, second: Finding, last: int | None
) -> None:
    both = joined(first, second)
    assert both == (None if last is None else gap(first.where.first, last))


def test_1000_findings_of_a_code_are_kept_and_the_others_are_counted() -> None:
    findings = Findings()
    for number in range(1001):
        findings.add("gap", Place("log", 2 * number), "gone")
        if number == 999:
            assert findings.more["gap"] == 0
    findings.add("row_mac", Place("log", 7), "edited")
    assert (len(findings.listed()), dict(findings.more)) == (1001, {"gap": 1})


def test_findings_are_listed_by_row_and_those_on_no_row_come_first() -> None:
    findings = Findings()
    assert not findings
    findings.extend([gap(5), gap(0), Finding("a", Place("log", 5), ""), Finding("schema", Place("schema"), "")])
    assert findings
    assert [(one.code, one.where.first) for one in findings.listed()] == [
        ("schema", None),
        ("gap", 0),
        ("a", 5),
        ("gap", 5),
    ]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place("log"), "log"),
        (Place("log", 0), "log 0"),
        (Place("log", 17, 20), "log 17-20"),
        (Place("log", 17, 17), "log 17"),
        (Place("meta", name="origin"), "meta (origin)"),
        (Place("tile", 3, name="level 1"), "tile 3 (level 1)"),
    ],
)
def test_a_place_is_shown_with_its_rows_and_its_name(place: Place, text: str) -> None:
    assert str(place) == text


def test_a_verification_counts_nothing_unless_it_says_so() -> None:
    empty = Verification(consistent=True, outside_key=True, findings=(), proved=(), not_proved=())
    assert (empty.counts, empty.size) == ({}, 0)
