"""`context-engine eval` as its user has it: on the demo bank, in-process."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from context_engine import demo
from context_engine.apps.cli import main

SIX = ("--queries", "six.jsonl", "--as-of", "2026-03-02")


@pytest.fixture(scope="module")
def home(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("eval-home")
    shutil.copytree(demo_data, home / "data")
    return home


@pytest.fixture(autouse=True)
def empty_folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No configuration of one's own; the demo's base is built once."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(home / "data"))
    monkeypatch.chdir(tmp_path)
    lines = demo.QUESTIONS.read_text("utf-8").splitlines(keepends=True)
    Path("six.jsonl").write_text("".join(lines[4:34:6] + lines[40:41]), "utf-8")
    yield tmp_path


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["eval", *args], input=stdin)


def ok(*args: str, stdin: str | None = None) -> str:
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: str, stdin: str | None = None) -> str:
    result = run(*args, stdin=stdin)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def found(*args: str) -> Any:
    return json.loads(ok(*args, "--json"))


@pytest.mark.slow
def test_without_arguments_the_demo_is_evaluated_and_reported() -> None:
    shown = ok("run", "--report", "r/report.md", "--html", "r/report.html")
    assert "40 judged questions" in shown
    assert "nDCG@10" in shown
    markdown, page = (Path("r", name).read_text("utf-8") for name in ("report.md", "report.html"))
    for title in (
        "Measures",
        "Where gold answers are lost",
        "By domain",
        "Authority",
        "Context tokens",
        "Worst questions",
    ):
        assert f"## {title}" in markdown
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") >= 7
    assert "src=" not in page.replace("default-src", "")
    assert "href=" not in page


@pytest.mark.slow
def test_a_run_in_json_beside_a_baseline_of_settings() -> None:
    out = found("run", *SIX, "--set", "authority_weight=0.2", "--baseline", "default", "-m", "R@8", "-k", "5")
    assert out["schema_version"] == "1.0"
    assert out["demo"] is True
    assert (out["questions"], out["judged"], out["top_k"]) == (6, 5, 5)
    difference = out["difference"]["R@8"]
    assert difference["mean"] == pytest.approx(
        out["measures"]["R@8"]["mean"] - out["baseline"]["measures"]["R@8"]["mean"]
    )
    assert difference["wins"] + difference["losses"] + difference["ties"] == 5
    assert len(out["per_question"]) == 5


@pytest.mark.slow
def test_a_saved_run_is_compared_with_another() -> None:
    ok("run", *SIX, "--save-run", "a.run")
    ok("run", *SIX, "--set", "stage1_top_k=1", "--save-run", "b.run")
    same = found("run", *SIX, "--baseline", "a.run")
    assert {one["mean"] for one in same["difference"].values()} == {0.0}
    out = found("compare", *SIX, "b.run", "a.run", "--report", "ab.md")
    assert out["difference"]["R@10"]["mean"] < 0
    assert "## Lost most" in Path("ab.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "--set", "authority_wight=1"], "unknown setting 'authority_wight'. Did you mean 'authority_weight'?"),
        (["run", "-m", "Goodness@9"], "unknown measure 'Goodness@9'"),
        (
            ["run", "--baseline", "nowhere.run"],
            "--baseline takes a run file, KEY=VALUE or 'default', got 'nowhere.run'",
        ),
        (["run", "--qrels", "none.tsv", "--queries", "none.tsv"], "none.tsv: cannot be read"),
        (["run", "--by", "colour"], "no question has a field 'colour' to group by"),
        (["compare", "x.run", "y.run"], "x.run: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_one_line(args: list[str], said: str) -> None:
    assert said in refused(*args)


def test_a_reranker_that_cannot_be_used_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.evaluation.tune.ask", lambda *_, **__: pytest.fail("it was asked"))
    assert "needs an embedder" in refused("tune", *SIX, "--grid", "reranker=max_sim")


def test_a_broken_line_and_an_unknown_gold_id_are_named() -> None:
    Path("q.tsv").write_text("a\tmaterial change\n", "utf-8")
    Path("r.tsv").write_text("a\tNPA-SOP-001\t1\na\tNPA-SOP-001\n", "utf-8")
    given = ("--queries", "q.tsv", "--qrels", "r.tsv", "-d", "NPA")
    assert "r.tsv: line 2: has 2 columns" in refused("run", *given)
    Path("r.tsv").write_text("a\tNPA-SOP-999\t1\n", "utf-8")
    assert "r.tsv: 1 gold id(s) name no chunk of the base: NPA-SOP-999" in refused("run", *given)


def test_with_a_configuration_of_ones_own_there_is_nothing_to_evaluate_by_itself(tmp_path: Path) -> None:
    manifest = tmp_path / "manifests" / "orm.yaml"
    manifest.parent.mkdir()
    manifest.write_text("version: 1\ndomain: ORM\nsources: [{id: sops, type: bank_sop}]\n", "utf-8")
    assert "give --queries FILE and --qrels FILE, or judge some results" in refused("run")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ir_measures", None)
    assert "pip install 'dify-context-engine[eval]'" in refused("run")


# -- judge, tune, scope -----------------------------------------------------------------------------------------------


def test_a_person_judges_and_evaluates_with_it() -> None:
    ask = ("judge", "notional threshold for a material change", "-d", "NPA", "--qrels", "mine.jsonl", "-k", "5")
    first = run(*ask, "--by", "ana", stdin="2\nx\n0\ns\nq\n")
    assert first.exit_code == 0, first.output
    assert "'x' is not one of 0, 1, 2, s, q" in first.stderr
    assert "2 judgements written to mine.jsonl: 1 answer, 0 help, 1 do not" in " ".join(first.stderr.split())
    rows = [json.loads(line) for line in Path("mine.jsonl").read_text("utf-8").splitlines()]
    assert [(row["grade"], row["by"]) for row in rows] == [(2, "ana"), (0, "ana")]
    again = run(*ask, stdin="1\n")
    assert "3 chunks to judge, 2 judged" in " ".join(again.stderr.split())
    assert len(Path("mine.jsonl").read_text("utf-8").splitlines()) == 3
    out = found("run", "--qrels", "mine.jsonl")
    assert (out["questions"], out["judged"], out["gold_answers"]["total"]) == (1, 1, 2)
    assert out["measures"]["RR@10"]["mean"] == 1.0


@pytest.mark.slow
def test_the_judgements_of_readers_are_evaluated(home: Path) -> None:
    assert "nobody has judged a passage" in refused("run", "--judgements")
    path = next((home / "data").glob("demo-*")) / "judgements" / "passages.jsonl"
    row = {"query_id": "q-1", "query": "NPA classification criteria", "domain": "NPA", "chunk_id": "NPA-SOP-001@3.2#4"}
    path.parent.mkdir()
    path.write_text(json.dumps({**row, "grade": 2, "search_id": "s-1"}) + "\n", "utf-8")

    assert "1 judged question" in ok("run", "--judgements", "--as-of", "2026-03-02")
    assert "give one of the two" in refused("run", "--judgements", "--qrels", str(path))
    path.unlink()


def test_judgements_go_into_json_lines_alone() -> None:
    assert "ends in .jsonl" in refused("judge", "limits", "-d", "NPA", "--qrels", "mine.tsv", stdin="1\n")


def test_a_file_that_judgements_cannot_go_into_is_refused_before_anything_is_asked() -> None:
    for name, said in (("mine.json", "ends in .jsonl"), ("six.jsonl/x.jsonl", "cannot be written")):
        result = run("judge", "limits", "-d", "NPA", "--qrels", name, stdin="1\n")
        assert result.exit_code == 2
        assert said in result.stderr
        assert "to judge" not in result.stderr


def test_what_a_search_does_not_return_cannot_be_judged_and_that_is_said() -> None:
    result = run("judge", "zzxq wvvk", "-d", "NPA", "--qrels", "mine.jsonl")
    assert "The search returned nothing (" in result.stderr


def test_no_output_is_written_over_an_input_or_another_output() -> None:
    before = Path("six.jsonl").read_text("utf-8")
    for args in (
        ("run", *SIX, "--report", "./six.jsonl"),
        ("run", *SIX, "--report", "a.md", "--html", "a.md"),
        ("tune", *SIX, "--grid", "min_chunks=1", "--html", "six.jsonl"),
        ("scope", "--in", "six.jsonl", "--html", "six.jsonl"),
        ("compare", *SIX, "a.run", "b.run", "--html", "b.run"),
    ):
        assert "this file is named twice" in refused(*args)
    assert Path("six.jsonl").read_text("utf-8") == before
    assert not Path("a.md").exists()


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_asked() -> None:
    for args in (("run", *SIX, "--html", "six.jsonl/r.html"), ("run", *SIX, "--save-run", "six.jsonl/a.run")):
        message = refused(*args)
        assert "cannot be written" in message
        assert "Asking" not in message
    Path("config.json").write_text("hello", "utf-8")
    message = refused("tune", *SIX, "--grid", "min_chunks=1", "--folds", "2", "--write", "config.json")
    assert "config.json: cannot be added to" in message
    assert "Searching" not in message


@pytest.mark.slow
def test_thresholds_that_differ_between_domains_are_said(empty_folder: Path) -> None:
    manifests = empty_folder / "manifests"
    manifests.mkdir()
    for name, value in (("A", 0.2), ("B", 0.4)):
        text = f"version: 1\ndomain: {name}\nsettings: {{scope_threshold: {value}}}\n"
        text += f"sources: [{{id: s{name}, type: bank_sop, documents: [{{include: '{name}.md'}}]}}]\n"
        (manifests / f"{name}.yaml").write_text(text, "utf-8")
        (empty_folder / f"{name}.md").write_text("# Limits\n\nThe limit of the desk is ten.\n", "utf-8")
        assert CliRunner().invoke(main, ["ingest", f"{name}.md", "-d", name, "--data-dir", "d"]).exit_code == 0
    Path("in.jsonl").write_text(
        '{"id": "a", "text": "limit", "domain": "A"}\n{"id": "b", "text": "limit", "domain": "B"}\n', "utf-8"
    )
    result = run("scope", "--in", "in.jsonl", "--data-dir", "d")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert "domains have different thresholds in force (A 0.20, B 0.40): that of A is shown" in said


def test_a_source_that_is_down_is_said_and_nothing_is_written(empty_folder: Path) -> None:
    """The source was declared and nothing was ever ingested for it."""
    (empty_folder / "manifests").mkdir()
    rules = "documents: [{include: '*.md'}]"
    (empty_folder / "manifests" / "a.yaml").write_text(
        f"version: 1\ndomain: A\nsources: [{{id: here, type: bank_sop, {rules}}}, {{id: gone, type: bank_sop}}]\n",
        "utf-8",
    )
    (empty_folder / "L-1.md").write_text("# Limits\n\nThe limit of the desk is ten.\n", "utf-8")
    assert CliRunner().invoke(main, ["ingest", "L-1.md", "-d", "A", "--data-dir", "d"]).exit_code == 0
    Path("q.tsv").write_text("a\tdesk limit\nb\tlimit\n", "utf-8")
    Path("r.tsv").write_text("a\tL-1\t1\nb\tL-1\t1\n", "utf-8")
    given = ("--queries", "q.tsv", "--qrels", "r.tsv", "--data-dir", "d")
    result = run("run", *given, "--report", "r.md")
    assert result.exit_code == 3, result.output
    said = "as configured: gone failed in 2 search(es)"
    assert said in result.stdout
    assert said in Path("r.md").read_text("utf-8")
    result = run("tune", *given, "--grid", "dedup_method=off", "--folds", "2", "--write", "c.json")
    assert result.exit_code == 1
    assert "gone failed in 2 search(es)" in result.stdout
    assert not Path("c.json").exists()


@pytest.mark.slow
def test_settings_that_are_not_better_are_not_written_unless_forced() -> None:
    args = ("tune", *SIX, "--grid", "stage1_top_k=1", "--folds", "2", "--write", "config.json")
    result = run(*args)
    assert result.exit_code == 1
    assert "nothing is written: on held-out questions the result is not better" in " ".join(result.stderr.split())
    assert not Path("config.json").exists()
    assert "better beyond noise" in ok(*args, "--force", "--html", "tune.html")
    assert json.loads(Path("config.json").read_text("utf-8"))["// tuned"].startswith("nDCG@10 on 5 questions")
    assert json.loads(Path("config.evidence.json").read_text("utf-8"))["better_beyond_noise"] is False


@pytest.mark.slow
def test_a_grid_whose_values_hold_commas() -> None:
    grid = 'authority_boosts={"tier_1": 0.4, "tier_2": 0.3},{"tier_1": 0.9}'
    out = found("tune", *SIX, "--grid", grid, "--folds", "2")
    assert len(out["means_on_all_questions"]) == 3
    assert "--grid dedup_method is given twice" in refused(
        "tune", "--grid", "dedup_method=off", "--grid", "dedup_method=near"
    )


@pytest.mark.slow
def test_the_scope_threshold_and_its_trade_off() -> None:
    lines = [f"o{n}\tHow do I bake bread number {n}?" for n in range(5)]
    Path("out.tsv").write_text("\n".join(lines), "utf-8")
    shown = ok("scope", "--in", "six.jsonl", "--out", "out.tsv", "--html", "scope.html")
    assert "5 questions in scope, 5 out of scope" in shown
    assert "keeps 98%" in shown
    assert "How do I bake bread number" in Path("scope.html").read_text("utf-8")
    out = found("scope", "--in", "six.jsonl", "--out", "out.tsv", "--keep", "0.5")
    assert out["chosen"]["kept"] >= 0.5
    assert 0 <= out["separation"] <= 1


def test_every_command_of_the_tuning_guide_is_one() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs/guides/tuning.md").read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(r"^ *context-engine (eval .*)$", guide, flags=re.M)
    assert {line.split()[1] for line in commands} == {"gate", "run", "judge", "scope", "tune"}
    for line in commands:
        command, args = main, shlex.split(line, comments=True)
        while isinstance(command, click.Group):
            command = command.commands[args.pop(0)]
        command.make_context("eval", args)


# -- several collections, the gate ------------------------------------------------------------------------------------


@pytest.fixture
def two_collections(empty_folder: Path) -> Path:
    """Three questions of NPA and three of ORM, as two collections."""
    lines = demo.QUESTIONS.read_text("utf-8").splitlines(keepends=True)
    for name, held in (("npa", lines[4:7]), ("orm", lines[10:13])):
        (empty_folder / name).mkdir()
        (empty_folder / name / "queries.jsonl").write_text("".join(held), "utf-8")
    text = "collections:\n  npa: {queries: npa/queries.jsonl, as_of: 2026-03-02}\n"
    Path("c.yaml").write_text(text + "  orm: {queries: orm/queries.jsonl, as_of: 2026-03-02}\n", "utf-8")
    return Path("c.yaml")


@pytest.mark.slow
def test_several_collections_are_measured_in_one_run(two_collections: Path) -> None:
    args = ("run", "--collection", "npa=npa", "--collection", "orm=orm", "--as-of", "2026-03-02")
    shown = ok(*args, "--save-run", "runs", "-m", "nDCG@10", "--report", "two.md")
    assert re.search(r"npa +3 +0\.\d{4}\norm +3 +0\.\d{4}\nmean +6 +0\.\d{4}\n", shown)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["npa.run", "orm.run"]
    assert "## orm: Measures" in Path("two.md").read_text("utf-8")
    out = found("run", "--collections", "c.yaml", "--baseline", "runs", "-m", "nDCG@10")
    assert out["verdicts"] == {name: {"nDCG@10": "no difference"} for name in ("npa", "orm")}
    assert out["mean_of_collections"]["nDCG@10"]["difference"] == 0.0
    assert {name: one["judged"] for name, one in out["collections"].items()} == {"npa": 3, "orm": 3}


def test_what_cannot_be_used_of_several_collections_is_one_line(two_collections: Path) -> None:
    given = ("--collections", "c.yaml")
    assert "collection 'npa' is named twice" in refused("run", *given, "--collection", "npa=orm")
    assert "--queries and --qrels name one collection" in refused("run", *given, "--queries", "six.jsonl")
    assert "--baseline takes a folder of runs" in refused("run", *given, "--baseline", "six.jsonl")
    assert "orm.run: does not exist" in _without_orm()
    Path("orm/queries.jsonl").write_text('{"id": "a", "query": "limit", "domain": "NOWHERE"}\n', "utf-8")
    assert "collection 'orm': " in refused("run", *given)


def _without_orm() -> str:
    Path("runs").mkdir()
    Path("runs/npa.run").write_text("q05 Q0 a 1 1.0 x\n", "utf-8")
    return refused("run", "--collections", "c.yaml", "--baseline", "runs")


@pytest.mark.slow
def test_a_gate_passes_until_something_is_lost(two_collections: Path) -> None:
    gate = ("gate", "evals/gate.yaml")
    ok(*gate, "--write", "--collections", "c.yaml", "--floor", "R@10=0.5", "--strict")
    assert "queries: ../npa/queries.jsonl" in Path("evals/gate.yaml").read_text("utf-8")
    assert "✓ 4 checks passed on 6 judged questions" in ok(*gate, "--report", "gate.md")

    result = run(*gate, "--set", "relevance_weight=0", "--set", "authority_weight=1")
    assert result.exit_code == 1, result.output
    assert "lost against the baseline" in result.stdout
    assert "largest losses by nDCG@10" in result.stdout
    result = run(*gate, "--set", "stage1_top_k=1", "--json")
    assert result.exit_code == 1, result.output
    out = json.loads(result.stdout)
    assert (out["holds"], out["demo"]) == (False, True)
    assert {one["outcome"] for one in out["checks"]} <= {"holds", "lost", "below_floor"}

    Path("evals").rename("tests")
    ok("gate", "tests/gate.yaml")
    lines = Path("npa/queries.jsonl").read_text("utf-8").splitlines(keepends=True)
    Path("npa/queries.jsonl").write_text("".join(lines[:2]), "utf-8")
    message = refused("gate", "tests/gate.yaml")
    assert "since the baseline the questions and the judgements of collection 'npa' have changed" in message
    ok("gate", "tests/gate.yaml", "--write")
    assert "5 judged questions" in ok("gate", "tests/gate.yaml")


def test_what_a_gate_cannot_do_is_one_line(two_collections: Path) -> None:
    assert "gate.yaml: cannot be read" in refused("gate", "gate.yaml")
    assert "name what to measure" in refused("gate", "gate.yaml", "--write")
    make = ("gate", "gate.yaml", "--write", "--qrels", "six.jsonl")
    assert "--floor takes MEASURE=VALUE" in refused(*make, "--floor", "R@10=2")
    assert "--set tests a change" in refused(*make, "--set", "dedup_method=off")
    assert "measure SetF needs the chunks read" in refused(*make, "-m", "SetF")
    text = "version: 1\nmeasures: [R@10]\ncollections: {six: {queries: six.jsonl, floors: {R@10: 1}}}\n"
    Path("gate.yaml").write_text(text, "utf-8")
    assert "--strict only applies when --write creates a gate file: change it in gate.yaml instead" in refused(
        "gate", "gate.yaml", "--strict"
    )
    assert "gate.yaml names no baseline" in refused("gate", "gate.yaml", "--write")
    assert not Path("gate.runs").exists()
