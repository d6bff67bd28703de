"""Quotes in passages, addresses of pages, and the funnel as a picture."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.answer.values import Quote
from context_engine.apps.web.addresses import document_address, own_address, with_query
from context_engine.apps.web.charts import funnel_bars
from context_engine.apps.web.result_words import passage_html
from context_engine.apps.web.search_view import _last_line
from context_engine.service.contract.explanation import ExplainedStage

ROWS = "| Rating | FCAA |\n|---|---|\n| Severe | 24 hours |\n| Minor | 24 hours |\n"


def stage(name: str, entered: int, left: int) -> ExplainedStage:
    return ExplainedStage(name=name, entered=entered, left=left)


def test_a_quote_is_marked_across_lines_and_emphasis():
    html = passage_html("A **loss** must\nbe reported. Late.", quote="A **loss** must be reported.")

    assert html == (
        "<p><mark class=quote>A </mark><strong><mark class=quote>loss</mark></strong><mark class=quote> must</mark>\n"
        "<mark class=quote>be reported</mark>. Late.</p>\n"
    )


def test_a_quoted_row_is_marked_and_no_other_row():
    html = passage_html(ROWS, quote="Severe | 24 hours")

    assert html.count("<mark class=quote>") == 2
    assert html.index("<mark class=quote>24 hours") < html.index("Minor")


def test_a_quote_that_is_not_in_the_text_marks_nothing():
    assert passage_html("A rule.", quote="Another rule.") == passage_html("A rule.")
    assert passage_html("A rule.", quote=" | ") == passage_html("A rule.")


@settings(max_examples=20)
@given(st.text(max_size=40), st.text(max_size=10))
def test_no_text_and_no_quote_leaves_private_characters(text, quote):
    html = passage_html(f"{text} {quote}", quote=quote)

    assert "\ue000" not in html
    assert "\ue001" not in html


def test_the_last_line_of_a_quoted_row_is_its_row():
    places = [(word, ROWS.index(word)) for word in ("Rating", "Severe", "24 hours")]
    quotes = [Quote("[1]", at, at + len(word), word) for word, at in places]

    assert _last_line(quotes, ROWS) == "Severe | 24 hours"


def test_an_address_keeps_every_character_of_its_ids():
    address = document_address("ORM", "sops", "a/b ü#1", chunk_id="a/b#2", version="3.2", quoted="x" * 900)

    assert address.startswith("/documents/ORM/sops/a%2Fb%20%C3%BC%231?version=3.2&chunk=a%2Fb%232&quote=xxx")
    assert address.endswith("x#passage")
    assert address.count("x") == 800
    assert document_address("ORM", "sops", None) == "/documents/ORM/sops/"


def test_an_address_of_another_site_becomes_the_front_page():
    assert [own_address(text) for text in ("//b.example/x", "https://b.example", "/\\b.example", "x", "/?q=1")] == [
        *("/", "/", "/", "/"),
        "/?q=1",
    ]


def test_empty_values_stay_out_of_an_address():
    assert with_query("/", {"q": "a b", "persona": ""}) == "/?q=a+b"


def test_a_bar_is_as_long_as_what_is_left():
    first, second, third, last = funnel_bars(
        [stage("recall", 40, 40), stage("filter", 40, 40), stage("dedup", 40, 30), stage("select", 30, 8)]
    )

    assert (first.width, third.width, last.width) == (340, 340 * 30 // 40, 340 * 8 // 40)
    assert (first.y, second.y, third.y, last.y) == (0, None, 36, 72)
    assert (third.removed, last.removed) == (10, 22)


def test_a_funnel_of_nothing_has_no_bars():
    assert funnel_bars(()) == ()
    assert funnel_bars([stage("recall", 0, 0)])[0].width == 0
