"""`context-engine eval tune --blend` in a bank of one domain: learnt, written, explained, undone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.core.models import BlendTerm, LearntBlend
from context_engine.evaluation.learning import blend_tune
from context_engine.evaluation.learning.blend_tune import BlendTrial
from context_engine.learning.parts import QuestionParts

BLEND = LearntBlend(measured_by="bm25", terms={"length": BlendTerm(weight=2.0, mean=2.0, deviation=0.5)})
MANIFEST = Path("manifests", "desk.yaml")
TEXTS = {
    "L-1.md": "# Limits\n\nThe limit of the desk is ten.\n",
    "L-2.md": "# Night\n\nAt night, when nobody else is there to sign, the limit of the desk is half of that.\n",
}
GIVEN = ("--queries", "q.tsv", "--qrels", "r.tsv", "--data-dir", "d")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blend")
    (folder / "manifests").mkdir()
    (folder / MANIFEST).write_text(
        "version: 1  # Harbour Bank\ndomain: DESK\nsources:\n  - id: sops\n    type: bank_sop\n", "utf-8"
    )
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / name).write_text(text, "utf-8")
    (folder / "q.tsv").write_text("a\tdesk limit\nb\tlimit\n", "utf-8")
    (folder / "r.tsv").write_text("a\tL-1\t1\nb\tL-1\t1\n", "utf-8")
    return folder


@pytest.fixture(autouse=True)
def there(bank: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "CONTEXT_ENGINE_DATA_DIR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(bank))
    monkeypatch.chdir(bank)
    if not Path("d").exists():
        result = CliRunner().invoke(main, ["ingest", "texts", "-d", "DESK", "--source", "sops", "--data-dir", "d"])
        assert result.exit_code == 0, result.output
    yield
    MANIFEST.write_text(MANIFEST.read_text("utf-8").partition("settings:")[0], "utf-8")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def tune(*args: str) -> Result:
    return run("eval", "tune", "--blend", "--folds", "2", *GIVEN, *args)


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is learnt of forty questions, which gain .1 or nothing."""

    def learnt(gain: float) -> None:
        before = {f"q{number}": {"nDCG@10": 0.5, "R@10": 0.5} for number in range(40)}
        after = {name: {"nDCG@10": 0.5 + gain, "R@10": 0.5} for name in before}
        row = {"before": 0.5, "after": 0.5 + gain, "difference": [gain, gain, gain]}
        blend = BLEND.model_copy(update={"evidence": {"held_out": {"nDCG@10": row}}})
        made = BlendTrial(
            domain="DESK",
            blend=blend,
            measures=("nDCG@10", "R@10"),
            before=before,
            after=after,
            taught=40,
            parts=QuestionParts([[0]], 1, 1),
        )
        monkeypatch.setattr(blend_tune, "learn_blend", lambda *_args, **_options: made)

    return learnt


def test_too_few_questions_teach_nothing() -> None:
    result = tune()
    assert result.exit_code == 2
    assert "a blend needs at least 50" in " ".join(result.stderr.split())


def test_what_cannot_go_together_is_refused() -> None:
    assert "give one of them" in tune("--grid", "min_chunks=1").stderr
    Path("other.yaml").write_text("domain: ORM\n", "utf-8")
    result = tune("--write", "other.yaml")
    assert result.exit_code == 2
    assert "other.yaml: is not the manifest of DESK" in " ".join(result.stderr.split())
    assert "Asking" not in result.stderr


def test_it_is_written_into_the_manifest_used_explained_and_undone(trial: Any) -> None:
    trial(0.1)
    as_written = MANIFEST.read_text("utf-8")
    plain = json.loads(run("search", "desk limit", "-d", "DESK", "--data-dir", "d", "--json").stdout)
    result = tune("--write", str(MANIFEST), "--html", "blend.html")
    assert result.exit_code == 0, result.output
    told = result.stdout.splitlines()[-2:]
    assert told[0] == "learnt from 40 of 40 judged questions of DESK"
    assert told[1] == "better beyond noise on held-out questions"
    assert MANIFEST.read_text("utf-8").startswith(as_written)
    assert "Learnt on 40 of 40" in Path("blend.html").read_text("utf-8")
    shown = run("search", "desk limit", "-d", "DESK", "--data-dir", "d", "--explain").stdout
    assert "Learnt blend" in shown, shown
    assert "length +" in shown
    (changed,) = (line for line in shown.splitlines() if line.strip().startswith("learnt_blend"))
    assert re.search(r"blend [0-9a-f]{12}, \d+ terms? ", changed) and "weight" not in changed, changed
    blended = json.loads(run("search", "desk limit", "-d", "DESK", "--data-dir", "d", "--json").stdout)
    texts = [[chunk["content"] for chunk in found["chunks"]] for found in (plain, blended)]
    assert len(texts[0]) == 2
    assert texts[1] == sorted(texts[0], key=len, reverse=True)
    off = run("eval", "run", *GIVEN, "--set", "learnt_blend=null", "--baseline", "default", "--json")
    assert off.exit_code == 0, off.output


@pytest.mark.parametrize("forced", [False, True])
def test_what_is_not_better_is_not_written_unless_forced(trial: Any, forced: bool) -> None:
    trial(0.0)
    before = MANIFEST.read_text("utf-8")
    result = tune("--write", str(MANIFEST), *(["--force"] if forced else []), "--json")
    assert result.exit_code == (0 if forced else 1)
    assert json.loads(result.stdout)["refusal"].startswith("on held-out questions it is not better")
    assert (MANIFEST.read_text("utf-8") == before) is not forced
