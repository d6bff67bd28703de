"""`audit sample`: a signed binder, the same for the same seed, checked without the program."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.apps.cli.audit.cases import bounds
from context_engine.audit.formats.checkpoint import parse_note, verify_note
from context_engine.audit.formats.keys import SigningKey
from tests.e2e.browser import PHONE, accessibility_problems, file_pages

QUESTIONS = ("Who approves travel?", "How are expenses claimed?", "What is the weather on Mars?", "hotel rates")


class RecordedBank:
    """A bank whose searches are recorded and signed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder / "bank", SigningKey.generate("audit.bank.example/retrieval")
        self.run("init", str(self.folder))
        self.run("ingest", str(self.folder / "documents"))
        for question in QUESTIONS:
            self.run("search", question, codes=(0, 4))

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Result:
        places = ["--config-dir", str(self.folder), "--data-dir", str(self.folder / "d")]
        env = {"CONTEXT_ENGINE_AUDIT_MODE": "required", "CONTEXT_ENGINE_AUDIT_KEY": self.key.text}
        result = CliRunner().invoke(main, [*arguments, *([] if arguments[0] == "init" else places)], env=env)
        assert result.exit_code in codes, result.output
        return result

    def sample(self, out: Path, seed: str = "84417", codes: tuple[int, ...] = (0,)) -> str:
        options = ("--period", f"{datetime.now(UTC):%Y}", "--size", "3", "--seed", seed, "--strata", "decision,tier")
        return self.run("audit", "sample", *options, "--out", str(out), codes=codes).output


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> RecordedBank:
    return RecordedBank(tmp_path_factory.mktemp("sample"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_binder_is_signed_whole_and_the_same_for_the_same_seed(bank: RecordedBank, tmp_path: Path) -> None:
    bank.sample(tmp_path / "one")
    bank.sample(tmp_path / "two")
    binder = contents(tmp_path / "one")
    assert binder == contents(tmp_path / "two")
    manifest = parse_note(binder.pop("MANIFEST").decode())
    assert verify_note(manifest, [bank.key.verifier])
    listed = dict(reversed(line.split("  ")) for line in manifest.text.splitlines()[1:])
    assert listed == {name: hashlib.sha256(content).hexdigest() for name, content in binder.items()}
    cases = [name for name in binder if name.startswith("cases/")]
    assert len(cases) == 3
    index = binder["index.html"].decode()
    assert index.count("identical") == 3 and all(name in index for name in cases)
    assert not re.search(r"<script|https?://(?!www\.w3)", index)


@pytest.mark.slow
def test_a_copied_binder_is_checked_offline_and_without_this_program(bank: RecordedBank, tmp_path: Path) -> None:
    bank.sample(tmp_path / "binder")
    copy = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "binder", copy)
    without = (
        "import runpy, socket, sys; sys.modules['context_engine'] = socket.socket = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )

    def checked(name: str) -> int:
        command = [sys.executable, "-I", "-c", without, "check_proof.py", name, "--key", bank.key.verifier.text]
        return subprocess.run(command, capture_output=True, check=False, cwd=copy).returncode

    assert checked("MANIFEST") == 0
    for proof in (copy / "proofs").iterdir():
        assert checked(f"proofs/{proof.name}") == 0
        whole = proof.read_text("utf-8")
        entry = max(whole.split(), key=len)  # in base64
        proof.write_text(whole.replace(entry, entry[:40] + ("A" if entry[40] != "A" else "B") + entry[41:]), "utf-8")
        assert checked(f"proofs/{proof.name}") == 1
    assert checked("MANIFEST") == 1


@pytest.mark.slow
@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": PHONE}], ids=["light", "dark", "phone"])
def test_axe_finds_nothing_on_cover_and_cases(bank: RecordedBank, tmp_path: Path, look: dict[str, object]) -> None:
    bank.sample(tmp_path / "binder")
    files = [tmp_path / "binder/index.html", *sorted((tmp_path / "binder/cases").iterdir())]
    for page in file_pages(files, bypass_csp=True, **look):
        page.evaluate("document.querySelectorAll('main details').forEach(details => { details.open = true; })")
        assert accessibility_problems(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page.url} scrolls sideways"


@pytest.mark.slow
def test_what_cannot_be_drawn_is_told(bank: RecordedBank, tmp_path: Path) -> None:
    bank.sample(tmp_path / "binder")
    assert "is not empty" in bank.sample(tmp_path / "binder", codes=(2,))
    nothing = ("audit", "sample", "--seed", "1", "--out", str(tmp_path / "none"))
    assert "no search of 1999" in bank.run(*nothing, "--period", "1999", codes=(2,)).output
    assert "--strata takes" in bank.run(*nothing, "--period", "1999", "--strata", "colour", codes=(2,)).output
    assert "--period takes" in bank.run(*nothing, "--period", "summer", codes=(2,)).output


def test_a_period_is_a_year_a_quarter_or_a_month() -> None:
    def day(year: int, month: int) -> datetime:
        return datetime(year, month, 1, tzinfo=UTC)

    assert bounds("2026") == (day(2026, 1), day(2027, 1))
    assert bounds("2026-Q3") == (day(2026, 7), day(2026, 10))
    assert bounds("2026-Q4") == (day(2026, 10), day(2027, 1))
    assert bounds("2026-12") == (day(2026, 12), day(2027, 1))
