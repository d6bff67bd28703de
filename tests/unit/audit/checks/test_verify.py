"""What a check says of ledgers that nobody touched, and how it names what it could not show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from context_engine.audit.checks import verify as verifying
from context_engine.audit.checks.findings import MOST_FINDINGS, Finding, Findings, Place, Verification
from context_engine.audit.checks.stretch import Plan, Stretch, check_stretch
from context_engine.audit.checks.verify import Outside, verify
from context_engine.audit.formats.checkpoint import Checkpoint, cosign, parse_note
from context_engine.audit.formats.keys import COSIGNATURE, Keyring, SigningKey, VerifierKey
from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.prune import Retention, prune
from context_engine.audit.values import Composed, Draft
from context_engine.testing.fakes import FixedClock
from tests.unit.audit.checks.logs import (
    KEY,
    LATER_KEY,
    ORIGIN,
    STOLEN_NAME,
    Hand,
    key_change,
    make_log,
    open_log,
    search,
)

LATER = FixedClock(FixedClock().now() + timedelta(days=400))
WITNESS = SigningKey("witness.example/w1", bytes(range(3, 35)))
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.slow
def test_a_ledger_is_sound_after_erasure_pruning_and_a_change_of_key(place: Path) -> None:
    make_log(place, 600)
    with open_log(place) as ledger:
        erase(ledger, Wanted(record_ids=("search-0000400",)), reason="asked for", by="officer", clock=FixedClock())
    with open_log(place, LATER_KEY, KEY) as ledger:
        enter_key(ledger, ledger.keyring, FixedClock())
        ledger.append([search(number) for number in range(1000, 1100)])
        notes = [one.note for one in (*ledger.checkpoints(), ledger.checkpoint())]
        found = verify(ledger, outside=[Outside("kept", note) for note in notes])
        assert found.findings == ()
        assert found.counts["erased"] == 1
        done = prune(ledger, Retention(300, {}), clock=LATER)
        assert done.plan.border == 512
        found = verify(ledger, outside=[Outside("kept", note) for note in notes])
        assert found.findings == ()
        # Leaf hashes are kept, so that also checkpoints of what was pruned are compared.
        assert found.counts["outside"] == len(notes)
        assert any("below 512 were pruned" in one for one in found.not_proved)


def test_records_that_wait_are_checked_and_nothing_is_written(place: Path) -> None:
    make_log(place, 5)
    with open_log(place) as ledger:
        ledger.append([search(number) for number in range(100, 103)])
        found = verify(ledger)
        assert (found.consistent, found.size, found.counts["pending"]) == (True, 5, 3)
        assert ledger.pending_count() == 3


def test_an_empty_ledger_is_sound(place: Path) -> None:
    with open_log(place) as ledger:
        found = verify(ledger)
        assert (found.consistent, found.size, found.findings) == (True, 0, ())


def test_an_unsigned_ledger_is_sound_and_says_that_this_shows_little(place: Path) -> None:
    (*_, kept) = make_log(place, 300, key=None)
    with open_log(place, None) as ledger:
        found = verify(ledger, outside=[Outside("kept", kept)])
    assert found.consistent
    assert found.not_proved[0].startswith("The log is not signed")


def test_an_unsigned_ledger_made_anew_differs_from_a_checkpoint_kept_elsewhere(place: Path) -> None:
    early, *_, kept = make_log(place, 300, key=None)
    hand = Hand(place)
    hand.rewrite(
        lambda rows: [
            (bytes(row[0]).replace(b"NPA", b"HRX"), None, None) if at == 250 else row for at, row in enumerate(rows)
        ]
    )  # type: ignore[arg-type]
    hand("DELETE FROM checkpoint")
    with open_log(place, None) as ledger:
        ledger.checkpoint()
        assert verify(ledger).consistent
        found = verify(ledger, outside=[Outside("early", early), Outside("kept", kept)])
    (one,) = found.findings
    assert (one.code, one.where) == ("fork", Place("outside", 300, name="kept"))
    assert "some of the records 100 to 299" in one.problem


def test_a_ledger_that_got_a_key_later_says_which_records_have_no_mac(place: Path) -> None:
    make_log(place, 20, key=None)
    with open_log(place) as ledger:
        enter_key(ledger, ledger.keyring, FixedClock())
        ledger.append([search(1000)])
        ledger.checkpoint()
        found = verify(ledger)
    assert found.findings == ()
    assert any("records 0 to 19 were written before the log had a key" in one for one in found.not_proved)


def test_with_the_public_key_alone_signatures_are_checked_and_macs_are_not(place: Path) -> None:
    make_log(place, 20)
    Hand(place)("UPDATE log SET mac = zeroblob(32) WHERE idx = 7")
    with open_log(place, None) as ledger:
        found = verify(ledger, trusted=[KEY.verifier])
    assert found.consistent
    assert any("MACs of 20 rows were not compared" in one for one in found.not_proved)


def test_what_is_not_given_is_named(place: Path) -> None:
    make_log(place, 20)
    with open_log(place) as ledger:
        said = " ".join(verify(ledger).not_proved)
    assert "--against" in said
    assert "--witness" in said


def test_a_cosignature_shows_how_far_a_witness_has_seen(place: Path) -> None:
    first, *_, last = make_log(place, 20)
    noted = str(cosign(parse_note(first), WITNESS, 1_800_000_000))
    size = Checkpoint(*_parts(first)).size
    Hand(place)("UPDATE checkpoint SET note = ? WHERE size = ?", noted, size)
    with open_log(place) as ledger:
        found = verify(ledger, witnesses=[WITNESS_KEY], outside=[Outside("last", last)])
    assert found.consistent
    assert any(f"has seen the first {size} records" in one for one in found.proved)
    assert any(f"has cosigned the first {size} of 20 records" in one for one in found.not_proved)


def test_a_cosignature_that_does_not_fit_is_found(place: Path) -> None:
    first, *_ = make_log(place, 20)
    noted = str(cosign(parse_note(first), WITNESS, 1_800_000_000))
    size = Checkpoint(*_parts(first)).size
    broken = noted.rstrip("\n")[:-6] + ("AAAA=\n" if noted.rstrip("\n").endswith("=") else "AAAAAA\n")
    Hand(place)("UPDATE checkpoint SET note = ? WHERE size = ?", broken, size)
    with open_log(place) as ledger:
        found = verify(ledger, witnesses=[WITNESS_KEY])
    assert [one.where for one in found.findings] == [Place("checkpoint", size)]


def _parts(note: str) -> tuple[str, int, bytes]:
    origin, size, *_ = note.split("\n")
    return origin, int(size), bytes(32)


def test_a_checkpoint_of_another_log_is_found(place: Path) -> None:
    make_log(place, 3)
    other = Checkpoint("audit.other.example/log", 3, bytes(32)).signed(SigningKey("audit.other.example/log", bytes(32)))
    with open_log(place) as ledger:
        found = verify(ledger, outside=[Outside("other", other)])
    assert [one.code for one in found.findings] == ["checkpoint_origin"]


def test_the_log_alone_is_checked_without_addenda(place: Path) -> None:
    make_log(place, 20)
    Hand(place)("DELETE FROM addendum")
    with open_log(place) as ledger:
        assert verify(ledger, log_alone=True).consistent
        assert not verify(ledger).consistent


def test_progress_is_told_up_to_the_end(place: Path) -> None:
    make_log(place, 20)
    told: list[tuple[int, int]] = []
    with open_log(place) as ledger:
        verify(ledger, progress=lambda done, total: told.append((done, total)))
    assert told == [(20, 20)]


@pytest.mark.slow
def test_a_ledger_in_postgresql_is_checked_like_one_in_a_file(postgresql_server: object) -> None:
    url = str(postgresql_server.new_database())  # type: ignore[attr-defined]
    make_log(url, 700)
    with Ledger.open(url, origin=ORIGIN, keyring=Keyring(KEY), clock=FixedClock()) as ledger:
        assert verify(ledger, workers=2).findings == ()
        with ledger.database.begin() as connection:
            connection.exec_driver_sql("UPDATE log SET entry = 'x' WHERE idx = 555")
            connection.exec_driver_sql("UPDATE mention SET fate = 2 WHERE idx = 444")
        found = verify(ledger)
    assert [(one.code, one.where.first) for one in found.findings] == [("mention_row", 444), ("entry_hash", 555)]


def test_neighbours_with_one_problem_become_one_finding() -> None:
    findings = Findings()
    for index in (4, 5, 6, 9):
        findings.add("gap", Place("log", index), "there is no row")
    assert [str(one.where) for one in findings.listed()] == ["log 4-6", "log 9"]


def test_findings_about_other_rows_or_problems_are_not_joined() -> None:
    findings = Findings()
    for code, where, problem in (
        ("gap", Place("log", 0), "a"),
        ("gap", Place("log", 1), "b"),
        ("gap", Place("tile", 2), "b"),
        ("gap", Place("tile", 3, name="x"), "b"),
        ("gap", Place("tile"), "b"),
        ("gap", Place("tile", 4, 6), "c"),
        ("gap", Place("tile", 7, 8), "c"),
        ("axe", Place("log", 1), "c"),
    ):
        findings.add(code, where, problem)
    assert [str(one.where) for one in findings.listed()] == [
        *("tile", "log 0", "log 1", "log 1", "tile 2", "tile 3 (x)", "tile 4-8"),
    ]
    assert [one.code for one in findings.listed()][2:4] == ["axe", "gap"]
    assert bool(findings)
    assert not Findings()


def test_findings_of_one_code_beyond_a_thousand_are_counted() -> None:
    findings = Findings()
    findings.extend(Finding("gap", Place("log", 2 * index), "there is no row") for index in range(MOST_FINDINGS + 5))
    assert len(findings.listed()) == MOST_FINDINGS
    assert findings.more["gap"] == 5


@pytest.mark.parametrize("key", [None, KEY])
def test_a_log_that_somebody_else_made_and_that_ends_in_the_name_of_a_trusted_key_is_found(
    place: Path, key: SigningKey | None
) -> None:
    make_log(place, 20, key=STOLEN_NAME)
    entry = key_change(STOLEN_NAME, KEY, endorsed_by=STOLEN_NAME)
    with open_log(place, STOLEN_NAME) as ledger:
        ledger.append([Draft(record_id="key-x", contents=(), compose=lambda _digests: Composed(entry))])
        ledger.checkpoint()
    with open_log(place, key) as ledger:
        found = verify(ledger, trusted=[KEY.verifier])
    assert ("key_unproved", 20) in [(one.code, one.where.first) for one in found.findings]
    assert {"row_key", "checkpoint_signature"} <= {one.code for one in found.findings}


def test_a_log_made_anew_under_the_name_of_a_key_is_found_by_who_has_only_its_public_half(place: Path) -> None:
    make_log(place, 20)
    hand = Hand(place)
    hand.rewrite(lambda rows: [(entry, bytes(32), KEY.key_id) for entry, *_ in rows])
    hand("DELETE FROM checkpoint")
    with open_log(place, None) as ledger:
        found = verify(ledger, trusted=[KEY.verifier])
    assert [(one.code, one.where.first) for one in found.findings] == [("key_unproved", 0)]


def test_a_ledger_that_was_given_another_name_is_found(place: Path) -> None:
    make_log(place, 20)
    hand = Hand(place)
    hand("UPDATE meta SET value = 'audit.other.example/log' WHERE name = 'origin'")
    hand("DELETE FROM checkpoint")
    with open_log(place) as ledger:
        found = verify(ledger)
    assert [(one.code, str(one.where)) for one in found.findings] == [("origin", "meta (origin)")]


def test_an_addendum_that_was_put_back_after_its_erasure_is_found_beside_a_damaged_record(place: Path) -> None:
    make_log(place, 20)
    hand = Hand(place)
    question = hand("SELECT * FROM addendum WHERE data = ?", b"Who approves request 7?")[0]
    with open_log(place) as ledger:
        erase(ledger, Wanted(record_ids=("search-0000007",)), reason="asked for", by="officer", clock=FixedClock())
    hand("INSERT OR IGNORE INTO addendum VALUES (?, ?, ?, ?, ?)", *question)
    hand("UPDATE log SET entry = x'7b7d' WHERE idx = 9")
    with open_log(place) as ledger:
        found = verify(ledger)
    assert {"entry_hash", "addendum_not_erased"} == {one.code for one in found.findings}


@pytest.mark.slow
@pytest.mark.parametrize("log_alone", [False, True])
def test_records_that_come_while_a_ledger_is_checked_are_no_findings(place: Path, log_alone: bool) -> None:
    make_log(place, 300)
    with open_log(place) as ledger, open_log(place) as writer:

        def grow(_done: int, _all: int) -> None:
            writer.append([search(number) for number in range(5000, 5600)])
            writer.checkpoint()

        found = verify(ledger, log_alone=log_alone, progress=grow)
        assert (found.findings, found.size) == ((), 300)
        assert verify(ledger).size == 900


@pytest.mark.parametrize(("sound", "looks"), [(True, [2]), (False, [2, 1])])
def test_what_several_processes_find_is_looked_at_again_by_one(
    place: Path, monkeypatch: pytest.MonkeyPatch, sound: bool, looks: list[int]
) -> None:
    done: list[int] = []

    def look(*given: Any) -> Verification:
        done.append(given[5])  # workers
        return Verification(consistent=sound or given[5] == 1, outside_key=False, findings=(), proved=(), not_proved=())

    monkeypatch.setattr(verifying, "_checked", look)
    make_log(place, 3)
    with open_log(place) as ledger:
        assert verify(ledger, workers=2).consistent
    assert done == looks


def test_one_process_does_not_look_a_second_time(place: Path) -> None:
    make_log(place, 3)
    Hand(place)("UPDATE log SET entry = x'7b7d' WHERE idx = 1")
    told: list[int] = []
    with open_log(place) as ledger:
        assert not verify(ledger, progress=lambda done, _total: told.append(done)).consistent
    assert told == [3]


def test_stretches_that_are_read_at_different_moments_are_looked_at_in_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes read at moments of their own: here a connection for each stretch stands for them."""

    def at_different_moments(database: Database, connection: Connection, plan: Plan, workers: int) -> Iterator[Stretch]:
        for tiles in plan.extent.stretches:
            with nullcontext(connection) if workers == 1 else database.connect() as own:
                yield check_stretch(own, tiles, plan)

    monkeypatch.setattr(verifying, "_STRETCH", 1)
    monkeypatch.setattr(verifying, "check_stretches", at_different_moments)
    make_log(place, 300)
    with open_log(place) as ledger, open_log(place) as writer:
        looks: list[int] = []

        def grow(done: int, _all: int) -> None:
            looks.append(done)
            if len(looks) == 1:
                writer.append([search(number) for number in range(90_000, 90_020)])
                writer.checkpoint()

        assert verify(ledger, workers=2, progress=grow).findings == ()
    assert looks == [256, 300, 256, 320]


