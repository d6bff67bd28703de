""""""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from context_engine.apps.cli.search.explanation import print_explanation
from context_engine.apps.cli.search.result_table import Places, print_result
from context_engine.apps.web.naming import candidate_names
from context_engine.core.models import Chunk, Condition, FilterOp, SearchResult, Settings
from context_engine.errors import SourceTimeout

RULE = "The approval rule: a new product is signed off by the committee before the first trade."


def shown(result: SearchResult, width: int = 140, printer: Callable[..., None] = print_result) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    printer(console, result)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def result(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk], now: Any) -> SearchResult:
    def down(_query: str, _domain: str, _top_k: int) -> list[Any]:
        raise SourceTimeout("no answer within 10 s", retryable=True)

    fresh, old = now - timedelta(minutes=5), now - timedelta(days=30)
    place = {"document_version": "3.2", "title": "Product approval", "heading_path": ("4 Sign-off",)}
    sops = [
        chunk_of("b", 0.80, RULE, document_id="SOP-1", section="4", fetched_at=fresh, **place),
        chunk_of("f", 0.80, f"{RULE} ", document_id="SOP-2", section="9.1", fetched_at=fresh),
        chunk_of("z", 0.05, "The cafeteria opens at noon.", document_id="SOP-3", section="1"),
    ]
    web = [chunk_of("d", 0.85, "An approval rule from the web.", title="Blog", fetched_at=old)]
    return ask([(1, down), (2, sops), (5, web)], "approval rule", stage2_top_k=5)


@pytest.mark.parametrize("width", [40, 50, 71, 80, 100, 116, 140, 200])
def test_no_line_is_wider_than_the_terminal_but_the_summary(result: SearchResult, width: int) -> None:
    lines = shown(result, width).splitlines()
    table = lines[: lines.index("")] if "" in lines else lines
    assert max(map(len, table)) <= width


@pytest.mark.parametrize("width", [80, 140])
def test_a_row_says_rank_confidence_tier_source_title_section_and_age(result: SearchResult, width: int) -> None:
    text = " ".join(shown(result, width).split())
    for part in ("1 ▪▪▪ strong 2 SOP SOP-1 v3.2 §4", "Product approval · Sign-off", "also in SOP-2 §9.1", "t2 · fresh"):
        assert part in text
    for part in ("2 ▪▪▪ strong 5 web Blog", "t5 · expired (fetched 2026-01-31) · untrusted"):
        assert part in text


def test_the_final_score_is_for_the_explanation(result: SearchResult) -> None:
    assert f"{0.6 * 0.80 + 0.4 * 0.3:.3f}" == "0.600"
    assert "0.600" not in shown(result)
    assert "= 0.6000" in shown(result, 140, print_explanation)


