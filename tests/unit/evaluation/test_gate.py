"""The gate: what is allowed to be lost, and what may be compared at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import ConfigError
from context_engine.evaluation.blocks import to_markdown
from context_engine.evaluation.collections import Collected
from context_engine.evaluation.evaluate import Compared
from context_engine.evaluation.gate import (
    GateResult,
    check_baseline,
    check_comparable,
    check_replaceable,
    fingerprint,
    gate_result,
    gate_summary,
    keep_baseline,
    lost_most,
)
from context_engine.evaluation.gate_file import GateCollection, GateFile, gate_text, new_gate, read_gate
from context_engine.evaluation.gold import Identity
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.report import gate_report

NDCG = "nDCG@10"
Make = Callable[..., Compared]


def gate_of(floor: float | None = None, **limits: Any) -> GateFile:
    one = GateCollection(qrels=Path("q.jsonl"), floors={} if floor is None else {NDCG: floor})
    return GateFile(version=1, measures=(NDCG,), collections={"npa": one}, **{"baseline": Path("runs"), **limits})


def judged(gate: GateFile, compared: Compared) -> GateResult:
    return gate_result(gate, Collected(compared={"npa": compared}, measures=(NDCG,), primary=NDCG))


def lost_by(made: Make, loss: float, questions: int = 8, even: int = 0) -> Compared:
    lost = {f"q{number}": (0.5 - loss, 0.5) for number in range(questions)}
    return made({**lost, **{f"e{number}": (0.5, 0.5) for number in range(even)}})


# -- what is allowed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "limits", "outcome"),
    [
        (0.0, {}, "holds"),
        (-0.1, {}, "holds"),
        (0.1, {}, "lost"),
        (0.1, {"allowed_loss": 0.1}, "holds"),
        (0.1, {"allowed_loss": 0.09}, "lost"),
        (0.1, {"floor": 0.4}, "lost"),
        (0.1, {"floor": 0.41}, "below_floor"),
        (0.1, {"floor": 0.4, "baseline": None}, "holds"),
        (-0.1, {"floor": 0.61}, "below_floor"),
    ],
)
def test_a_mean_must_reach_its_floor_and_lose_no_more_than_is_allowed(
    compared: Make, loss: float, limits: dict[str, Any], outcome: str
) -> None:
    (check,) = judged(gate_of(**limits), lost_by(compared, loss)).checks

    assert check.outcome == outcome
    assert check.now == pytest.approx(0.5 - loss)


def test_a_loss_within_noise_falls_only_where_the_gate_is_strict(compared: Make) -> None:
    """Five questions that all lose are fewer than can be told from chance."""
    five = lost_by(compared, 0.5, questions=5, even=5)

    assert judged(gate_of(), five).holds
    assert not judged(gate_of(beyond_noise=False), five).holds
    assert not judged(gate_of(), lost_by(compared, 0.5, questions=6)).holds


def test_the_questions_that_lost_most_come_first(compared: Make) -> None:
    found = compared({"a": (0.5, 0.5), "b": (0.2, 0.6), "c": (0.1, 1.0), "d": (0.9, 0.1), "e": (0.3, 0.7)})
    collected = Collected(compared={"npa": found}, measures=(NDCG,), primary=NDCG)

    assert [row.question for row in lost_most(collected, "npa", NDCG)] == ["c", "b", "e"]
    assert lost_most(collected, "npa", NDCG, most=1)[0] == ("c", "text of c", 0.1, 1.0)


def test_a_result_as_plain_values_and_as_a_report(compared: Make) -> None:
    result = judged(gate_of(floor=0.1), lost_by(compared, 0.25))

    out = json.loads(json.dumps(gate_summary(result)))
    assert (out["holds"], out["degraded"]) == (False, False)
    (check,) = out["checks"]
    assert (check["collection"], check["measure"], check["outcome"]) == ("npa", NDCG, "lost")
    assert (check["now"], check["floor"], check["baseline"]) == (0.25, 0.1, 0.5)
    assert check["pair"]["mean"] == -0.25
    assert [row["question"] for row in check["lost_most"]] == ["q0", "q1", "q2", "q3", "q4"]
    shown = to_markdown(gate_report(result, title="Gate"))
    assert "1 of 1 checks do not hold." in shown
    assert "| npa | nDCG@10 | 0.100 | 0.500 | 0.250 | −0.250 | −0.250 to −0.250 | lost against the baseline |" in shown
    assert "## npa: lost most by nDCG@10" in shown


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_made_is_read_back_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evals").mkdir()
    path = tmp_path / "evals" / "gate.yaml"
    one = GateCollection.model_validate(
        {
            "queries": tmp_path / "q.tsv",
            "qrels": tmp_path / "evals/r.tsv",
            "as_of": "2026-03-02",
            "floors": {"MAP@10": 0.6},
        }
    )
    gate = new_gate(path, {"npa": one}, measures=["R@10", "NDCG@10"], allowed_loss=0.01)

    text = gate_text(path, gate)
    path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path / "evals")

    assert "queries: ../q.tsv" in text
    assert "qrels: r.tsv" in text
    assert "baseline: gate.runs" in text
    assert gate.measured == ("R@10", "nDCG@10", "AP@10")
    again = read_gate(path)
    assert again.model_dump() == gate.model_dump() | {
        "collections": {"npa": one.model_dump() | {"queries": tmp_path / "evals/../q.tsv", "floors": {"AP@10": 0.6}}}
    }
    assert gate_text(path, again) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 2\nmeasures: [R@10]\ncollections: {a: {qrels: r, floors: {R@10: 0.5}}}\n", "version"),
        ("version: 1\nmeasures: [R@10]\ncollections: {a: {qrels: r}}\n", "checks nothing in collection 'a'"),
        ("version: 1\nmeasures: [Good@10]\nbaseline: b\ncollections: {a: {qrels: r}}\n", "unknown measure 'Good@10'"),
        (
            "version: 1\nmeasures: [SetF]\nbaseline: b\ncollections: {a: {qrels: r}}\n",
            "measure SetF needs the chunks read",
        ),
        ("version: 1\nmeasures: [R@10]\nbaseline: b\ncollections: {a: {qrels: r, floors: {R@10: 8}}}\n", "floors.R@10"),
        ("version: 1\nmeasures: [R@10]\nbasline: b\ncollections: {a: {qrels: r}}\n", "Did you mean 'baseline'"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(text, "utf-8")

    with pytest.raises(ConfigError) as found:
        read_gate(path)

    assert said in " ".join(str(one) for one in found.value.each)


def test_all_faults_of_a_gate_file_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("version: 1\nmeasure: [R@10]\nallowed_loss: 2\ncollections: {a: {qrels: r}}\n")

    with pytest.raises(ConfigError, match=r"'measures'.*; allowed_loss: must be at most 1") as found:
        read_gate(tmp_path / "gate.yaml")
    assert found.value.others == ()


# -- the baseline -----------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(compared: Make, tmp_path: Path) -> tuple[GateFile, Compared]:
    """A gate whose baseline is written, and what it was measured on."""
    found = compared({"a": (0.5, None), "b": (1.0, None)})
    gate = gate_of(baseline=tmp_path / "runs")
    keep_baseline(tmp_path / "runs", Collected(compared={"npa": found}, measures=(NDCG,), primary=NDCG))
    return gate, found


def refused(gate: GateFile, compared: Compared, **changes: Any) -> str:
    with pytest.raises(ConfigError) as found:
        check_comparable(gate, {"npa": replace(compared.session, **changes)}, Path("gate.yaml"))
    return str(found.value)


def test_the_same_is_compared_and_the_means_stand_beside_the_runs(kept: tuple[GateFile, Compared]) -> None:
    gate, found = kept

    check_comparable(gate, {"npa": found.session}, Path("gate.yaml"))

    assert gate.baseline is not None
    beside = json.loads((gate.baseline / "npa.json").read_text("utf-8"))
    assert beside["means"] == {NDCG: 0.75}
    assert {len(beside[name]) for name in ("run", "questions", "judgements", "corpus")} == {16}


def test_what_has_changed_since_the_baseline_is_named(kept: tuple[GateFile, Compared]) -> None:
    gate, found = kept
    session = found.session
    other = ((EvalQuestion(id="a", text="other words"), "NPA"), session.questions[1])
    corpus = replace(session.corpus, identities={("s", "c"): Identity("s", "c", frozenset(), "ab" * 32)})

    assert "since the baseline the questions of collection 'npa' have changed" in refused(gate, found, questions=other)
    assert "the questions of" in refused(gate, found, as_of=date(2026, 3, 2))
    said = refused(gate, found, qrels={"a": {"gold": 1}, "b": {"gold": 2}}, corpus=corpus)
    assert "the judgements and the documents of collection 'npa' have changed" in said
    assert "'context-engine eval gate gate.yaml --write' measures the baseline again" in said
    assert "the judgements of" in refused(gate, found, rejected={"a": {"other"}})


def test_documents_may_change_where_the_gate_says_so(kept: tuple[GateFile, Compared]) -> None:
    gate, found = kept
    corpus = replace(found.session.corpus, identities={("s", "c"): Identity("s", "c", frozenset(), "ab" * 32)})
    lenient = gate.model_copy(update={"same_corpus": False})

    check_comparable(lenient, {"npa": replace(found.session, corpus=corpus)}, Path("gate.yaml"))

    assert "the documents of collection 'npa'" in refused(gate, found, corpus=corpus)


def test_the_order_of_questions_and_judgements_changes_nothing(compared: Make) -> None:
    session = compared({"a": (0.5, None), "b": (1.0, None)}).session
    turned = replace(session, questions=session.questions[::-1], qrels=dict(reversed(list(session.qrels.items()))))

    assert fingerprint(turned) == fingerprint(session)


def test_a_run_that_was_edited_or_is_missing_is_no_baseline(kept: tuple[GateFile, Compared]) -> None:
    gate, found = kept
    assert gate.baseline is not None
    run = gate.baseline / "npa.run"
    text = run.read_text("utf-8")

    run.write_bytes(text.replace("\n", "\r\n").encode())
    check_comparable(gate, {"npa": found.session}, Path("gate.yaml"))
    run.write_text(text.replace("gold", "silver"), "utf-8")
    assert "npa.run is not the run that npa.json was written for" in refused(gate, found)
    run.unlink()
    assert "collection 'npa' has no baseline in" in refused(gate, found)


def test_only_a_baseline_is_written_over(kept: tuple[GateFile, Compared], tmp_path: Path) -> None:
    gate, _ = kept
    check_replaceable(gate)
    (tmp_path / "npa.json").write_text('{"embedder": "openai"}', "utf-8")
    with pytest.raises(ConfigError, match="is not a baseline"):
        check_replaceable(gate_of(baseline=tmp_path))
    check_replaceable(gate_of(baseline=tmp_path / "new"))


def test_no_baseline_is_kept_that_would_not_pass(compared: Make) -> None:
    found = Collected(compared={"npa": compared({"a": (0.5, None)})}, measures=(NDCG,), primary=NDCG)

    check_baseline(gate_of(floor=0.5), found, Path("gate.yaml"))
    with pytest.raises(
        ConfigError, match=r"no baseline is written: nDCG@10 of collection 'npa' is 0.5000, its floor 0.51"
    ):
        check_baseline(gate_of(floor=0.51), found, Path("gate.yaml"))
