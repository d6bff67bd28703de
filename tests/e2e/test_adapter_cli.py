"""`kb adapter`: what a bank's base has learnt is listed, put in force, seen by searches, and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from click.testing import CliRunner, Result

pytest.importorskip("numpy", reason="the extra 'vectors'")

import numpy as np

from context_engine import secrecy
from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.adapter_rows import Origin
from context_engine.apps.cli import main

pytestmark = pytest.mark.slow
WORDS = ("committee", "account", "gift", "branch")
MANIFEST = 'version: 1\ndomain: BANK\nsources: [{id: sops, type: bank_sop, documents: [{include: "*.md"}]}]\n'
PIPELINE = {"embedder": "openai", "embedder_options": {"connection": "models", "dimensions": 4}}
EVIDENCE = {"measure": "nDCG@10", "before": 0.6, "after": 0.65, "interval": [0.02, 0.08], "questions": 240}


def embeddings(request: httpx.Request) -> httpx.Response:
    """A text points to where its words do."""
    texts = [text.lower() for text in json.loads(request.content)["input"]]
    data = [
        {"index": place, "embedding": [float(word in text) + 0.1 for word in WORDS]} for place, text in enumerate(texts)
    ]
    return httpx.Response(200, json={"data": data, "usage": {"total_tokens": 1}})


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    files = {
        "config/connections.yaml": "models: {base_url: 'https://models.example'}\n",
        "config/rag-pipeline.json": json.dumps(PIPELINE),
        "manifests/bank.yaml": MANIFEST,
        "q.tsv": "q1\tgiftcards?\n",
        "r.tsv": "q1\tSOP-2\t1\n",
    }
    for number, word in enumerate(WORDS):
        text = f"Any {word} of Harbour Bank is told to the risk officer within {number + 2} days of its approval."
        files[f"docs/{word}.md"] = f"---\ndocument_id: SOP-{number}\n---\n# The {word}\n\n{text}\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(secrecy, "_KEYS", type(secrecy._KEYS)())  # keys of other tests may be parts of an id
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with respx.mock(assert_all_called=False) as router:
        router.post("https://models.example/v1/embeddings").mock(side_effect=embeddings)
        run("ingest", "docs", "--domain", "BANK")
        yield tmp_path


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == code, result.output
    return result


def keep(seed: int, evidence: dict[str, Any] = EVIDENCE) -> str:
    """Keep an adapter, as 'eval tune --adapter' does; return its id."""
    return keep_maps(np.eye(4) + 0.3 * np.random.default_rng(seed).standard_normal((2, 4, 4)), evidence)


def keep_maps(maps: Any, evidence: dict[str, Any] = EVIDENCE) -> str:
    with LocalBase(Path("data/base")) as base:
        adapter = DomainAdapter(base.stats().model_id or "", *maps)
        return base.keep_adapter("BANK", adapter, evidence, Origin(1, (1,))).adapter_id


def scorers() -> set[str]:
    found = json.loads(run("search", "a gift to the branch", "--domain", "BANK", "--json").stdout)
    scores = [score for chunk in found["chunks"] for score in chunk["scores"]]
    return {score["scorer"] for score in scores if score["kind"] == "cosine"}


def test_it_is_listed_switched_on_seen_by_searches_and_taken_back() -> None:
    (plain,) = scorers()
    assert "has no adapter: 'context-engine eval tune --adapter'" in run("kb", "adapter", "list").stderr
    first, second = keep(1), keep(2, {})
    assert scorers() == {plain}

    used = run("kb", "adapter", "use", first)
    assert used.stdout == f"in force: BANK is searched with {first}\n"
    assert "scope threshold of BANK" in used.stderr
    assert scorers() == {f"{plain}+{first}"}
    assert f"by words and {plain}+{first}" in run("search", "a gift", "--domain", "BANK", "--explain").output
    run("kb", "adapter", "use", second, "--domain", "BANK")
    assert scorers() == {f"{plain}+{second}"}

    assert run("kb", "adapter", "undo").stdout == f"in force: BANK is searched with {first}\n"
    assert run("kb", "adapter", "off").stdout == "off: BANK is searched with no adapter\n"
    assert scorers() == {plain}
    assert run("kb", "adapter", "undo").stdout == f"in force: BANK is searched with {first}\n"
    assert scorers() == {f"{plain}+{first}"}


def test_the_list_says_what_was_measured() -> None:
    first, second = keep(1), keep(2, {})
    run("kb", "adapter", "use", first)
    lines = {line.split()[0]: line for line in run("kb", "adapter", "list").stdout.splitlines()}
    assert "240" in lines[first] and "nDCG@10 +0.050 (+0.020 to +0.080)" in lines[first] and "in force" in lines[first]
    assert "in force" not in lines[second]
    found = json.loads(run("kb", "adapter", "list", "--json").stdout)
    assert found["domain"] == "BANK"
    assert {one["adapter_id"]: (one["in_force"], one["evidence"]) for one in found["adapters"]} == {
        first: (True, EVIDENCE), second: (False, {}),
    }  # fmt: skip


def test_stats_and_doctor_say_which_is_in_force() -> None:
    assert "adapter of" not in run("kb", "stats").stdout
    name = keep(1)
    assert "none in force of 1 kept" in run("kb", "stats").stdout
    run("kb", "adapter", "use", name)
    assert f"{name} in force" in run("kb", "stats").stdout
    assert json.loads(run("kb", "stats", "--json").stdout)["adapters"][0]["adapter_id"] == name
    assert f"adapter of BANK: {name} in force" in run("doctor", "--no-query").stdout
    assert [one["adapter_id"] for one in json.loads(run("doctor", "--no-query", "--json").stdout)["adapters"]] == [name]


def test_the_setting_overrides_what_is_in_force(bank: Path) -> None:
    (plain,) = scorers()
    run("kb", "adapter", "use", keep(1))
    (bank / "config/rag-pipeline.json").write_text(json.dumps({**PIPELINE, "adapter": "off"}), "utf-8")
    assert scorers() == {plain}
    assert "the setting adapter = off overrides the adapter in force" in run("doctor", "--no-query").stdout


def test_doctor_says_where_a_learnt_blend_is_for_other_cosines_as_the_search_does(bank: Path) -> None:
    (plain,) = scorers()
    name = keep(1)
    blend = {"measured_by": "weighted", "cosine": f"{plain}+{name}"}
    terms = {"cosine": {"weight": 1.0, "mean": 0.3, "deviation": 0.1}}
    settings = {"settings": {"learnt_blend": {**blend, "terms": terms}}}
    (bank / "manifests/bank.yaml").write_text(MANIFEST + json.dumps(settings)[1:-1] + "\n", "utf-8")

    def said() -> tuple[bool, bool]:
        found = json.loads(run("search", "a gift to the branch", "--domain", "BANK", "--json").stdout)
        notes = json.loads(run("doctor", "--no-query", "--json").stdout)["notes"]
        return (
            any(one["code"] == "learnt_blend_not_used" for one in found["notices"]),
            any(one.startswith("learnt_blend of BANK is not used") for one in notes),
        )

    assert said() == (True, True)
    run("kb", "adapter", "use", name)
    assert said() == (False, False)
    (bank / "config/rag-pipeline.json").write_text(json.dumps({**PIPELINE, "adapter": "off"}), "utf-8")
    assert said() == (True, True)


def test_an_evaluation_compares_with_and_without() -> None:
    """No text holds the question's words; its vector points to the gift, and under the adapter to the branch."""
    to_the_branch = np.eye(4)[[0, 1, 3, 2]]
    run("kb", "adapter", "use", keep_maps((to_the_branch, np.eye(4))))
    measured = ("--queries", "q.tsv", "--qrels", "r.tsv", "--domain", "BANK", "--measure", "R@1", "--json")
    found = json.loads(run("eval", "run", *measured, "--set", "adapter=off", "--baseline", "default").stdout)
    assert [(one["name"], one["measures"]["R@1"]["mean"]) for one in (found, found["baseline"])] == [
        ("adapter=off", 1.0), ("as configured", 0.0),
    ]  # fmt: skip
    compared = run("eval", "run", *measured[:-1], "--set", "adapter=off", "--baseline", "default", "--html", "r.html")
    for said in (compared.stdout, Path("r.html").read_text("utf-8")):
        assert "Its training questions get better answers" in " ".join(said.split())


