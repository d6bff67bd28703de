"""`audit keygen`, `audit head` and `audit prove`, on a ledger in a file."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.audit.formats.checkpoint import cosign, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import COSIGNATURE, Keyring, SigningKey, VerifierKey
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.prove import parse_consistency, parse_proof
from context_engine.audit.values import Composed, Draft
from context_engine.testing.fakes import FixedClock

KEY = SigningKey("audit.bank.example/retrieval", bytes(range(32)))

Run = Callable[..., Result]


def draft(record_id: str) -> Draft:
    def compose(_: Mapping[bytes, bytes]) -> Composed:
        return Composed(
            json.dumps({"v": 1, "kind": "search", "id": record_id, "time": "2026-03-02T10:00:00Z"}).encode()
        )

    return Draft(record_id=record_id, contents=(), compose=compose)


def add(place: Path, *record_ids: str, key: SigningKey | None = KEY) -> None:
    keyring = None if key is None else Keyring(key)
    with Ledger.open(str(place), origin=KEY.name, keyring=keyring, clock=FixedClock()) as ledger:
        ledger.append([draft(one) for one in record_ids])


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
    """Runs a command of the group on the ledger."""

    def call(name: str, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["audit", name, *arguments, "--ledger", str(place)])

    return call


def keygen(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["audit", "keygen", *arguments])


def test_a_new_key_goes_to_stdout_and_its_public_half_to_stderr() -> None:
    SigningKey.parse(KEY.text)  # whose beginning is the same, and is hidden elsewhere
    made = keygen("audit.bank.example/retrieval")
    key = SigningKey.parse(made.stdout)
    assert made.exit_code == 0
    assert key.name == "audit.bank.example/retrieval"
    assert f"verifier key: {key.verifier.text}" in made.stderr


def test_a_key_in_a_file_is_its_owner_s_alone_and_is_shown_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "audit.key"
    made = keygen("log", "--out", str(file), "--json")
    key = SigningKey.parse(file.read_text("utf-8"))
    assert json.loads(made.stdout) == {
        "name": "log",
        "key_id": key.key_id,
        "verifier_key": key.verifier.text,
        "file": str(file),
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key.text not in made.output
    other = keygen("log", "--out", str(tmp_path / "other.key"))
    assert other.stdout == f"{SigningKey.parse((tmp_path / 'other.key').read_text('utf-8')).verifier.text}\n"


def test_a_key_is_never_written_over_another(tmp_path: Path) -> None:
    file = tmp_path / "audit.key"
    file.write_text("the only key", "utf-8")
    refused = keygen("log", "--out", str(file))
    assert (refused.exit_code, file.read_text("utf-8")) == (2, "the only key")
    assert "exists already" in refused.stderr


@pytest.mark.parametrize("name", ["", "two words", "a+b", "https://bank.example/log"])
def test_a_name_that_cannot_stand_in_a_note_is_refused(name: str) -> None:
    assert keygen(name).exit_code == 2


def test_a_head_says_what_the_log_holds(run: Run, place: Path) -> None:
    add(place, "s0", "s1", "s2")
    head = run("head")
    note = parse_note(head.stdout)
    assert (head.exit_code, parse_checkpoint(note).size, parse_checkpoint(note).origin) == (0, 3, KEY.name)
    assert [one.key for one in verify_note(note, [KEY.verifier])] == [KEY.verifier]
    assert run("head").stdout == head.stdout


def test_a_head_in_json_names_the_keys_and_what_is_not_proved(run: Run, place: Path) -> None:
    add(place, "s0")
    file = place.with_name("head.checkpoint")
    found = json.loads(run("head", "--json", "--out", str(file)).stdout)
    assert found["checkpoint"] == file.read_text("utf-8")
    assert (found["size"], found["newer_records"], found["signed_by"]) == (1, 0, [KEY.verifier.text])
    assert [sentence.split(":")[0] for sentence in found["not_proved"]] == ["No witness cosigned"]


def test_without_a_key_a_head_is_unsigned_and_says_so(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTEXT_ENGINE_AUDIT_KEY")
    add(place, "s0", key=None)
    head = run("head")
    assert head.exit_code == 0
    assert parse_note(head.stdout).signatures == ()
    assert "No key is set (CONTEXT_ENGINE_AUDIT_KEY): nothing is signed" in head.stderr


def test_who_has_not_the_key_of_a_signed_log_gets_the_newest_head_there_is(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(str(place), origin=KEY.name, keyring=Keyring(KEY), clock=FixedClock()) as ledger:
        enter_key(ledger, Keyring(KEY), FixedClock())
    signed = run("head").stdout
    add(place, "s0")
    monkeypatch.delenv("CONTEXT_ENGINE_AUDIT_KEY")
    head = run("head")
    assert (head.exit_code, head.stdout) == (0, signed)
    assert "1 newer record not included" in head.stderr
    assert "the signatures of the checkpoint were not verified here" in head.stderr
    assert run("prove", "s0").exit_code == 1


def test_a_head_is_handed_to_what_the_settings_name(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(place, "s0")
    kept = place.with_name("kept.checkpoints")
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_CHECKPOINT_FILE", str(kept))
    head = run("head", "--publish")
    assert (head.exit_code, kept.read_text("utf-8").strip()) == (0, head.stdout.strip())
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_CHECKPOINT_FILE", str(place / "below a file"))
    add(place, "s1")
    found = run("head", "--publish", "--json")
    assert (found.exit_code, len(json.loads(found.stdout)["problems"])) == (1, 1)


def test_where_there_is_no_ledger_none_is_made(run: Run, place: Path) -> None:
    assert run("head").exit_code == 1
    assert not place.exists()


def test_a_record_is_proved_to_somebody_who_has_the_key_and_the_verifier_alone(run: Run, place: Path) -> None:
    add(place, "s0", "s1", "s2")
    proved = run("prove", "s1", "--verifier", "check.py")
    assert proved.exit_code == 0, proved.output
    proof = parse_proof(Path("s1.tlog-proof").read_bytes().decode())
    assert (proof.index, json.loads(proof.entry)["id"]) == (1, "s1")
    assert f"python check.py s1.tlog-proof --key {KEY.verifier.text}" in " ".join(proved.stderr.split())
    command = [sys.executable, "-I", "check.py", "s1.tlog-proof", "--key", KEY.verifier.text]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_growth_is_proved_beside_the_record_or_alone(run: Run, place: Path) -> None:
    add(place, "s0", "s1")
    run("head", "--out", "old.checkpoint")
    add(place, "s2")
    found = json.loads(run("prove", "s2", "--since", "old.checkpoint", "--out", "p/two.tlog-proof", "--json").stdout)
    assert found["not_proved"] and found["since"] == 2 and found["size"] == 3
    assert (found["proof"], found["consistency"]) == ("p/two.tlog-proof", "p/two.tlog-consistency")
    both = parse_consistency(Path("p/two.tlog-consistency").read_bytes().decode())
    assert both.note == parse_proof(Path("p/two.tlog-proof").read_bytes().decode()).note
    alone = run("prove", "--since", "old.checkpoint")
    assert alone.exit_code == 0
    assert parse_consistency(Path("old.tlog-consistency").read_bytes().decode()) == both


def test_a_log_that_was_put_back_is_found_out_by_an_older_checkpoint(run: Run, place: Path) -> None:
    add(place, "s0", "s1")
    run("head", "--out", "old.checkpoint")
    for file in place.parent.glob("ledger.db*"):
        file.unlink()
    add(place, "s0", "other", "s2")
    rewritten = run("prove", "--since", "old.checkpoint")
    assert rewritten.exit_code == 1
    assert "does not begin with" in rewritten.stderr
    assert not Path("old.tlog-consistency").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("nothing",), 2),
        (("a/b",), 2),
        (("s0", "--since", "nowhere"), 2),
        (("s0", "--since", "bad.checkpoint"), 2),
        (("s0", "--out", "bad.checkpoint/x"), 2),
    ],
)
def test_what_cannot_be_proved_is_refused(run: Run, place: Path, arguments: tuple[str, ...], code: int) -> None:
    add(place, "s0")
    Path("bad.checkpoint").write_text("origin\n01\n", "utf-8")
    assert run("prove", *arguments).exit_code == code
    assert not list(place.parent.glob("*.tlog-proof"))


def test_the_verifier_alone_needs_no_ledger(run: Run, place: Path) -> None:
    assert run("prove", "--verifier", "check.py").exit_code == 0
    assert Path("check.py").read_text("utf-8").startswith('"""Check a proof')
    assert not place.exists()


