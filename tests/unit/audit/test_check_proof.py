"""The stand-alone verifier: what it proves, what it refuses, and that it needs nothing of the package."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from context_engine.audit import check_proof
from context_engine.audit.formats.checkpoint import Checkpoint, cosign, parse_note, sign_note
from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.merkle import leaf_hash, root
from context_engine.audit.formats.tiles import TileTree, append_leaves
from context_engine.audit.ledger.prove import ConsistencyProof, InclusionProof

KEY = SigningKey("audit.bank.example/log", bytes(range(32)))
OTHER = SigningKey(KEY.name, bytes(32))
WITNESS = SigningKey("witness.example/w1", bytes(range(1, 33)))
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE).text
ENTRIES = [f'{{"v":1,"id":"s{number}"}}'.encode() for number in range(600)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
TILES = append_leaves(lambda *_: b"", 0, LEAVES)

Run = Callable[..., tuple[int, str]]


def tree(size: int) -> TileTree:
    return TileTree(lambda level, index, width: TILES[level, index][: width * 32], size)


def checkpoint(size: int, *keys: SigningKey) -> str:
    return Checkpoint(KEY.name, size, root(LEAVES[:size])).signed(*keys)


def inclusion(index: int, size: int, *keys: SigningKey) -> InclusionProof:
    return InclusionProof(ENTRIES[index], index, tree(size).inclusion_proof(index), checkpoint(size, *(keys or (KEY,))))


def growth(old: int, size: int) -> str:
    return ConsistencyProof(old, tree(size).consistency_proof(old), checkpoint(size, KEY)).text


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return what runs the verifier over a file's content, with what else is given; a text behind --since is a file."""

    def call(content: str | bytes, *arguments: str, since: str | None = None) -> tuple[int, str]:
        file, older = tmp_path / "record.tlog-proof", tmp_path / "older"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        if since is not None:
            older.write_bytes(since.encode())
            arguments = ("--since", str(older), *arguments)
        monkeypatch.setattr(sys, "argv", ["check_proof.py", str(file), *arguments])
        code = check_proof.main()
        return code, capsysbinary.readouterr().out.decode()

    return call


def test_a_record_is_proved_and_shown(run: Run) -> None:
    assert run(inclusion(5, 600).text, "--key", KEY.verifier.text) == (
        0,
        (
            '{"v":1,"id":"s5"}\n'
            "This record is at index 5 of the log audit.bank.example/log, which had 600 entries.\n"
            f"The checkpoint was signed by audit.bank.example/log+{KEY.key_id}.\n"
        ),
    )


@pytest.mark.parametrize(("index", "size"), [(0, 1), (0, 2), (1, 2), (6, 7), (255, 256), (256, 257), (511, 600)])
def test_records_at_every_border_are_proved(run: Run, index: int, size: int) -> None:
    assert run(inclusion(index, size).text, "--key", KEY.verifier.text)[0] == 0


def test_without_a_key_it_says_what_is_not_proved(run: Run) -> None:
    code, said = run(inclusion(5, 600).text)
    assert code == 1
    assert said.endswith("NOT PROVED: who says so. Without --key anybody can have made this file.\n")


def test_a_checkpoint_that_the_key_did_not_sign_is_refused(run: Run) -> None:
    good = inclusion(5, 600)
    for bad in (good, replace(good, note=checkpoint(600))):
        code, said = run(bad.text, "--key", OTHER.verifier.text)
        assert code == 1 and "has 0 signatures by" in said


def test_a_forged_signature_is_refused(run: Run) -> None:
    forged = Checkpoint(KEY.name, 5, root(LEAVES[:5]))
    note = parse_note(forged.signed(OTHER))
    line = note.signatures[0]._replace(key_id=KEY.verifier.id_bytes)
    bad = replace(inclusion(3, 5), note=str(note._replace(signatures=(line,))))
    assert run(bad.text, "--key", KEY.verifier.text) == (
        1,
        "NOT PROVED: the signature by audit.bank.example/log does not fit the checkpoint.\n",
    )


