"""Questions in Chinese by words: what is searched for, what ranks, and what a record needs to be computed again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine import recompute
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.engine import Engine
from context_engine.core.engine.recompute import stage_two_bytes
from context_engine.core.models import Chunk, SearchRequest, SearchResult
from context_engine.core.text.tokens import _tokenizer
from context_engine.errors import MissingExtra
from context_engine.settings import find_config
from context_engine.wiring.check import check

QUESTION = "操作风险"
TEXTS = {
    "words": "各部门应当建立操作流程，并设定风险限额。",
    "across": "干部作风建设关系风险文化，作风优良者予以表彰。",
    "other": "本办法自发布之日起施行。",
}
"""作风 (style of work) stands across the words 操作 (operation) and 风险 (risk) of the question, and is rarer."""


@pytest.fixture
def engine(tmp_path: Path, make_engine: Any) -> Iterator[Engine]:
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            for name, text in TEXTS.items():
                writer.put("t2", name, f"{name}.md", name, [Chunk(content=text, chunk_id=name)])
        yield make_engine([(2, LocalSource(base, "t2"))])


def found(engine: Engine, segmenter: str) -> SearchResult:
    overrides = {"word_segmenter": segmenter, "min_relevance_score": 0.0}
    return engine.search(SearchRequest(query=QUESTION, domain="NPA", overrides=overrides))


def test_words_of_the_question_rank_above_what_stands_across_them(engine: Engine) -> None:
    by_pairs, by_words = found(engine, "none"), found(engine, "lindera")
    assert [one.chunk.chunk_id for one in by_pairs.chunks] == ["across", "words"]
    assert [one.chunk.chunk_id for one in by_words.chunks] == ["words", "across"]


def test_the_source_itself_ranks_by_words(engine: Engine) -> None:
    raw = [[chunk.chunk_id for chunk in found(engine, one).raw[0].chunks] for one in ("none", "lindera")]
    assert raw == [["across", "words"], ["words", "across"]]


def test_the_words_stand_in_the_result_where_they_are_not_the_text(engine: Engine) -> None:
    by_pairs, by_words = found(engine, "none").to_dict(), found(engine, "lindera").to_dict()
    assert (by_pairs["searched"]["words"], by_words["searched"]["words"]) == (None, "操作 风险")
    assert by_words["searched"]["text"] == QUESTION


def test_a_record_is_computed_again_without_the_segmenter(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    result = found(engine, "lindera")
    _tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "lindera", None)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_a_segmenter_that_is_not_installed_is_said_by_the_search_and_by_the_check(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "lindera", None)
    with pytest.raises(MissingExtra, match=r"dify-context-engine\[cjk\]"):
        found(engine, "lindera")
    (tmp_path / "config").mkdir()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text('{"word_segmenter": "lindera"}')
    source = "{id: sops, title: SOPs, type: bank_sop, adapter: local}"
    (tmp_path / "manifests/npa.yaml").write_text(f"version: 1\ndomain: NPA\nsources: [{source}]\n")
    (problem,) = check(find_config(env={}, cwd=tmp_path), env={}).problems
    assert "dify-context-engine[cjk]" in problem.problem