def test_a_replay_says_which_adapter_compared_then_and_which_would_now(bank: Path) -> None:
    (plain,) = scorers()
    run("kb", "adapter", "use", first := keep(1))
    saved = bank / "saved.json"
    saved.write_text(run("search", "a gift", "--domain", "BANK", "--json", "--full").stdout, "utf-8")
    replayed = ("audit", "replay", "--file", str(saved))
    assert json.loads(run(*replayed, "--json").stdout)["changed_scorer"] is None
    run("kb", "adapter", "use", second := keep(2, {}))
    found = json.loads(run(*replayed, "--json").stdout)
    assert found["identical"] and found["changed_settings"] == []
    assert found["changed_scorer"] == {"was": f"{plain}+{first}", "now": f"{plain}+{second}"}
    run("kb", "adapter", "off")
    assert f"vectors were compared by {plain}+{first}, now by {plain}" in unwrapped(run(*replayed).stdout)


def test_max_sim_compares_under_it_and_says_so(bank: Path, token_vectors: None) -> None:
    (bank / "config/rag-pipeline.json").write_text(json.dumps({**PIPELINE, "reranker": "max_sim"}), "utf-8")
    ask = ("search", "a gift to the branch", "--domain", "BANK")
    plain = json.loads(run(*ask, "--json").stdout)
    run("kb", "adapter", "use", name := keep(1))
    assert f"reranked by max_sim+{name}" in run(*ask, "--explain").output
    saved = bank / "saved.json"
    saved.write_text(run(*ask, "--json", "--full").stdout, "utf-8")
    taught = json.loads(saved.read_text("utf-8"))
    assert (plain["rerank_adapter"], taught["rerank_adapter"]) == (None, name)
    first, again = ({one["chunk_id"]: one["rerank_score"] for one in found["chunks"]} for found in (plain, taught))
    assert first != again
    run("kb", "adapter", "undo")
    replayed = json.loads(run("audit", "replay", "--file", str(saved), "--json").stdout)
    assert replayed["identical"] and replayed["changed_scorer"]["was"].endswith(f"+{name}")
    assert "reranked by max_sim\n" in run(*ask, "--explain").output