@pytest.mark.slow
def test_what_processes_find_is_looked_at_in_one_moment(place: Path) -> None:
    make_log(place, 256 * 64 * 3 + 1)
    with open_log(place) as ledger, open_log(place) as writer:
        grown: list[int] = []

        def grow(done: int, _all: int) -> None:
            if not grown:
                grown.append(done)
                writer.append([search(number) for number in range(90_000, 90_600)])
                writer.checkpoint()

        assert verify(ledger, workers=2, progress=grow).findings == ()


def test_damage_within_the_file_is_found_unless_the_log_alone_is_checked(place: Path) -> None:
    make_log(place, 20)
    hand = Hand(place)
    hand.script(
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET sql = 'CREATE INDEX record_time ON record (domain)' WHERE name = 'record_time';"
    )
    with open_log(place) as ledger:
        found = verify(ledger)
        assert {one.code for one in found.findings} == {"schema"}
        assert found.findings[0].problem.startswith("the database file is damaged: ")
        assert verify(ledger, log_alone=True).consistent


def test_a_view_and_a_trigger_are_found(place: Path) -> None:
    make_log(place, 3)
    hand = Hand(place)
    hand("CREATE VIEW other AS SELECT * FROM record")
    hand("CREATE TRIGGER quiet AFTER INSERT ON record BEGIN SELECT 1; END")
    with open_log(place) as ledger:
        found = verify(ledger)
    assert sorted((one.code, one.where.name) for one in found.findings) == [("schema", "other"), ("schema", "quiet")]


@pytest.mark.slow
def test_a_pruning_that_waits_counts_and_one_that_nobody_recorded_is_found(place: Path) -> None:
    make_log(place, 600)
    with open_log(place) as ledger:
        done = prune(ledger, Retention(300, {}), clock=LATER)
        assert (done.plan.border, verify(ledger).findings) == (512, ())
    hand = Hand(place)
    hand("UPDATE meta SET value = '256' WHERE name = 'minimum_index'")
    with open_log(place) as ledger:
        found = [(one.code, one.where.first, one.where.last) for one in verify(ledger).findings]
    assert found == [("minimum_index", None, None), ("entry_missing", 256, 511)]
    hand("UPDATE meta SET value = '512' WHERE name = 'minimum_index'")
    hand("DELETE FROM tile WHERE level = 0 AND idx < 2")
    with open_log(place) as ledger:
        assert verify(ledger).consistent  # C2SP tlog-tiles: tiles of pruned entries may go
    hand("DELETE FROM log WHERE idx < 512")
    with open_log(place) as ledger:
        assert verify(ledger).consistent
    hand("DELETE FROM tile WHERE level = 1")
    with open_log(place) as ledger:
        assert "tile_missing" in {one.code for one in verify(ledger).findings}
