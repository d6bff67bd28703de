"""`audit verify`, on ledgers in a file: what it says, and the code that it ends with."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from tests.unit.audit.checks.logs import KEY, STOLEN_NAME, make_log, open_log, search

Run = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in; the place of a ledger in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG_DIR", "STAGE", "DATA_DIR", "AUDIT_LEDGER", "AUDIT_FORMER_KEYS", "AUDIT_MODE"):
        monkeypatch.delenv(f"CONTEXT_ENGINE_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEY", KEY.text)
    return tmp_path / "ledger.db"


@pytest.fixture
def run(place: Path) -> Run:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["audit", "verify", *arguments, "--ledger", str(place)])

    return call


def spoil(place: Path, statement: str) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(statement)
        connection.commit()


def test_an_untouched_ledger_is_sound_and_what_waits_is_integrated_first(run: Run, place: Path) -> None:
    make_log(place, 5)
    with open_log(place) as ledger:
        ledger.append([search(100)])
    found = run()
    assert found.exit_code == 0
    assert found.stdout.splitlines()[-1].startswith("self-consistent: 6 records")
    assert "--against" in found.stderr


def test_an_edit_ends_with_1_and_names_its_row(run: Run, place: Path) -> None:
    make_log(place, 9)
    spoil(place, "UPDATE log SET entry = X'00' WHERE idx = 7")
    found = run("--json")
    said = json.loads(found.stdout)
    assert found.exit_code == 1
    assert (said["sound"], said["size"]) == (False, 9)
    assert [(one["code"], one["table"], one["first"]) for one in said["findings"]] == [("entry_hash", "log", 7)]


def test_findings_are_told_in_lines(run: Run, place: Path) -> None:
    make_log(place, 9)
    spoil(place, "DELETE FROM log WHERE idx IN (4, 5)")
    found = run()
    assert found.exit_code == 1
    assert found.stdout.splitlines()[0].startswith("log 4-5: the row is missing")
    assert found.stdout.splitlines()[-1].startswith("not sound: 9 records")


def test_a_record_that_waits_and_was_edited_is_found_and_not_integrated(run: Run, place: Path) -> None:
    make_log(place, 3)
    with open_log(place) as ledger:
        ledger.append([search(100), search(101)])
    spoil(place, "UPDATE pending SET leaf = zeroblob(32) WHERE record_id = 'search-0000100'")
    said = json.loads(run("--json").stdout)
    assert [(one["code"], one["name"]) for one in said["findings"]] == [("pending_hash", "search-0000100")]
    assert (said["size"], said["counts"]["pending"]) == (4, 1)


def test_tiles_that_do_not_fit_keep_what_waits_from_the_log_and_are_found(run: Run, place: Path) -> None:
    make_log(place, 5)
    with open_log(place) as ledger:
        ledger.append([search(100)])
    spoil(place, "UPDATE tile SET hashes = X'00'")
    found = run("--json")
    assert found.exit_code == 1
    assert {one["code"] for one in json.loads(found.stdout)["findings"]} == {"tile_missing", "tile_hash"}


def test_a_checkpoint_kept_elsewhere_shows_what_was_cut_off(run: Run, place: Path, tmp_path: Path) -> None:
    *_, kept = make_log(place, 9)
    (tmp_path / "kept").write_text(kept, "utf-8")
    assert run("--against", str(tmp_path / "kept")).exit_code == 0
    for table in ("log", "record", "mention"):
        spoil(place, f"DELETE FROM {table} WHERE idx >= 1")
    spoil(place, "DELETE FROM chunk")
    spoil(place, "DELETE FROM checkpoint WHERE size > 1")
    spoil(place, "DELETE FROM addendum")
    spoil(place, "UPDATE tile SET hashes = substr(hashes, 1, 32)")
    assert run().exit_code == 0  # nothing here tells of it, which is said
    found = run("--against", str(tmp_path / "kept"), "--json")
    assert found.exit_code == 1
    assert [(one["code"], one["first"]) for one in json.loads(found.stdout)["findings"]] == [("truncated", 9)]


def test_of_a_file_of_checkpoints_one_that_was_cut_off_at_the_end_is_left_out(
    run: Run, place: Path, tmp_path: Path
) -> None:
    notes = make_log(place, 9)
    (tmp_path / "kept").write_text("".join(f"{note}\n" for note in notes) + "audit.bank.exam", "utf-8")
    found = run("--against", str(tmp_path / "kept"), "--json")
    assert found.exit_code == 0
    assert "was cut off while it was written" in found.stderr
    assert json.loads(found.stdout)["counts"]["outside"] == 3


def test_a_ledger_made_anew_is_not_sound_for_who_gives_the_key_of_the_old_one(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(place, 5, key=STOLEN_NAME)
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEY", STOLEN_NAME.text)
    alone, with_key = json.loads(run("--json").stdout), run("--json", "--key", KEY.verifier.text)
    assert (alone["verdict"], alone["sound"], alone["findings"]) == ("self-consistent", False, [])
    assert with_key.exit_code == 1
    told = json.loads(with_key.stdout)
    assert told["verdict"] == "not sound"
    assert {"key_unknown", "row_key", "checkpoint_signature"} <= {finding["code"] for finding in told["findings"]}


def test_a_key_from_outside_makes_the_result_sound(run: Run, place: Path) -> None:
    make_log(place, 5)
    result = run("--key", KEY.verifier.text)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "sound: 5 records, 3 checkpoints"


def test_strict_needs_a_checkpoint_kept_elsewhere_or_a_witness(
    run: Run, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, kept = make_log(place, 9)
    (tmp_path / "kept").write_text(kept, "utf-8")
    alone = run("--strict", "--key", KEY.verifier.text)
    assert alone.exit_code == 1
    assert "--against" in alone.stderr and "--witness" in alone.stderr
    assert run("--strict", "--against", str(tmp_path / "kept")).exit_code == 0
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rag-pipeline.json").write_text('{"audit_strict": true}', "utf-8")
    monkeypatch.setenv("CONTEXT_ENGINE_CONFIG_DIR", str(tmp_path / "config"))
    assert run().exit_code == 1, "the setting stands for the option"
    assert run("--no-strict").exit_code == 0
    assert run("--against", str(tmp_path / "kept")).exit_code == 0


def test_a_file_without_a_checkpoint_is_refused(run: Run, place: Path, tmp_path: Path) -> None:
    make_log(place, 2)
    for text in ("\n", "# Another file\n\nwith a text\n"):
        (tmp_path / "other").write_text(text, "utf-8")
        found = run("--against", str(tmp_path / "other"))
        assert found.exit_code == 2
        assert "holds no checkpoint" in found.stderr


def test_the_public_key_is_enough_to_check_signatures(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log(place, 5)
    monkeypatch.delenv("CONTEXT_ENGINE_AUDIT_KEY")
    good, bad = run("--key", KEY.verifier.text), run("--key", STOLEN_NAME.verifier.text, "--json")
    assert good.exit_code == 0
    assert "MACs of 5 rows were not compared" in good.stderr
    assert bad.exit_code == 1
    assert "key_unknown" in {one["code"] for one in json.loads(bad.stdout)["findings"]}


def test_what_is_no_key_is_refused(run: Run, place: Path) -> None:
    make_log(place, 1)
    found = run("--key", "rubbish")
    assert found.exit_code != 0
    assert "--key" in found.stderr


def test_times_that_run_backwards_are_said(run: Run, place: Path) -> None:
    make_log(place, 3)  # its key at 10:00, two searches right after midnight
    with open_log(place) as ledger:
        ledger.append([search(11 * 3600), search(11 * 3600 - 60)])  # clocks may differ by a minute
    done = run("--json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["findings"]) == (0, [])
    (wrong,) = [line for line in said["not_proved"] if "dated" in line]
    assert wrong == (
        "A clock was wrong: 2 records dated more than an hour before an earlier record, such as "
        "record 1 (2026-03-02T00:00:01Z) after record 0 (2026-03-02T10:00:00Z)."
    )