def test_a_key_that_is_none_is_named_and_not_shown(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(place, "s0")
    altered = KEY.text[:-6] + "AAAAA="
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEY", altered)
    refused = run("head")
    assert refused.exit_code == 2
    assert "CONTEXT_ENGINE_AUDIT_KEY" in refused.stderr and altered not in refused.stderr


def test_a_head_of_records_that_were_rewritten_is_not_given(run: Run, place: Path) -> None:
    add(place, "s0", "s1")
    run("head")
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE tile SET hashes = zeroblob(64)")
    connection.close()
    refused = run("head")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "log of 2 records does not extend the 2 that were signed" in refused.stderr


@pytest.mark.parametrize("arguments", [("head",), ("prove", "s0"), ("prove", "--since", "old.checkpoint")])
def test_without_the_extra_the_way_to_install_it_is_said(
    run: Run, place: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(place, "s0")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "pip install 'dify-context-engine[audit]'" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["stats", "verify", "prune", "list"])
def test_a_fresh_process_without_the_extra_says_how_to_install_it(command: str, tmp_path: Path) -> None:
    """No module of the ledger is imported yet, so a command must not import one before it looks for the extra."""
    code = "import sys; sys.modules['sqlalchemy'] = None; from context_engine.apps.cli import run; run()"
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code, "audit", command], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 2, ended.stderr
    assert "pip install 'dify-context-engine[audit]'" in ended.stderr