def test_every_witness_named_must_have_cosigned(run: Run) -> None:
    good = inclusion(5, 600)
    assert run(good.text, "--key", KEY.verifier.text, "--witness", WITNESS_KEY)[0] == 1
    seen = replace(good, note=str(cosign(parse_note(good.note), WITNESS, 1_700_000_000)))
    code, said = run(seen.text, "--key", KEY.verifier.text, "--witness", WITNESS_KEY)
    assert code == 0
    assert f"signed by {WITNESS.name}+{WITNESS_KEY.split('+')[1]} at 2023-11-14T22:13:20Z." in said


def test_a_record_that_stands_elsewhere_is_refused(run: Run) -> None:
    good = inclusion(5, 600)
    for bad in (replace(good, index=4), replace(good, entry=ENTRIES[4]), replace(good, index=600)):
        code, said = run(bad.text, "--key", KEY.verifier.text)
        assert code == 1 and said.startswith("NOT PROVED: ")
    assert run(replace(good, path=good.path[:-1]).text)[1] == "NOT PROVED: the proof is too short or too long.\n"


STEPS = (11, pytest.param(1, marks=pytest.mark.slow))


@pytest.mark.parametrize("step", STEPS)
def test_any_byte_that_is_changed_is_found_out(run: Run, step: int) -> None:
    good = inclusion(5, 9)
    text = replace(good, note=str(cosign(parse_note(good.note), WITNESS, 1_700_000_000))).text.encode()
    keys = ("--key", KEY.verifier.text, "--witness", WITNESS_KEY)
    assert run(text, *keys)[0] == 0
    for place in range(0, len(text), step):
        changed = bytearray(text)
        changed[place] ^= 1 << place % 8
        assert run(bytes(changed), *keys)[0] == 1, (place, bytes(changed))


@pytest.mark.parametrize("step", STEPS)
def test_a_file_that_was_cut_or_made_longer_is_found_out(run: Run, step: int) -> None:
    text = inclusion(5, 9).text.encode()
    for changed in (*(text[:end] for end in range(0, len(text), step)), text + b"\n", text + b"x", b"\n" + text):
        assert run(changed, "--key", KEY.verifier.text)[0] == 1


def test_what_an_entry_says_cannot_steer_a_terminal(run: Run) -> None:
    steering = '{"id":"\x9b2J\u202e"}'.encode()
    note = Checkpoint(KEY.name, 1, leaf_hash(steering)).signed(KEY)
    code, said = run(InclusionProof(steering, 0, (), note).text, "--key", KEY.verifier.text)
    assert code == 0
    assert said.startswith('{"id":"\\x9b2J\\u202e"}\n')


@pytest.mark.parametrize(("old", "size"), [(0, 9), (1, 9), (4, 9), (5, 9), (6, 7), (255, 600), (256, 600), (600, 600)])
def test_growth_is_proved(run: Run, old: int, size: int) -> None:
    code, said = run(growth(old, size), "--key", KEY.verifier.text, since=checkpoint(old, OTHER))
    assert (code, said.splitlines()[0]) == (
        0,
        (
            f"The log audit.bank.example/log has {size} entries and begins with the {old} that it had at the older "
            "checkpoint."
        ),
    )


@pytest.mark.parametrize("old", [0, 1, 4, 5, 8])
def test_a_log_that_was_rewritten_or_cut_is_found_out(run: Run, old: int) -> None:
    other = Checkpoint(KEY.name, old, root(LEAVES[1 : old + 1]) if old else LEAVES[0]).text
    assert run(growth(old, 9), "--key", KEY.verifier.text, since=other)[0] == 1
    assert run(growth(old, 9))[1] == "NOT PROVED: this is a proof of growth: give the older checkpoint (--since).\n"
    longer = checkpoint(old + 1)
    code, said = run(growth(old, 9), since=longer)
    assert (code, said) == (1, "NOT PROVED: the proof is not about these two checkpoints.\n")


