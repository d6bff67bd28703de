"""What the search tool gives back, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from context_engine.dify.answer import DEMO_LABEL, search_answer
from context_engine.errors import SourceTimeout
from context_engine.models import Caller, SearchResult


def down(_query: str, _domain: str, _top_k: int) -> Any:
    raise SourceTimeout("no answer within 4 s")


def test_the_parts_agree(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    caller = Caller(principal="u", app="a", conversation="c", message="m", on_behalf_of="b")
    result = ask([(1, [chunk_of("a", 0.9), chunk_of("b", 0.05)])], caller=caller)
    answer = search_answer(result)
    variables = answer.variables
    assert answer.text == variables["context"] and "[1] [Source: " in answer.text
    assert (variables["status"], variables["decision"], variables["warnings"]) == ("complete", "answered", [])
    assert variables["search_id"] == answer.json["search_id"] == variables["trace"]["search_id"]
    assert variables["trace"]["caller"] == answer.json["caller"] == {
        "principal": "u", "app": "a", "conversation": "c", "message": "m", "on_behalf_of": "b",
    }  # fmt: skip
    assert variables["trace"]["candidates"] == {"returned": 1, "merged": 0, "dropped": 1}
    assert next(stage["name"] for stage in variables["trace"]["stages"]) == "recall"


def test_what_was_dropped_stands_by_id_never_by_text(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    answer = search_answer(ask([(1, [chunk_of("a", 0.9), chunk_of("b", 0.05, "Left out words.")])]))
    (dropped,) = [fate for fate in answer.json["fates"] if fate["outcome"] == "dropped"]
    assert (dropped["chunk_id"], dropped["value"], dropped["limit"]) == ("b", 0.05, 0.15)
    assert dropped["reason"] and "Left out words" not in str(answer)


def test_a_source_that_is_down_is_named_everywhere(
    ask: Callable[..., SearchResult], chunk_of: Any, spec_of: Any
) -> None:
    answer = search_answer(ask([(1, [chunk_of("a", 0.9)]), (spec_of(2, title="Procedures"), down)]))
    assert answer.variables["status"] == "degraded" and "Procedures" in answer.text
    states = {one["source_id"]: (one["state"], one["error"]) for one in answer.variables["sources"]}
    assert states == {"t1": ("ok", None), "t2": ("failed", "source 't2': no answer within 4 s")}


def test_the_text_is_never_empty(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    assert search_answer(ask([(1, [])])).text == "No relevant information found"
    nothing_fits = ask([(1, [chunk_of("a", 0.9, "word " * 4000)])], context_max_tokens=64)
    assert search_answer(nothing_fits).text


def test_a_demo_says_so_first(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    answer = search_answer(ask([(1, [chunk_of("a", 0.9)])]), demo=True)
    assert answer.text.startswith(DEMO_LABEL) and answer.json["demo"] is True
    assert answer.variables["warnings"] == answer.json["warnings"] == [DEMO_LABEL]
    assert search_answer(ask([(1, [])]), demo=True).text == f"{DEMO_LABEL}\n\nNo relevant information found"


def test_a_cut_is_told(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    long = [chunk_of(name, 0.9, f"{name} " * 200_000) for name in ("alpha", "bravo", "charlie")]
    answer = search_answer(ask([(1, long)]))
    told = answer.variables["warnings"]
    assert [one.split(" was cut")[0] for one in told if " was cut" in one] == ["result", "json"]
    assert answer.json["warnings"] == told
    assert all("[cut: " in one["content"] for one in answer.variables["result"])
