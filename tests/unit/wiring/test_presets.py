"""The funnel: fifty candidates, the near ones among them, the best fifteen."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.models import Chunk, Score, ScoreKind, SearchResult
from context_engine.wiring.models import FUNNEL
from context_engine.wiring.setup import load_setup

ROOT = Path(__file__).parents[3]


def test_the_funnel_names_settings_that_are_known(tmp_path: Path) -> None:
    values = load_setup(env={}, cwd=tmp_path).with_pipeline(FUNNEL).resolver.base().values

    assert (values.stage1_top_k, values.similarity_threshold, values.stage2_top_k) == (50, 0.75, 15)
    assert (values.reranker, values.reranking_enabled) == ("cross_encoder", True)


@pytest.mark.parametrize("folder", [ROOT / "config", ROOT / "context_engine/settings/templates/config"])
def test_the_funnel_as_a_file_is_the_preset(folder: Path, tmp_path: Path) -> None:
    text = (folder / "rag-pipeline.funnel.example.json").read_text("utf-8")
    keys = {key: value for key, value in json.loads(text).items() if not key.startswith(("//", "$"))}
    assert keys == FUNNEL

    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rag-pipeline.json").write_text(text, "utf-8")
    read = load_setup(env={}, cwd=tmp_path).resolver.base().values
    assert read == load_setup(env={}, cwd=tmp_path / "config").with_pipeline(FUNNEL).resolver.base().values


def test_fifty_become_those_near_enough_and_fifteen_of_them(ask: Callable[..., SearchResult]) -> None:
    # Cosines .99, .98 ... .20: the first fifty are asked for, the 25 of .99 to .75 are near enough.
    found = [
        Chunk(
            content=f"approval matter{place} of topic{place} under rule{place}",
            chunk_id=f"c{place:02d}",
            scores=(Score(ScoreKind.COSINE, (99 - place) / 100, "index"),),
        )
        for place in range(80)
    ]
    read: list[int] = []

    def by_number(_query: str, texts: Sequence[str]) -> list[float]:
        read.append(len(texts))
        return [int(text.split()[1].removeprefix("matter")) / 100 for text in texts]

    settings = {key: value for key, value in FUNNEL.items() if not key.startswith(("reranker", "max_chunk"))}
    result = ask(
        [(2, found)], "approval matter", {"reranker": CallableReranker(by_number)}, rerank_weight=0.0, **settings
    )

    assert read == [25]
    assert [chunk.chunk_id for chunk in result.chunks] == [f"c{place:02d}" for place in range(24, 9, -1)]
    assert sum(fate.stage == "threshold" for fate in result.fates) == 25