def test_the_query_words_are_marked(result: SearchResult) -> None:
    console = Console(file=io.StringIO(), width=140, force_terminal=True, color_system="standard", highlight=False)
    print_result(console, result)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[1;33mapproval\x1b[0m" in text
    assert "\x1b[1;33mrule\x1b[0m" in text


def test_a_degraded_search_names_the_source_and_the_reason(result: SearchResult) -> None:
    assert "source t1 failed (tier 1, timeout): no answer within 10 s" in shown(result)


def test_the_last_line_sums_up(result: SearchResult) -> None:
    last = shown(result).splitlines()[-1]
    assert last.startswith("degraded · answered · 2 of 4 candidates from 2 of 3 sources · ")
    assert last.endswith("· search s-000001")


def test_nothing_relevant_is_said_plainly(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    out_of_scope = ask([(2, [chunk_of("a", 0.01)])])
    assert shown(out_of_scope).startswith("No relevant information found. Use other words")
    assert "out_of_scope" in shown(out_of_scope)
    assert shown(ask([(2, [])])).startswith("No relevant information found. Use other words")


def test_a_filter_that_left_nothing_is_said(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    result = ask([(2, [chunk_of("a", 0.9)])], filters=Condition("title", FilterOp.EQ, "Limits"))
    text = shown(result)
    [notice] = result.notices
    assert notice.code == "filter_left_nothing" and notice.message in text


def test_missing_evidence_is_said(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    result = ask([(1, []), (2, [chunk_of("a", 0.9)])], require_tiers=(1,))
    text = shown(result)
    (notice,) = result.notices
    assert notice.code == "required_tier_missing" and notice.message in text
    assert "incomplete" in text


def test_a_document_cannot_steer_the_terminal(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    evil = chunk_of(
        "a\x1b[2J", 0.9, "approval \x1b[31mrule [bold]x[/bold]\x07", title="T\x1b]0;x\x07", section="4\x1bc"
    )
    text = shown(ask([(5, [evil])]))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x[/bold]" in text


def test_the_explanation_tells_the_whole_account(result: SearchResult) -> None:
    text = shown(result, 140, print_explanation)
    words = " ".join(text.split())
    for title in ("Funnel", "Sources", "Scores", "Merged and dropped", "Swaps by authority"):
        assert title in text
    assert "recall 4 4" in words
    assert "t1 1 record failed" in words
    assert "timeout: no answer within 10 s" in words
    assert "0.6 × 0.8000 + 0.4 × 0.30 = 0.6000" in text
    assert "SOP-2 §9.1 t2 → SOP-1 v3.2 §4" in words
    assert "SOP-3 §1 t2 0.050 (limit 0.150)" in words
    assert "SOP-1 v3.2 §4 (tier 2) passed Blog (tier 5): relevance gap 0.050 overturned" in words
    assert "stage2_top_k 5 call" in words


def test_the_explanation_of_nothing_is_short(ask: Callable[..., SearchResult]) -> None:
    text = shown(ask([(2, [])]), 80, print_explanation)
    assert "Funnel" in text
    assert "Scores" not in text
    assert "Swaps" not in text


def test_a_document_known_by_a_machine_s_number_is_called_by_its_title_and_place(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    number = "6c1e7a52-9a3c-4bd7-8ab9-0123456789ab"
    chunks = [
        chunk_of("c1", 0.9, RULE, document_id=number, title="Notice 12", position=2),
        chunk_of("c2", 0.2, "Another approval rule.", document_id=number, title="Notice 12", section="7", position=5),
        chunk_of("c3", 0.0, "The cafeteria opens at noon.", document_id=number, title="Notice 12", position=0),
    ]
    result = ask([(4, chunks)])
    for text in (shown(result), shown(result, 80), shown(result, 140, print_explanation)):
        assert "Notice 12 #3" in text and "Notice 12 §7" in text
        assert number not in text
    assert "Notice 12 #1 t4 0.000 (limit 0.150)" in " ".join(shown(result, 140, print_explanation).split())
    assert shown(result).count("Notice 12") == 2, "the title is the name: it is not said again as the heading"


def test_two_texts_under_one_id_have_a_name_each(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    """The second text is told apart by its hash, and known to the account under that name."""
    twins = [chunk_of("same", 0.9, RULE), chunk_of("same", 0.0, "The cafeteria opens at noon.", title="Menu")]
    result = ask([(2, twins)])
    (dropped,) = (fate for fate in result.fates if fate.outcome == "dropped")
    assert candidate_names(result)[dropped.source_id, dropped.chunk_id] in ("Menu", "same~" + dropped.chunk_id[5:])
    assert {fate[:2] for fate in result.fates} == set(candidate_names(result))


def test_the_funnel_and_the_dropped_call_a_step_the_same(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    kept, weak = chunk_of("a", 0.9, RULE), chunk_of("b", 0.01, "The cafeteria opens at noon.")
    words = " ".join(shown(ask([(2, [kept, weak])]), 140, print_explanation).split())
    assert re.search(r"measure 2 2 .* scope 2 2 .* relevance 2 1 ", words)
    assert "1 dropped at relevance: below the relevance limit" in words
    nothing = " ".join(shown(ask([(2, [weak])]), 140, print_explanation).split())
    assert re.search(r"scope 1 0 .*relevance 0 0 ", nothing)
    assert "1 dropped at scope: out of scope" in nothing


def test_the_explanation_lists_only_settings_that_differ_from_the_default(ask: Callable[..., SearchResult]) -> None:
    default = Settings().min_relevance_score
    same = shown(ask([(2, [])], min_relevance_score=default), 140, print_explanation)
    assert "Settings that differ from the default" not in same
    other = shown(ask([(2, [])], min_relevance_score=default, min_chunks=2), 140, print_explanation)
    table = other.split("Settings that differ from the default")[1]
    assert "min_chunks 2 call" in " ".join(table.split())
    assert "min_relevance_score" not in table


PLACED = {
    "document_id": "passwords",
    "title": "Password policy",
    "heading_path": ("Length",),
    "metadata": {"source_file": "it/security/passwords.pdf", "page": 7, "page_end": 8},
}

LINK = "https://policies.meridian.example/it/security/passwords.pdf#page=7"


@pytest.fixture
def placed(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk], spec_of: Callable[..., Any]
) -> SearchResult:
    spec = spec_of(2).model_copy(update={"url": "https://policies.meridian.example/{path}#page={page}"})
    return ask([(spec, [chunk_of("a", 0.9, "Passwords have twelve characters.", **PLACED)])], "password length")


@pytest.mark.parametrize("width", [50, 80, 140])
def test_a_row_says_title_file_and_page(placed: SearchResult, width: int) -> None:
    text = " ".join(shown(placed, width).split())
    assert "Password policy" in text, "a document known by its file's name alone is called by its title"
    assert "passwords.pdf · pages 7-8" in text
    assert "#1" not in text, "the page is the better place"


def test_a_pipe_gets_the_address_whole_on_a_line_of_its_own(placed: SearchResult) -> None:
    assert f"1  {LINK}" in shown(placed, 50).splitlines()


def test_a_terminal_opens_the_place_from_the_table(placed: SearchResult) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard", highlight=False)
    print_result(console, placed, Places(placed, None))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count(f";{LINK}\x1b\\") == 3, "title, file and page are links"
    assert "1  https" not in text


def test_a_long_path_loses_its_first_folders_and_no_word_is_broken(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    words = ["counterparties", "acknowledge", "notwithstanding", "institutional", "requirements", "of", "approval"]
    path = "/".join(["documentation"] * 6 + ["outsourcing-register-of-the-bank.md"])
    title = "Outsourcing arrangements and institutional responsibilities of the counterparties"
    chunk = chunk_of("a", 0.9, " ".join(words * 4), title=title, document_id="D", metadata={"source_file": path})
    result = ask([(2, [chunk])])
    for width in (50, 80, 120):
        shown_words = set(shown(result, width).split())
        assert {*title.split(), *words} <= shown_words
        assert any(one.startswith("…/") and one.endswith("/outsourcing-register-of-the-bank.md") for one in shown_words)


def test_wide_characters_keep_within_the_terminal_and_to_three_lines(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    chunk = chunk_of("a", 0.9, "新產品在首次交易之前必須由委員會批准" * 30, title="新產品審批程序" * 5, section="4")
    for width in (50, 80, 120):
        lines = shown(ask([(2, [chunk])], "新產品"), width).split("\n\n")[0].splitlines()
        assert max(map(cell_len, lines)) <= width
        assert sum("新產品在首次交易" in line or "委員會" in line for line in lines) <= 3


def test_a_terminal_breaks_the_last_line_between_words(result: SearchResult) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    console = Console(file=Terminal(), width=50, color_system=None, highlight=False, markup=False)
    print_result(console, result)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 50
    assert {"candidates", "s-000001", "(tier"} <= set(" ".join(lines).split())