OTHER = SigningKey(KEY.name, bytes(range(1, 33)))
WITNESS = SigningKey("witness.example/w1", bytes(range(3, 35)))
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE).text


def cosigned(place: Path) -> None:
    """Add the witness's cosignature to the newest checkpoint of a ledger."""
    with sqlite3.connect(place) as connection:
        ((size, note),) = connection.execute("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1").fetchall()
        made = str(cosign(parse_note(note), WITNESS, 1_800_000_000))
        connection.execute("UPDATE checkpoint SET note = ? WHERE size = ?", (made, size))


def test_a_proof_is_refused_if_another_key_was_given_than_the_one_that_signed(run: Run, place: Path) -> None:
    add(place, "r-1")
    assert run("prove", "r-1", "--key", KEY.verifier.text).exit_code == 0
    result = run("prove", "r-1", "--key", OTHER.verifier.text)
    assert result.exit_code != 0
    assert "not signed by a key given with --key" in result.stderr


def test_a_key_that_a_given_one_endorsed_counts(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(place, "r-1")
    ring = Keyring(OTHER, (KEY,))
    for keyring in (Keyring(KEY), ring):
        with Ledger.open(str(place), origin=KEY.name, keyring=keyring, clock=FixedClock()) as ledger:
            enter_key(ledger, keyring, FixedClock())
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEY", OTHER.text)
    result = run("prove", "r-1", "--key", KEY.verifier.text, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["signed_by"] == [OTHER.verifier.text]


def test_a_witness_that_is_named_must_have_cosigned(run: Run, place: Path) -> None:
    add(place, "r-1")
    assert run("head").exit_code == 0
    refused = run("prove", "r-1", "--witness", WITNESS_KEY)
    assert refused.exit_code != 0 and "is not cosigned by witness.example/w1" in refused.stderr
    cosigned(place)
    result = run("prove", "r-1", "--witness", WITNESS_KEY)
    assert result.exit_code == 0, result.stderr
    assert "No witness cosigned" not in result.stderr


def test_a_cosignature_that_nobody_checked_counts_for_nothing(run: Run, place: Path) -> None:
    add(place, "r-1")
    assert run("head").exit_code == 0
    cosigned(place)
    assert "No witness cosigned" in run("prove", "r-1").stderr
