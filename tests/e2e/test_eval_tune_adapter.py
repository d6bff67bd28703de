"""`eval tune --adapter`: a bank whose questions its model puts elsewhere than its answers is learnt, chance is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

COUNT, DIMENSION = 70, 8
MANIFEST = 'version: 1\ndomain: BANK\nsources: [{id: sops, type: bank_sop, documents: [{include: "*.md"}]}]\n'
PIPELINE = {
    "embedder": "openai",
    "embedder_options": {"connection": "models", "dimensions": DIMENSION},
    "min_relevance_score": 0,
    "scope_threshold": 0,
    "dedup_method": "off",
}
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "ve")


def name(number: int, head: str) -> str:
    """A word of its own for each number; what begins otherwise is another word."""
    return head + _SYLLABLES[number // 12] + _SYLLABLES[number % 12]


def vectors() -> dict[str, list[float]]:
    """Each rule has a vector of its own; a question's is that of its rule, turned by 50 degrees in every plane."""
    rules = np.random.default_rng(11).standard_normal((COUNT, DIMENSION))
    x, y = rules[:, ::2], rules[:, 1::2]
    cosine, sine = np.cos(np.radians(50)), np.sin(np.radians(50))
    asked = np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=2).reshape(COUNT, DIMENSION)
    return {
        name(place, head): row.tolist()
        for head, some in (("rul", rules), ("que", asked))
        for place, row in enumerate(some)
    }


VECTORS = vectors()


