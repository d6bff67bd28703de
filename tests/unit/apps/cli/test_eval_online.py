"""`eval online`: the comparison of the arms in words and as JSON, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.service.judgements import ANSWERS

Run = Callable[..., Result]
MANIFEST = "version: 1\ndomain: NPA\nsources: [{id: sops, type: bank_sop, documents: [{include: '*.md'}]}]\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("config", "manifests", "data/judgements"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "manifests/npa.yaml").write_text(MANIFEST)
    experiments = {"deep": {"domain": "NPA", "b": {"stage2_top_k": 3}, "most_pairs": 100}}
    (tmp_path / "config/rag-pipeline.json").write_text(json.dumps({"quality": {"experiments": experiments}}))
    monkeypatch.chdir(tmp_path)

    def call(votes: list[tuple[str, str, int]], *arguments: str) -> Result:
        rows = [{"experiment": f"deep/{arm}", "by": by, "grade": grade} for arm, by, grade in votes]
        (tmp_path / "data" / ANSWERS).write_text("".join(json.dumps(row) + "\n" for row in rows))
        where = ("--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data"))
        return CliRunner().invoke(main, ["eval", "online", *arguments, *where])

    return call


def votes(pairs: int, up_a: int, up_b: int) -> list[tuple[str, str, int]]:
    return [(arm, f"{arm}{n}", up) for n in range(pairs) for arm, up in (("a", up_a), ("b", up_b))]


def test_a_better_arm_is_named_with_the_pair_that_decided(run: Run) -> None:
    done = run(votes(30, 0, 2), "deep")
    assert done.exit_code == 0, done.output
    assert "b is better" in done.stdout


def test_before_that_it_says_how_many_more(run: Run) -> None:
    done = run(votes(4, 0, 2), "deep")
    assert done.exit_code == 3, done.output
    assert "not yet" in done.stdout and "more pairs" in done.stdout


def test_the_json_form(run: Run) -> None:
    told = json.loads(run(votes(4, 2, 2), "deep", "--json").stdout)
    assert (told["decision"], told["pairs"], told["a"]["up"], told["b"]["share"]) == ("not_yet", 4, 4, 1.0)


def test_an_unknown_experiment_is_refused_with_the_nearest(run: Run) -> None:
    done = run([], "deeep")
    assert done.exit_code == 2
    assert "deep" in done.output
