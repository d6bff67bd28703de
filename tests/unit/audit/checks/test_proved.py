"""What a verification says it proved and did not, with the numbers in the sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from context_engine.audit.checks.checkpoints import CheckedCheckpoints
from context_engine.audit.checks.keys import Trust
from context_engine.audit.checks.rows import LogExtent
from context_engine.audit.checks.stretch import Plan
from context_engine.audit.checks.verify import not_proved, proved
from tests.unit.audit.checks.logs import KEY, LATER_KEY

PLAN = Plan(extent=LogExtent((), 100), minimum=0, keyring=None, log_alone=False)
KEYED = Trust(verifiers=(KEY.verifier,), keyed_from=0, named=frozenset((KEY.verifier.text,)), findings=())
UNKEYED = Trust(verifiers=(), keyed_from=None, named=frozenset(), findings=())
BOTH = replace(KEYED, named=frozenset((KEY.verifier.text, LATER_KEY.verifier.text)))
COUNTS = {"macs": 100, "pending": 0, "damaged": 0}
FULL = {"signed": 90, "outside": [50, 80], "fitting": [90], "witnessed": {KEY.verifier: 70}}


def yes(plan: Plan = PLAN, trust: Trust = KEYED, counts: dict[str, int] = COUNTS, **checked: Any) -> str:
    return "\n".join(proved(plan, trust, CheckedCheckpoints(**checked), counts))


def no(
    plan: Plan = PLAN, trust: Trust = KEYED, counts: dict[str, int] = COUNTS, trusted: bool = True, **checked: Any
) -> str:
    keys = (KEY.verifier,) if trusted else ()
    return "\n".join(not_proved(plan, trust, CheckedCheckpoints(**checked), counts, (KEY.verifier,), keys))


def test_what_holds_is_said_with_its_numbers() -> None:
    said = yes(**FULL)
    for sentence in (
        "The 100 records have no gap",
        "100 rows have a valid MAC",
        "The first 90 records match a checkpoint signed",
        "The first 80 records match a checkpoint that is kept elsewhere",
        f"The witness {KEY.name} has seen the first 70 records",
        "Every addendum",
        "The look-up rows",
    ):
        assert sentence in said


@pytest.mark.parametrize(
    ("absent", "changed"),
    [
        ("valid MAC", {"counts": {**COUNTS, "macs": 0}}),
        ("signed by a key", {"signed": None}),
        ("kept elsewhere", {"outside": []}),
        ("witness", {"witnessed": {}}),
        ("addendum", {"plan": replace(PLAN, log_alone=True)}),
        ("look-up", {"plan": replace(PLAN, log_alone=True)}),
    ],
)
def test_nothing_is_said_of_what_was_not_shown(absent: str, changed: dict[str, Any]) -> None:
    assert absent in yes(**FULL)
    assert absent not in yes(**{**FULL, **changed})


def test_unsigned_checkpoints_are_told_from_signed_ones() -> None:
    assert "matches the 2 checkpoints that the ledger keeps; none of them is signed" in yes(fitting=[10, 20])
    assert "checkpoint" not in yes()


@pytest.mark.parametrize(
    ("trust", "told"), [(BOTH, True), (KEYED, False), (replace(BOTH, verifiers=()), False), (UNKEYED, False)]
)
def test_key_changes_are_mentioned_where_there_are_several_keys(trust: Trust, told: bool) -> None:
    assert ("Each key change" in yes(trust=trust)) == told


def test_of_an_unsigned_log_that_alone_is_said_of_its_keys() -> None:
    said = no(trust=UNKEYED, trusted=False, counts={**COUNTS, "macs": 0})
    assert said.startswith("The log is not signed")
    assert "No key from outside was given" not in said
    assert "MAC" not in said


@pytest.mark.parametrize(
    ("minimum", "keyed_from", "macs", "before", "without"),
    [
        (0, 0, 100, None, None),
        (0, 0, 60, None, 40),
        (0, 20, 80, "0 to 19", None),
        (0, 20, 70, "0 to 19", 10),
        (10, 20, 70, "10 to 19", 10),
        (30, 20, 70, None, None),
        (30, 20, 69, None, 1),
    ],
)
def test_rows_without_a_mac_and_macs_that_were_not_compared_are_counted(
    minimum: int, keyed_from: int, macs: int, before: str | None, without: int | None
) -> None:
    said = no(replace(PLAN, minimum=minimum), replace(KEYED, keyed_from=keyed_from), {**COUNTS, "macs": macs}, signed=1)
    assert ("written before the log had a key" in said) == (before is not None)
    assert ("were not compared" in said) == (without is not None)
    if before is not None:
        assert f"The records {before} were written before" in said
    if without is not None:
        assert f"The MACs of {without} rows were not compared" in said


@pytest.mark.parametrize(
    ("sentence", "changed"),
    [
        ("No key from outside was given", {"trusted": False}),
        ("No checkpoint in the ledger is signed", {"signed": None}),
        ("No checkpoint kept elsewhere was given (--against)", {"outside": []}),
        ("Records cut off after the first 80 would", {"outside": [50, 80]}),
        ("has cosigned the first 70 of 100", {"witnessed": {KEY.verifier: 70}}),
        ("has cosigned the first 0 of 100", {"witnessed": {}}),
        ("The records below 10 were pruned", {"plan": replace(PLAN, minimum=10)}),
        ("3 checkpoints are of sizes that were pruned", {"unchecked": 3}),
        ("2 records wait to be integrated", {"counts": {**COUNTS, "pending": 2}}),
        ("Addenda and look-up rows were not checked", {"plan": replace(PLAN, log_alone=True)}),
        ("Addenda that no record names were not looked for", {"counts": {**COUNTS, "damaged": 1}}),
    ],
)
def test_what_is_missing_is_named(sentence: str, changed: dict[str, Any]) -> None:
    full = {"signed": 100, "outside": [100], "witnessed": {KEY.verifier: 100}}
    assert no(**full) == ""
    assert sentence in no(**{**full, **changed})


def test_witnesses_are_asked_for_where_none_is_named() -> None:
    assert "No witness was named" in "\n".join(not_proved(PLAN, KEYED, CheckedCheckpoints(), COUNTS, (), ()))
