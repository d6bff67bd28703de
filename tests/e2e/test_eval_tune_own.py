"""`eval tune --adapter --own-pairs`: a base teaches itself; without judged questions that is kept, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import respx
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.testing import FakeEmbedder

pytestmark = pytest.mark.slow

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

COUNT, DIMENSION = 80, 32
ASKED = "asked: "
MANIFEST = 'version: 1\ndomain: BANK\nsources: [{id: sops, type: bank_sop, documents: [{include: "*.md"}]}]\n'
PIPELINE = {
    "embedder": "openai",
    "embedder_options": {"connection": "models", "dimensions": DIMENSION, "query_prefix": ASKED},
    "min_relevance_score": 0,
    "scope_threshold": 0,
    "dedup_method": "off",
}
WORDS = [first + second for first in "bdfgklmnprst" for second in ("ank", "eed", "ill", "oom", "uze", "arp", "isk")]
AWAY = np.where(np.random.default_rng(2).random(DIMENSION) < 0.5, -1.0, 1.0) / np.sqrt(DIMENSION)
MODEL = FakeEmbedder(DIMENSION)


def embeddings(request: httpx.Request) -> httpx.Response:
    """A model that knows the words, but leans questions, and every other passage, towards what says nothing."""
    texts = json.loads(request.content)["input"]
    data = [{"index": place, "embedding": leant(text)} for place, text in enumerate(texts)]
    return httpx.Response(200, json={"data": data, "usage": {"total_tokens": len(texts)}})


def leant(text: str) -> list[float]:
    share = 1.0 if text.startswith(ASKED) else sha256(text.encode()).digest()[0] % 2
    found: list[float] = (np.asarray(MODEL.embed_query(text.removeprefix(ASKED))) + share * AWAY).tolist()
    return found


@pytest.fixture(scope="module", autouse=True)
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bank of eighty short procedures, ingested once; nobody has judged a question of theirs."""
    home, random = tmp_path_factory.mktemp("bank"), Random(9)
    files = {
        "config/connections.yaml": "models: {base_url: 'https://models.example'}\n",
        "config/rag-pipeline.json": json.dumps(PIPELINE),
        "manifests/bank.yaml": MANIFEST,
    }
    questions = []
    for place in range(COUNT):
        sentences = [" ".join(random.sample(WORDS, 9)) for _ in range(4)]
        files[f"docs/{place}.md"] = f"---\ndocument_id: SOP-{place}\n---\n{'. '.join(sentences)}.\n"
        questions.append(f"q{place}\t{' '.join(random.sample(sentences[1].split(), 4))}\n")
    files["q.tsv"] = "".join(questions)
    files["r.tsv"] = "".join(f"q{place}\tSOP-{place}\t1\n" for place in range(COUNT))
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


def tune(*args: str) -> Result:
    return run("eval", "tune", "--adapter", "--own-pairs", *args)


def adapters() -> Any:
    return json.loads(run("kb", "adapter", "list", "--json").stdout)["adapters"]


def said(result: Result) -> str:
    return " ".join(result.output.split())


def test_without_judged_questions_what_is_learnt_is_kept_and_put_in_force_only_by_hand():
    dry = tune("--dry-run", "--json")
    assert dry.exit_code == 0, dry.output
    assert adapters() == []

    result = tune()
    assert result.exit_code == 0, result.output
    assert "not in force: no judged question shows that it helps" in said(result)
    (kept,) = adapters()
    assert kept["in_force"] is False
    assert kept["evidence"]["questions"] == 0
    measured = kept["evidence"]["own_pairs"]
    assert measured == json.loads(dry.stdout)["own_pairs"], "the same base teaches the same"
    assert measured["low"] > 0.0
    assert min(measured["pairs"]["sentence"], measured["pairs"]["window"]) > 200

    forced = tune("--force")
    assert forced.exit_code == 0, forced.output
    assert [(one["adapter_id"], one["in_force"]) for one in adapters()] == [(kept["adapter_id"], True)]
    assert run("kb", "adapter", "off").exit_code == 0


def test_with_judged_questions_they_decide_and_the_evidence_tells_both():
    adapters_before = adapters()
    result = tune("--queries", "q.tsv", "--qrels", "r.tsv", "--folds", "2", "--dry-run", "--json")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["questions"], len(found["folds"])) == (COUNT, 2)
    assert found["own_pairs"]["low"] > 0.0
    assert found["adapter"] is not None, "own pairs alone, where judged questions add nothing to them"
    assert adapters() == adapters_before


def test_own_pairs_are_for_adapters():
    result = run("eval", "tune", "--own-pairs", "--grid", "rerank_weight=0.3,0.5")

    assert result.exit_code != 0
    assert "--own-pairs needs --adapter" in said(result)
