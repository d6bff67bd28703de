"""`audit erase`, `audit prune` and `audit export`, on a ledger in a file."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.values import Addendum, Composed, Draft
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import utc_text
from context_engine.demo import data_dir
from context_engine.service.appending import append_line
from context_engine.service.judgements import PASSAGES, read_judgements

KEY = SigningKey("audit.bank.example/retrieval", bytes(range(32)))

NOW = datetime.now(UTC)

Run = Callable[..., Result]


def draft(record_id: str, *, days: int = 0, caller: str = "jo", **fields: object) -> Draft:
    """A record of that age, with a question of its own."""
    question = Addendum.of("question", f"What of {record_id}?".encode())
    pseudonym = Pseudonyms(Keyring(KEY).pseudonym_key).of_caller(caller)
    entry = {
        "v": 1,
        "kind": "search",
        "id": record_id,
        "time": utc_text(NOW - timedelta(days=days)),
        "domain": "NPA",
        "caller": {"pseudonym": pseudonym},
        "addenda": {"question": question.digest.hex()},
        **fields,
    }

    def compose(_: Mapping[bytes, bytes]) -> Composed:
        return Composed(json.dumps(entry).encode(), (question,))

    return Draft(record_id=record_id, contents=(), compose=compose)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a ledger in an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG_DIR", "STAGE", "DATA_DIR", "AUDIT_LEDGER", "AUDIT_FORMER_KEYS", "AUDIT_MODE"):
        monkeypatch.delenv(f"CONTEXT_ENGINE_{name}", raising=False)
    monkeypatch.delenv("CONTEXT_ENGINE_AUDIT_RETENTION_DAYS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEY", KEY.text)
    return tmp_path / "audit/ledger.db"


@pytest.fixture
def run(place: Path) -> Run:
    """Runs a command of the group on the ledger."""

    def call(name: str, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["audit", name, *arguments, "--ledger", str(place)])

    return call


def add(place: Path, *drafts: Draft) -> None:
    with Ledger.open(str(place), origin=KEY.name, keyring=Keyring(KEY), clock=SystemClock()) as ledger:
        ledger.append(drafts)


def stored(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.parent.iterdir())


def test_nothing_is_erased_before_somebody_says_yes(run: Run, place: Path) -> None:
    add(place, draft("s-1"), draft("s-2"))
    refused = run("erase", "--query", "s-1", "--reason", "asked for")
    assert refused.exit_code == 2 and "Erase 1 question of 1 record? It cannot be undone" in refused.stderr
    tried = run("erase", "--query", "s-1", "--dry-run")
    assert tried.exit_code == 0 and "would be erased: 1 question of 1 record" in tried.stdout
    assert b"What of s-1?" in stored(place)
    done = run("erase", "--query", "s-1", "--reason", "asked for", "--by", "the office", "--yes", "--json")
    said = json.loads(done.stdout)
    assert (said["questions"], said["records"], said["overwritten"], len(said["record_ids"])) == (1, 1, True, 1)
    assert b"What of s-1?" not in stored(place) and b"What of s-2?" in stored(place)
    entries = [json.loads(line)["entry"] for line in run("export", "--format", "jsonl").stdout.splitlines()]
    (erasure,) = [one for one in entries if one["kind"] == "erasure"]
    assert (erasure["reason"], erasure["by"]) == ("asked for", "the office")


def test_a_caller_is_erased_by_name_and_again_is_nothing(run: Run, place: Path) -> None:
    add(place, draft("s-1"), draft("s-2"), draft("s-3", caller="ada"))
    done = run("erase", "--caller", "jo", "--reason", "asked for", "--yes")
    assert "erased: 2 questions of 2 records" in done.stdout and "Backups" in done.stderr
    assert b"What of s-3?" in stored(place) and b"What of s-2?" not in stored(place)
    again = run("erase", "--caller", "jo", "--reason", "asked for")
    assert again.exit_code == 0 and "nothing to erase" in again.stdout


def test_a_caller_is_not_erased_in_part_where_a_former_key_is_missing(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(str(place), origin=KEY.name, keyring=Keyring(KEY), clock=SystemClock()) as ledger:
        enter_key(ledger, Keyring(KEY), SystemClock())
    add(place, draft("s-1"))
    following = SigningKey(KEY.name, bytes(range(32, 64)))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEY", following.text)
    with Ledger.open(str(place), origin=KEY.name, keyring=Keyring(following, (KEY,)), clock=SystemClock()) as ledger:
        enter_key(ledger, Keyring(following, (KEY,)), SystemClock())
    refused = run("erase", "--caller", "jo", "--reason", "asked for", "--yes")
    former = f"{KEY.name}+{KEY.key_id}"
    assert refused.exit_code == 1 and f"under the key {former} cannot be matched" in refused.stderr
    assert b"What of s-1?" in stored(place)
    listed = run("list", "--caller", "jo")
    assert f"Records under the key {former} cannot be matched with a name" in listed.stderr
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_FORMER_KEYS", KEY.text)
    assert "cannot be matched" not in run("list", "--caller", "jo").stderr
    done = run("erase", "--caller", "jo", "--reason", "asked for", "--yes")
    assert "erased: 1 question of 1 record" in done.stdout and b"What of s-1?" not in stored(place)


@pytest.mark.parametrize("how", [("--query", "s-1"), ("--caller", "jo"), ("--caller", "mo")])
def test_judgements_go_with_their_question_and_with_their_judge(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, str]
) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(place.parents[1] / "judged"))
    add(place, draft("s-1"), draft("s-2", caller="ada"))
    judge = Pseudonyms(Keyring(KEY).pseudonym_key).of_caller("mo")
    folder = data_dir(place.parents[1] / "judged")
    for search in ("s-1", "s-2"):
        row = {"search_id": search, "query": f"What of {search}?", **({"by": judge} if search == "s-1" else {})}
        append_line(folder / PASSAGES, json.dumps(row))
    done = run("erase", *how, "--reason", "asked for", "--yes", "--json")
    assert json.loads(done.stdout)["judgements"] == 1
    assert [row["search_id"] for row in read_judgements(folder)] == ["s-2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name what to erase"),
        (("--version", "3"), "Name what to erase"),
        (("--query", "s-1", "--version", "3"), "--version needs --document"),
        (("--query", "s-1"), "--reason"),
        (("--text", "37261cc51ab2", "--reason", "asked for"), "not '37261cc51ab2'"),
    ],
)
def test_what_is_missing_is_named(run: Run, place: Path, arguments: tuple[str, ...], said: str) -> None:
    add(place, draft("s-1"))
    refused = run("erase", *arguments)
    assert refused.exit_code == 2 and said in refused.stderr


def test_what_was_done_to_the_log_is_shown_as_a_record_of_it(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(place, *(draft(f"s-{number}", days=40) for number in range(300)))
    run("erase", "--query", "s-1", "--reason", "asked for", "--by", "the office", "--yes")
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_RETENTION_DAYS", "30")
    run("prune", "--yes")
    listed = run("list", "--jsonl", "--limit", "1000").stdout.splitlines()
    ids = {one["kind"]: one["record_id"] for one in map(json.loads, listed)}
    erasure = run("show", ids["erasure"])
    assert (erasure.exit_code, "1 addendum erased by the office: asked for" in erasure.stdout) == (0, True)
    assert "records before index 256 removed" in run("show", ids["pruning"]).stdout
    assert f"key: {KEY.verifier.text}" in run("show", ids["key"]).stdout
    assert json.loads(run("show", ids["key"], "--json").stdout)["entry"]["now"] == KEY.verifier.text


def test_a_record_that_is_not_there_is_told(run: Run, place: Path) -> None:
    add(place, draft("s-1"))
    refused = run("erase", "--query", "s-9", "--reason", "asked for", "--yes")
    assert refused.exit_code == 2 and "no record s-9" in refused.stderr


def test_records_go_by_the_age_that_the_settings_say(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(place, *(draft(f"s-{index}", days=400 if index < 300 else 10) for index in range(310)))
    unset = run("prune")
    assert unset.exit_code == 2 and "audit_retention_days" in unset.stderr
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_RETENTION_DAYS", "365")
    tried = run("prune", "--dry-run")
    assert tried.exit_code == 0 and "would be removed: 256 records" in tried.stdout
    assert "record 300 (s-300)" in tried.stderr and "44 older records wait" in tried.stderr
    refused = run("prune")
    assert refused.exit_code == 2 and "say --yes" in refused.stderr and b"What of s-9?" in stored(place)
    done = json.loads(run("prune", "--yes", "--json").stdout)
    assert (done["minimum"], done["border"], done["addenda"], done["holder"]["position"]) == (0, 256, 256, 300)
    assert b"What of s-9?" not in stored(place) and b"What of s-299?" in stored(place)
    assert "nothing to remove" in run("prune").stdout


def test_lines_are_written_to_a_file_for_its_owner_alone(run: Run, place: Path, tmp_path: Path) -> None:
    add(place, draft("s-1"), draft("s-2", domain="ORM"))
    out = tmp_path / "out/records.jsonl"
    done = run("export", "--format", "jsonl", "--with-texts", "--domain", "ORM", "--out", str(out), "--json")
    assert json.loads(done.stdout)["count"] == 1
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    (line,) = out.read_bytes().splitlines()
    assert leaf_hash(line[line.index(b'"entry":') + 8 : -1]).hex() == json.loads(line)["leaf"]
    assert b"What of s-2?" in line
    assert [path.name for path in out.parent.iterdir()] == ["records.jsonl"]


def test_a_table_is_of_the_time_that_is_asked_for(run: Run, place: Path) -> None:
    add(place, *(draft(f"s-{days}", days=days) for days in (0, 10, 20)))
    day = f"{NOW - timedelta(days=15):%Y-%m-%d}"
    rows = list(csv.DictReader(io.StringIO(run("export", "--format", "csv", "--since", day).stdout)))
    assert [row["id"] for row in rows] == ["s-0", "s-10"]
    rows = list(csv.DictReader(io.StringIO(run("export", "--format", "csv", "--until", day).stdout)))
    assert [row["id"] for row in rows] == ["s-20"]


def test_the_folder_of_tiles_says_what_it_does_not_prove(run: Run, place: Path, tmp_path: Path) -> None:
    add(place, draft("s-1"))
    done = run("export", "--format", "tiles", "--out", str(tmp_path / "log"))
    assert done.exit_code == 0 and "No witness cosigned" in done.stderr
    assert (tmp_path / "log/tile/entries/000.p/1").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ("tiles",),
        ("tiles", "--out", "log", "--domain", "NPA"),
        ("csv", "--with-texts"),
        ("jsonl", "--json"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, place: Path, arguments: tuple[str, ...]) -> None:
    add(place, draft("s-1"))
    assert run("export", "--format", *arguments).exit_code == 2


def test_a_place_that_cannot_be_written_is_named(run: Run, place: Path, tmp_path: Path) -> None:
    add(place, draft("s-1"))
    (tmp_path / "file").write_text("")
    refused = run("export", "--format", "csv", "--out", str(tmp_path / "file/rows.csv"))
    assert refused.exit_code == 2 and "cannot be written" in refused.stderr
