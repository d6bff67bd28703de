""""""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from html.parser import HTMLParser
from typing import Any

import pytest

from context_engine.apps.web.files.answer import answer_page
from context_engine.apps.web.result_words import passage_html
from context_engine.core.models import Chunk, Classification, SearchResult
from context_engine.errors import SourceTimeout

HOSTILE = (
    "</article><script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)> approval \u202erule\u202c "
    "[click](javascript:alert(1)) [bank](https://evil.example/) ![](http://evil.example/x.png) <http://evil.example>"
)

VOID = ("meta", "br", "hr", "i")


class Elements(HTMLParser):
    """Every element with its attributes; what is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def result(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> SearchResult:
    def down(_query: str, _domain: str, _top_k: int) -> list[Any]:
        raise SourceTimeout("no answer within 10 s", retryable=True)

    place = {"source_file": "npa/approval.pdf", "page": 7, "url": "https://policies.meridian.example/npa"}
    sops = [
        chunk_of(
            "a",
            0.9,
            "## 4 Sign-off\n\nThe approval rule:\n\n4. the board\n6. the desk",
            title="Product approval",
            document_id="NPA-1",
            document_version="3.2",
            section="4",
            heading_path=("4 Sign-off",),
            metadata=place,
            effective_from=date(2025, 3, 1),
            classification=Classification.CONFIDENTIAL,
        ),
        chunk_of("z", 0.01, "The cafeteria opens at noon."),
    ]
    web = [chunk_of("e", 0.8, HOSTILE, title="<b>T</b>' onclick='x", metadata={"url": "javascript:alert(1)"})]
    return ask([(1, down), (2, sops), (5, web)], "approval rule")


@pytest.fixture(scope="module")
def page(result: SearchResult) -> str:
    return answer_page(result, demo=True)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL).split())


def test_the_page_holds_the_whole_answer(page: str) -> None:
    text = text_of(page)
    for part in (
        "approval rule",
        "Answered; a source or a step is missing from this answer. 2 passages of 3 candidates, from 3 sources.",
        "Asked on 2 March 2026",
        "DEMO: an invented bank",
        "NPA-1 v3.2 §4 strong confidence",
        "Product approval · Sign-off",
        "File npa/approval.pdf, page 7",
        "Authority tier 2, bank SOP",
        "In force from 2025-03-01",
        "Classification confidential",
        "Unverified source: judge what it says, do not follow it.",
        "What was left out Why Passages Below the relevance limit 1",
        "t1 1 failed: no answer within 10 s 0",
        "Search s-000001",
    ):
        assert part in text, part


def test_the_query_s_words_are_marked_in_the_passage(page: str) -> None:
    assert "The <mark>approval</mark> <mark>rule</mark>:" in page


def test_confidential_text_and_a_missing_source_are_said_before_the_passages(page: str) -> None:
    head = text_of(page.split("<main>")[0])
    assert "This page holds confidential text" in head
    assert "t1 did not answer." in head


def test_nothing_a_document_holds_is_active(page: str) -> None:
    elements = Elements(page).seen
    assert not {"script", "img", "svg", "iframe", "object", "form", "link", "base"} & {tag for tag, _ in elements}
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    links = {attributes["href"] for tag, attributes in elements if tag == "a"}
    assert links == {"https://policies.meridian.example/npa"}
    assert "\u202e" not in page


def test_the_page_loads_nothing_and_forbids_scripts(page: str) -> None:
    policies = [a["content"] for tag, a in Elements(page).seen if a.get("http-equiv") == "Content-Security-Policy"]
    (policy,) = policies
    assert policy is not None and "default-src 'none'" in policy and "script-src" not in policy
    assert not re.search(r"<link|<img|@import|url\(|src=", page)


def test_the_page_can_be_read_aloud_in_the_dark_and_on_paper(page: str) -> None:
    assert "<html lang=en>" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert page.count("<h1") == 1
    assert "<span aria-hidden=true>" in page, "the bar is for the eye; the word says the same"
    assert "<th scope=col>" in page


def test_an_answer_with_nothing_in_it_says_so(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    text = text_of(answer_page(ask([(2, [chunk_of("a", 0.01)])])))
    assert "Nothing here is about the question; every source answered." in text
    assert "Out of scope 1" in text


def test_a_passage_keeps_the_document_s_own_numbers_and_tables() -> None:
    made = passage_html("4. four\n6. six\n\n| Limit | Unit |\n|---|--:|\n| 5 | USD |\n\n    a clause, indented", "")
    assert "4. four\n6. six" in made
    assert "<td>5</td>" in made
    assert "<pre>" not in made


def test_what_looks_like_html_in_a_text_stays_text() -> None:
    assert passage_html("x <form onclick=y> &lt;script&gt; a < b", "") == (
        "<p>x &lt;form onclick=y&gt; &lt;script&gt; a &lt; b</p>\n"
    )
