"""`audit list` and `audit stats`: the records that are asked for, the newest first, and all of them counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.record.drafts import refusal_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.core.engine import SystemClock
from context_engine.core.models import AccessRecord, Caller, Principal, SearchRequest
from context_engine.errors import InvalidRequest

pytest.importorskip("sqlalchemy")

FIRST = datetime(2026, 3, 1, 9, tzinfo=UTC)

KEY = SigningKey.generate("audit.bank.example")


def ledger_file(folder: Path, key: SigningKey | None = None) -> Path:
    """Write a ledger of six refused requests, an hour apart, by ana and by ben in turns."""
    file = folder / "ledger.db"
    keyring = None if key is None else Keyring(key)
    with Ledger.open(str(file), origin="log", keyring=keyring, clock=SystemClock()) as ledger:
        secret = keyring.pseudonym_key if keyring is not None else ledger.pseudonym_salt
        drafts = [
            refusal_draft(
                SearchRequest(query="limit", domain="NPA" if number < 4 else "ORM", caller=Caller(app="test")),
                AccessRecord(principal=Principal(id="ana" if number % 2 == 0 else "ben")),
                InvalidRequest("no"),
                record_id=f"r{number}",
                now=FIRST + timedelta(hours=number),
                pseudonyms=Pseudonyms(secret),
                code_version="1",
            )
            for number in range(6)
        ]
        ledger.append(drafts)
    return file


def run(folder: Path, *args: str, key: SigningKey | None = None) -> Result:
    env = {
        "HOME": str(folder),
        "CONTEXT_ENGINE_DATA_DIR": str(folder / "data"),
        "CONTEXT_ENGINE_AUDIT_KEY": key.text if key else "",
    }
    return CliRunner().invoke(main, ["audit", *args, "--ledger", str(folder / "ledger.db")], env=env)


def ids(found: Result) -> list[str]:
    assert found.exit_code == 0, found.output
    return [one["record_id"] for one in json.loads(found.stdout)["records"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["r5", "r4", "r3", "r2", "r1", "r0"]),
        (["--limit", "2"], ["r5", "r4"]),
        (["--domain", "ORM"], ["r5", "r4"]),
        (["--caller", "ana"], ["r4", "r2", "r0"]),
        (["--caller", "ana", "--limit", "1"], ["r4"]),
        (["--caller", "nobody"], []),
        (["--since", "2026-03-01T11:00:00Z", "--until", "2026-03-01T13:00:00Z"], ["r3", "r2"]),
        (["--kind", "search"], []),
        (["--kind", "refusal", "--domain", "NPA", "--caller", "ben"], ["r3", "r1"]),
    ],
)
def test_records_are_filtered(tmp_path: Path, options: list[str], expected: list[str]) -> None:
    ledger_file(tmp_path)
    assert ids(run(tmp_path, "list", "--json", *options)) == expected


@pytest.mark.parametrize("command", [("list",), ("stats",), ("replay",), ("drift",), ("export", "--format", "csv")])
def test_a_period_in_which_nothing_lies_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    ledger_file(tmp_path)
    day = ("--until", "2026-03-01", "--since", "2026-03-01")
    refused = run(tmp_path, *command, *day)
    assert refused.exit_code == 2
    assert "name the day after the last one" in refused.stderr
    assert run(tmp_path, *command, "--since", "01.03.2026").exit_code == 2
    assert run(tmp_path, *command, "--since", "2026-03-01", "--until", "2026-03-02").exit_code == 0


def test_a_domain_that_nothing_knows_is_said_with_the_nearest(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    for command in (("list",), ("list", "--json"), ("export", "--format", "csv"), ("replay",), ("drift",)):
        said = run(tmp_path, *command, "--domain", "NPX").stderr
        assert "'NPX' is neither a configured domain nor in any record. Did you mean 'NPA'?" in said
    assert "is no domain" not in run(tmp_path, "list", "--domain", "NPA", "--kind", "search").stderr


def test_a_caller_is_found_under_the_key_and_by_pseudonym(tmp_path: Path) -> None:
    ledger_file(tmp_path, KEY)
    found = run(tmp_path, "list", "--json", "--caller", "ana", key=KEY)
    assert ids(found) == ["r4", "r2", "r0"]
    pseudonym = json.loads(found.stdout)["records"][0]["caller"]
    assert "ana" not in pseudonym
    assert ids(run(tmp_path, "list", "--json", "--caller", pseudonym, key=KEY)) == ["r4", "r2", "r0"]


def test_what_waits_is_listed_and_more_is_said(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    assert json.loads(run(tmp_path, "list", "--json", "--limit", "5").stdout)["more"] is True
    assert json.loads(run(tmp_path, "list", "--json", "--limit", "6").stdout)["more"] is False


def test_a_refused_request_says_with_what(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    assert json.loads(run(tmp_path, "list", "--json").stdout)["records"][0]["error"] == "invalid_request"
    assert "invalid_request" in run(tmp_path, "list").stdout


def test_a_sample_is_what_anybody_draws_by_the_seed(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    options = ("list", "--json", "--sample", "2", "--seed")
    # SHA-256 of "seed 7", a line feed and the id, in hex: smallest first
    order = sorted((f"r{number}" for number in range(6)), key=lambda one: sha256(f"seed 7\n{one}".encode()).hexdigest())
    found = run(tmp_path, *options, "seed 7")
    assert ids(found) == sorted(order[:2], reverse=True)
    assert json.loads(found.stdout)["sample"] == {"seed": "seed 7", "size": 2, "population": 6}
    assert "2 of 6 records, drawn by the seed 'seed 7'." in found.stderr
    of_ana = [one for one in order if one in ("r0", "r2", "r4")]
    assert ids(run(tmp_path, *options, "seed 7", "--caller", "ana")) == sorted(of_ana[:2], reverse=True)
    assert len(ids(run(tmp_path, "list", "--json", "--sample", "99", "--seed", "x"))) == 6
    assert len({tuple(ids(run(tmp_path, *options, str(seed)))) for seed in range(8)}) > 1


def test_a_sample_and_its_seed_go_together(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    assert run(tmp_path, "list", "--sample", "2").exit_code == 2
    assert run(tmp_path, "list", "--seed", "2").exit_code == 2


def test_each_form_and_what_no_key_proves(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    lines = run(tmp_path, "list", "--jsonl").stdout.splitlines()
    assert [json.loads(line)["record_id"] for line in lines] == ["r5", "r4", "r3", "r2", "r1", "r0"]
    table = run(tmp_path, "list")
    assert "2026-03-01T14:00:00" in table.stdout
    assert "CONTEXT_ENGINE_AUDIT_KEY" in table.stderr
    assert run(tmp_path, "list", "--json", "--jsonl").exit_code == 2


def test_there_must_be_a_ledger(tmp_path: Path) -> None:
    assert run(tmp_path, "list").exit_code == 1


def stats(folder: Path, *options: str) -> dict[str, Any]:
    found = run(folder, "stats", "--json", *options)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_stats_count_by_kind_domain_day_and_caller(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    found = stats(tmp_path)
    assert (found["size"], found["pending"], found["records"], found["callers"]) == (6, 0, 6, 2)
    assert found["kinds"] == {"refusal": 6}
    assert found["domains"] == {"NPA": 4, "ORM": 2}
    assert found["days"] == {"2026-03-01": 6}
    assert found["stored"]["question"]["count"] == 6
    assert (found["first"], found["last"]) == ("2026-03-01T09:00:00.000000Z", "2026-03-01T14:00:00.000000Z")


def test_stats_of_a_span_of_time(tmp_path: Path) -> None:
    ledger_file(tmp_path)
    found = stats(tmp_path, "--since", "2026-03-01T13:00:00Z")
    assert (found["size"], found["records"], found["domains"]) == (6, 2, {"ORM": 2})
    assert stats(tmp_path, "--since", "2030-01-01")["records"] == 0
    assert "6 records from" in run(tmp_path, "stats").stdout
