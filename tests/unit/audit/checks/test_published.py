"""What a ledger says of its published checkpoints in two places must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.audit.checks.findings import Finding
from context_engine.audit.checks.verify import verify
from context_engine.audit.ledger.publish import Rhythm, publish
from tests.unit.audit.checks.logs import Hand, make_log, open_log, search


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with published checkpoints of 6 and of 7 records."""
    place = tmp_path / "ledger.db"
    make_log(place, 6)
    with open_log(place) as ledger:
        rhythm = Rhythm(records=1, seconds=1.0, outlets={"file": lambda note: None})
        assert publish(ledger, rhythm, ledger.clock, at_once=True) is not None
        ledger.append([search(100)])
        assert publish(ledger, rhythm, ledger.clock, at_once=True) is not None
    return place


def findings(place: Path) -> list[tuple[str, int | None]]:
    with open_log(place) as ledger:
        return [(finding.code, finding.where.first) for finding in verify(ledger).findings]


def test_an_untouched_ledger_agrees_with_itself(place: Path) -> None:
    assert findings(place) == []


def test_a_published_checkpoint_that_was_deleted_is_missed(place: Path) -> None:
    Hand(place)("DELETE FROM checkpoint WHERE size > 6")
    assert findings(place) == [("checkpoint_missing", 7)]


def test_the_time_of_the_newest_checkpoint_is_compared_with_the_one_noted(place: Path) -> None:
    Hand(place)("UPDATE checkpoint SET written = written - 86400 WHERE size = 7")
    assert findings(place) == [("checkpoint_time", 7)]


def test_the_ways_are_named(place: Path) -> None:
    Hand(place)("DELETE FROM checkpoint WHERE size = 7")
    with open_log(place) as ledger:
        (finding,) = verify(ledger).findings
    assert isinstance(finding, Finding) and "file, ledger" in finding.problem


def test_a_publication_of_an_earlier_release_says_nothing_of_times(place: Path) -> None:
    Hand(place)("""UPDATE meta SET value = '{"done": {"ledger": 7}, "tried": 1.0}' WHERE name = 'publication'""")
    Hand(place)("UPDATE checkpoint SET written = 1.0 WHERE size = 7")
    assert findings(place) == []


@pytest.mark.parametrize("state", ["", "[]", '{"made": 5}', '{"made": ["a", 1]}', '{"done": {"ledger": "x"}}'])
def test_a_publication_that_cannot_be_read_counts_as_none(place: Path, state: str) -> None:
    Hand(place)("UPDATE meta SET value = ? WHERE name = 'publication'", state)
    assert findings(place) == []