@pytest.mark.parametrize("step", STEPS)
def test_any_byte_of_a_proof_of_growth_that_is_changed_is_found_out(run: Run, step: int) -> None:
    text = growth(5, 9).encode()
    for place in range(0, len(text), step):
        changed = bytearray(text)
        changed[place] ^= 1 << place % 8
        assert run(bytes(changed), "--key", KEY.verifier.text, since=checkpoint(5))[0] == 1


def test_one_proof_is_not_taken_for_the_other(run: Run) -> None:
    assert run(growth(5, 9))[0] == 1
    assert run(inclusion(5, 9).text, since=checkpoint(5))[0] == 1


@pytest.mark.parametrize(
    "arguments", [(), ("nowhere.tlog-proof",), (__file__, "--key", KEY.verifier.text.replace("bank", "Bank"))]
)
def test_a_wrong_call_is_told_apart(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["check_proof.py", *arguments])
    with pytest.raises(SystemExit) as caught:
        check_proof.main()
    assert caught.value.code == 2


def test_a_key_that_was_not_copied_whole_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["check_proof.py", __file__, "--key", KEY.verifier.text[:-3]])
    with pytest.raises(SystemExit):
        check_proof.main()
    assert "is not a verifier key, or was truncated" in capsys.readouterr().err


@pytest.fixture
def binder(tmp_path: Path) -> Path:
    """Return a signed binder of two files."""
    files = {"index.html": b"<p>cover", "cases/a.html": b"<p>case"}
    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    for name, content in {**files, "MANIFEST": str(sign_note(f"{check_proof.BINDER}\n{lines}", KEY)).encode()}.items():
        (tmp_path / "binder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "binder" / name).write_bytes(content)
    return tmp_path / "binder"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "index.html",
            b"<p>cover",
            "The 2 files are those that the manifest lists, and no other is here.",
        ),
        ("index.html", b"<p>another", "NOT PROVED: index.html has changed."),
        ("cases/a.html", None, "NOT PROVED: cases/a.html is missing."),
        ("cases/b.html", b"", "NOT PROVED: cases/b.html does not belong to the binder."),
        ("MANIFEST", b"context-engine audit sample\n", "NOT PROVED: cases/a.html, index.html does not belong"),
    ],
)
def test_a_binder_is_as_it_was_made(
    binder: Path,
    name: str,
    content: bytes | None,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    if content is None:
        (binder / name).unlink()
    else:
        (binder / name).write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["check_proof.py", str(binder / "MANIFEST"), "--key", KEY.verifier.text])
    code = check_proof.main()
    said = capsysbinary.readouterr().out.decode()
    assert said.startswith(told) and code == int("NOT" in told)


def test_a_binder_signed_by_another_is_not_proved(
    binder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for arguments, code, told in (
        (["--key", OTHER.verifier.text], 1, "NOT PROVED: the manifest has 0 signatures by"),
        ([], 1, "NOT PROVED: who says so"),
    ):
        monkeypatch.setattr(sys, "argv", ["check_proof.py", str(binder / "MANIFEST"), *arguments])
        assert check_proof.main() == code
        assert told in capsysbinary.readouterr().out.decode()


def test_it_imports_the_standard_library_and_cryptography_alone() -> None:
    tree = ast.parse(Path(check_proof.__file__).read_text("utf-8"))
    names = {one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    names |= {alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names}
    roots = {(name or "").partition(".")[0] for name in names}
    assert roots - sys.stdlib_module_names == {"cryptography"}


@pytest.mark.slow
def test_a_copy_runs_where_the_package_is_not(tmp_path: Path) -> None:
    copy, proof = tmp_path / "check_proof.py", tmp_path / "record.tlog-proof"
    copy.write_bytes(Path(check_proof.__file__).read_bytes())
    proof.write_text(inclusion(5, 600).text, "utf-8")
    without = (
        "import runpy, sys; sys.modules['context_engine'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", without, str(copy), str(proof), "--key", KEY.verifier.text]
    ran = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith(b'{"v":1,"id":"s5"}\nThis record is at index 5')
    ran = subprocess.run([*command[:-1], OTHER.verifier.text], capture_output=True, check=False, timeout=60)
    assert ran.returncode == 1
