"""What changes how an answer is to be read is said by every output, and the same failure of many sources once."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.apps.cli import main
from context_engine.apps.cli.search.explanation import print_explanation
from context_engine.apps.cli.search.result_table import print_result
from context_engine.apps.dify.answer import search_answer
from context_engine.apps.dify.external import ExternalRequest, records_answer
from context_engine.apps.web.files.answer import answer_page
from context_engine.core.context import ApproxTokenCounter, from_result
from context_engine.core.engine import Engine
from context_engine.core.models import (
    BESIDE_THE_ANSWER,
    Chunk,
    Condition,
    Filter,
    FilterOp,
    NoticeCode,
    SearchRequest,
    SearchResult,
)
from context_engine.errors import AllSourcesFailed, SourceUnavailable

TEXT = "Passwords have a minimum length of 14 characters."
REQUEST = ExternalRequest(knowledge_id="NPA", query="q", top_k=4, score_threshold=0.0, filters=None)


@pytest.fixture
def find(tmp_path: Path, make_engine: Callable[..., Engine]) -> Callable[..., SearchResult]:
    def search(query: str, filters: Filter | None = None, as_of: date | None = None) -> SearchResult:
        with LocalBase.open(tmp_path / "base", create=True) as base:
            with base.writer() as writer:
                writer.put("t2", "rule", "1", "rule", [Chunk(content=TEXT, chunk_id="rule")])
            with make_engine([(2, LocalSource(base, "t2"))]) as engine:
                return engine.search(SearchRequest(query=query, domain="NPA", filters=filters, as_of=as_of))

    return search


def printed(result: SearchResult, printer: Callable[..., None]) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False, markup=False)
    printer(console, result)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def outputs(result: SearchResult) -> dict[str, str]:
    """Every output for people and for programs, in one line each."""
    tool = search_answer(result)
    texts = {
        "table": printed(result, print_result),
        "explain": printed(result, print_explanation),
        "page": answer_page(result, demo=False).replace("&quot;", '"').replace("&#x27;", "'"),
        "json": "\n".join(result.to_dict()["warnings"]),
        "plugin json": "\n".join(tool.json["warnings"]),
        "plugin warnings": tool.variables["warnings_text"],
        "external": "\n".join(records_answer(result, REQUEST, notice_records=False).body["warnings"]),
    }
    return {name: " ".join(text.split()) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (NoticeCode.QUERY_CORRECTED, {"query": "minimun lenght"}),
        (NoticeCode.SPELLING_SUGGESTED, {"query": "minimum characters lenght"}),
        (NoticeCode.PHRASE_NOT_FOUND, {"query": 'passwords of "maximum length"'}),
        (NoticeCode.FILTER_FIELD_UNKNOWN, {"query": "password", "filters": Condition("titel", FilterOp.EQ, "Foo")}),
        (NoticeCode.FILTER_LEFT_NOTHING, {"query": "password", "filters": Condition("title", FilterOp.EQ, "Foo")}),
        (NoticeCode.DATES_UNKNOWN, {"query": "minimum password length", "as_of": date(2025, 1, 1)}),
    ],
)
def test_every_output_says_it(code: NoticeCode, asked: dict[str, Any], find: Callable[..., SearchResult]) -> None:
    assert code in BESIDE_THE_ANSWER
    result = find(**asked)
    (sentence,) = (" ".join(notice.message.split()) for notice in result.notices if notice.code is code)
    missing = [name for name, text in outputs(result).items() if sentence not in text]
    assert missing == []


@pytest.mark.wording
def test_the_table_says_the_other_spelling_before_the_passages(find: Callable[..., SearchResult]) -> None:
    text = printed(find("minimun lenght"), print_result)
    assert text.startswith('nothing relevant was found for "minimun lenght": searched for "minimum length" instead')
    assert text.count("instead") == 1


@pytest.mark.wording
def test_a_model_is_told_of_another_spelling_and_of_a_filter_that_left_nothing(
    find: Callable[..., SearchResult],
) -> None:
    def context(result: SearchResult) -> str:
        return from_result(result, counter=ApproxTokenCounter()).text

    assert 'Note: nothing relevant was found for "minimun lenght": searched for' in context(find("minimun lenght"))
    filtered = context(find("password", filters=Condition("titel", FilterOp.EQ, "Foo")))
    assert "Note: no candidate passed the filter" in filtered
    assert "Fields:" not in filtered, "names that documents give stand in no text for a model"


def test_the_marked_words_are_those_of_the_spelling_that_was_searched_for(find: Callable[..., SearchResult]) -> None:
    assert "<mark>minimum</mark>" in answer_page(find("minimun lenght"), demo=False)


@pytest.mark.wording
def test_dify_shows_that_a_filter_left_nothing(find: Callable[..., SearchResult]) -> None:
    """Dify shows an empty list as "nothing found": with notices one record says why."""
    result = find("password", filters=Condition("titel", FilterOp.EQ, "Foo"))
    (record,) = records_answer(result, REQUEST, notice_records=True).body["records"]
    assert record["metadata"]["notice"] is True
    assert "Did you mean 'title'?" in record["content"]
    assert records_answer(result, REQUEST, notice_records=False).body["records"] == []


# -- the same failure of many sources ----------------------------------------------------------------------------------


def down(_query: str, _domain: str, _top_k: int) -> Any:
    raise SourceUnavailable("the server does not answer")


def test_the_same_failure_of_three_sources_is_said_once_with_their_names(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    result = ask([(1, down), (2, [chunk_of("a", 0.9)]), (3, down), (4, down)])
    table, explained = printed(result, print_result), printed(result, print_explanation)
    assert table.count("the server does not answer") == 1
    assert "3 sources failed (unavailable): the server does not answer: t1 (tier 1), t3 (tier 3), t4 (tier 4)" in table
    assert explained.count("the server does not answer") == 1
    assert explained.count("as t1") == 2
    warnings = search_answer(result).variables["warnings"]
    assert sum("the server does not answer" in one for one in warnings) == 1
    assert all(name in warnings[0] for name in ("t1", "t3", "t4"))
    assert answer_page(result, demo=False).count("did not answer") == 1


def test_two_failures_are_two_lines(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    def other(_query: str, _domain: str, _top_k: int) -> Any:
        raise SourceUnavailable("its disk is full")

    table = printed(ask([(1, down), (2, [chunk_of("a", 0.9)]), (3, other)]), print_result)
    assert "source t1 failed (tier 1, unavailable): the server does not answer" in table
    assert "source t3 failed (tier 3, unavailable): its disk is full" in table


def test_where_all_sources_fail_alike_the_error_says_it_once(ask: Callable[..., SearchResult]) -> None:
    with pytest.raises(AllSourcesFailed) as failed:
        ask([(1, down), (2, down), (3, down)])
    assert str(failed.value).count("the server does not answer") == 1
    assert "sources 't1', 't2', 't3': the server does not answer" in str(failed.value)


@pytest.mark.wording
def test_chunks_alone_on_stdout_and_the_rest_on_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--jsonl` and `--context` keep stdout to themselves."""
    (tmp_path / "manifests").mkdir()
    manifest = "version: 1\ndomain: OPS\nsources: [{id: ops_sops, type: bank_sop, adapter: local}]\n"
    (tmp_path / "manifests" / "ops.yaml").write_text(manifest, encoding="utf-8")
    (tmp_path / "rules.md").write_text(f"# Passwords\n\n{TEXT}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    where = ["--data-dir", str(tmp_path / "data")]
    ingested = CliRunner().invoke(main, ["ingest", "rules.md", "--source", "ops_sops", *where])
    assert ingested.exit_code == 0, ingested.output
    for form in ("--jsonl", "--context"):
        found = CliRunner().invoke(main, ["search", "minimun lenght", form, *where])
        assert found.exit_code == 0, found.output
        assert 'searched for "minimum length" instead' in found.stderr
    lines = CliRunner().invoke(main, ["search", "minimun lenght", "--jsonl", *where]).stdout.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("{")