def embeddings(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    found = [next((VECTORS[word] for word in text.lower().split() if word in VECTORS), [1.0] * 8) for text in texts]
    data = [{"index": place, "embedding": vector} for place, vector in enumerate(found)]
    return httpx.Response(200, json={"data": data, "usage": {"total_tokens": len(texts)}})


@pytest.fixture(scope="module", autouse=True)
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bank of seventy rules, ingested once."""
    home, places = tmp_path_factory.mktemp("bank"), range(COUNT)
    files = {
        "config/connections.yaml": "models: {base_url: 'https://models.example'}\n",
        "config/rag-pipeline.json": json.dumps(PIPELINE),
        "manifests/bank.yaml": MANIFEST,
        "bare/manifests/bank.yaml": MANIFEST,
        "q.tsv": "".join(f"q{place}\t{name(place, 'que')} when\n" for place in places),
        "r.tsv": "".join(f"q{place}\tSOP-{place}\t1\n" for place in places),
        "chance.tsv": "".join(f"q{place}\tSOP-{(31 * place * place + 7) % COUNT}\t1\n" for place in places),
        "most.tsv": "".join(f"q{place}\tSOP-{place if place > 6 else 'X'}\t1\n" for place in places),
        "few.tsv": "".join(f"q{place}\tSOP-{place}\t1\n" for place in range(9)),
    }
    for place in places:
        files[f"docs/{place}.md"] = (
            f"---\ndocument_id: SOP-{place}\n---\nThe {name(place, 'rul')} is kept by the desk.\n"
        )
    whole = "".join(f"## {place} Duty\n\n{f'Duty {place} is kept by the desk. ' * 60}\n\n" for place in range(1, 11))
    files["docs/whole.md"] = f"---\ndocument_id: SOP-X\ndoc_type: sop_document\n---\n{whole}"
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch, respx.mock(assert_all_called=False) as router:
        for key in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
            patch.delenv(key, raising=False)
        patch.setenv("HOME", str(home))
        patch.setenv("CONTEXT_ENGINE_DATA_DIR", str(home / "data"))
        patch.chdir(home)
        router.post("https://models.example/v1/embeddings").mock(side_effect=embeddings)
        assert run("ingest", "docs", "--domain", "BANK").exit_code == 0
        yield home


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def tune(*args: str, qrels: str = "r.tsv") -> Result:
    return run("eval", "tune", "--adapter", "--queries", "q.tsv", "--qrels", qrels, "--folds", "3", *args)


def adapters() -> Any:
    return json.loads(run("kb", "adapter", "list", "--json").stdout)["adapters"]


def first(question: str, *args: str) -> str:
    found = json.loads(run("search", question, "--json", "-d", "BANK", *args).stdout)
    return str(found["chunks"][0]["document_id"])


@pytest.mark.slow
def test_a_language_that_the_model_does_not_know_is_learnt_put_in_force_and_taken_back():
    wrong = sum(first(f"{name(place, 'que')} when") != f"SOP-{place}" for place in range(5))
    assert wrong >= 3
    result = tune("--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["refusal"] is None
    assert (found["measure"], found["questions"], found["untaught"]) == ("nDCG@10", COUNT, 0)
    assert found["untaught_questions"] == []
    assert found["before"] + 0.1 < found["after"]
    assert found["interval"][0] > 0.0, "what is learnt holds for passages that were never shown"
    assert found["parts"] == {"questions": [24, 23, 23], "groups": COUNT, "largest_group": 1, "cut": False}
    (kept,) = adapters()
    assert (kept["adapter_id"], kept["in_force"]) == (found["adapter"], True)
    assert kept["evidence"]["interval"] == found["interval"]
    assert sum(first(f"{name(place, 'que')} when") == f"SOP-{place}" for place in range(5)) >= 4
    measured = run("eval", "run", "--queries", "q.tsv", "--qrels", "r.tsv", "-m", "R@10")
    assert "get better answers than new ones will" in " ".join(measured.output.split())
    assert run("kb", "adapter", "undo").exit_code == 0
    assert sum(first(f"{name(place, 'que')} when") != f"SOP-{place}" for place in range(5)) == wrong


@pytest.mark.slow
@pytest.mark.parametrize("reranker", ["noop", "max_sim"])
def test_a_blend_beside_it_is_learnt_from_questions_as_adapters_that_never_saw_them_find_them(
    monkeypatch, token_vectors, reranker
):
    manifest, pipeline = Path("manifests/bank.yaml"), Path("config/rag-pipeline.json")
    pipeline.write_text(json.dumps({**PIPELINE, "reranker": reranker}), "utf-8")
    monkeypatch.setattr("context_engine.evaluation.learning.blend_tune.FEWEST_TAUGHT", 10)
    result = tune("--blend", "--json", "--force", "--write", str(manifest))
    try:
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        held_out = found["learnt_blend"]["evidence"]["held_out"]["nDCG@10"]
        (used,) = (one for one in adapters() if one["in_force"])
        assert found["adapter"]["adapter"] == used["adapter_id"]
        assert found["learnt_blend"]["cosine"] == f"{used['model_id']}+{used['adapter_id']}"
        # Without a blend the questions stand as the adapters of their folds left them.
        assert held_out["before"] == pytest.approx(found["adapter"]["known"]["nDCG@10"]["after"], abs=0.05)
        assert len(adapters()) <= 2, "those of the folds are gone"
        assert found["learnt_blend"].get("reranker") in (None, f"max_sim+{used['adapter_id']}")
        answer = json.loads(run("search", f"{name(3, 'que')} when", "--json", "-d", "BANK").stdout)
        assert {notice["code"] for notice in answer["notices"]} <= {"near_miss"}
    finally:
        pipeline.write_text(json.dumps(PIPELINE), "utf-8")
        run("kb", "adapter", "off", "-d", "BANK")
        manifest.write_text(MANIFEST, "utf-8")


@pytest.mark.slow
def test_a_dry_run_says_the_same_and_keeps_nothing():
    result = tune("--dry-run", qrels="most.tsv")
    assert result.exit_code == 0, result.output
    assert "better beyond noise on held-out questions, also for new answers" in result.output
    said = " ".join(result.stdout.split())
    named = re.search(r"7 others not used, because .* too many: (.*?) and 2 more", said)
    assert named is not None, said
    assert len(set(named[1].split(", ")) & {f"q{place}" for place in range(7)}) == 5
    assert [one["in_force"] for one in adapters()] in ([], [False])


@pytest.mark.slow
def test_judgements_by_chance_teach_nothing_that_is_put_in_force():
    before = adapters()
    result = tune(qrels="chance.tsv")
    assert result.exit_code == 1, result.output
    said = " ".join(result.output.split())
    assert "no adapter is put in force: on held-out questions" in said
    assert said.count("on held-out questions") == 1, "the refusal is said once"
    assert adapters() == before


def test_more_folds_than_questions_are_refused_before_anything_is_embedded(monkeypatch):
    def embedded(*_texts):
        raise AssertionError("nothing is to be embedded")

    monkeypatch.setattr("context_engine.learning.contrast.embedded_queries", embedded)
    result = tune("--folds", "500")
    assert result.exit_code == 2
    assert f"number of judged questions ({COUNT}), got 500" in " ".join(result.output.split())
    assert "Learning" not in result.output


def test_of_a_few_judgements_nothing_is_learnt():
    before = adapters()
    result = tune(qrels="few.tsv")
    assert result.exit_code != 0
    assert "9 judged questions of this domain name passages" in " ".join(result.output.split())
    assert adapters() == before


@pytest.mark.parametrize("more", [["--grid", "authority_weight=0"], ["--write", "new.json"], ["--top-k", "5"]])
def test_what_belongs_to_the_search_for_settings_is_refused(more):
    result = tune(*more)
    assert result.exit_code != 0
    assert f"--adapter and {more[0]} do not go together" in result.output


def test_without_an_embedder_it_says_what_is_missing():
    result = tune("--config-dir", "bare")
    assert result.exit_code != 0
    assert "none is configured" in result.output
    assert "'onnx'" in result.output