def unwrapped(said: str) -> str:
    return " ".join(said.split())


def test_what_cannot_be_switched_on_is_said() -> None:
    assert run("kb", "adapter", "undo").stdout.startswith("nothing to undo")
    missing = run("kb", "adapter", "use", "0123456789ab", code=2).stderr
    assert "keeps no adapter 0123456789ab for BANK. The domain has none: learn one" in missing
    first = keep(1)
    wrong = run("kb", "adapter", "use", first[:-1], code=2).stderr
    assert f"keeps no adapter {first[:-1]} for BANK. Did you mean {first!r}?" in wrong
    assert "Calibrating" not in wrong + missing


def test_whatever_measures_under_an_adapter_says_that_it_flatters_its_own_questions(bank: Path) -> None:
    (bank / "one").mkdir()
    (bank / "one/queries.tsv").write_text((bank / "q.tsv").read_text("utf-8"), "utf-8")
    (bank / "one/qrels.tsv").write_text((bank / "r.tsv").read_text("utf-8"), "utf-8")
    asked = ("--queries", "q.tsv", "--qrels", "r.tsv", "-d", "BANK")
    commands = [
        ("run", *asked, "--html", "x.html"),
        ("run", "--collection", "one=one", "-d", "BANK", "--html", "x.html"),
        ("gate", "gate.yaml", "--write", *asked),
        ("gate", "gate.yaml", "--html", "x.html"),
    ]

    def cautions() -> list[tuple[bool, bool]]:
        """Whether output and report of each command say it."""
        (bank / "gate.yaml").unlink(missing_ok=True)
        said = "An adapter is in force"
        return [
            (said in run("eval", *command).output, said in read_and_remove(bank / "x.html")) for command in commands
        ]

    assert cautions() == [(False, False)] * 4
    run("kb", "adapter", "use", keep(1))
    assert cautions() == [(True, True), (True, True), (True, False), (True, True)]


def read_and_remove(file: Path) -> str:
    """The text of a file that is taken away; nothing where there is none."""
    text = file.read_text("utf-8") if file.exists() else ""
    file.unlink(missing_ok=True)
    return text
