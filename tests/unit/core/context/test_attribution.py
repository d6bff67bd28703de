from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.core.context import ApproxTokenCounter, assemble, build_context_block
from context_engine.core.context.passage import joined, passage_of
from context_engine.core.context.render import attributions

NONCE = "7f3a9c21"


@pytest.fixture
def cited(ranked: Callable[..., Any]) -> Callable[..., list[str]]:
    def cite(*places: dict[str, Any]) -> list[str]:
        blocks = [
            joined([passage_of(ranked(rank, f"Rule {rank}.", **place))])[0] for rank, place in enumerate(places, 1)
        ]
        return attributions(blocks, NONCE)

    return cite


def test_a_citation_names_the_page(cited: Callable[..., list[str]]) -> None:
    on = {"title": "Passwords", "section": "4.2"}
    assert cited({**on, "metadata": {"page": 7}}) == ["[Source: Passwords, Section 4.2, page 7]"]
    assert cited({**on, "metadata": {"page": 7, "page_end": 9}}) == ["[Source: Passwords, Section 4.2, pages 7-9]"]


def test_two_passages_of_one_section_are_told_apart_by_their_page(cited: Callable[..., list[str]]) -> None:
    on = {"title": "Passwords", "section": "4.2"}
    assert cited({**on, "metadata": {"page": 7}}, {**on, "metadata": {"page": 8}}) == [
        "[Source: Passwords, Section 4.2, page 7]",
        "[Source: Passwords, Section 4.2, page 8]",
    ]


def test_two_passages_of_one_page_are_told_apart_by_their_part(cited: Callable[..., list[str]]) -> None:
    on = {"title": "Passwords", "section": "4.2", "document_id": "IT-7"}
    assert cited({**on, "position": 11}, {**on, "position": 4}, {"title": "Cards"}) == [
        "[Source: Passwords, Section 4.2, part 12]",
        "[Source: Passwords, Section 4.2, part 5]",
        "[Source: Cards]",
    ]


def test_documents_of_one_title_are_told_apart_by_their_file_or_version(cited: Callable[..., list[str]]) -> None:
    assert cited(
        {"title": "Introduction", "metadata": {"source_file": "cards/intro.md"}},
        {"title": "Introduction", "metadata": {"source_file": "loans/intro.md"}},
    ) == ["[Source: Introduction, cards/intro.md]", "[Source: Introduction, loans/intro.md]"]
    assert cited(
        {"title": "Limits", "document_id": "L", "document_version": "1"},
        {"title": "Limits", "document_id": "L", "document_version": "2"},
    ) == ["[Source: Limits, L v1]", "[Source: Limits, L v2]"]


def test_the_source_tells_apart_what_stands_in_two(cited: Callable[..., list[str]]) -> None:
    assert cited({"title": "Fees", "source": "sops"}, {"title": "Fees", "source": "web"}) == [
        "[Source: Fees, sops]",
        "[Source: Fees, web]",
    ]


def test_what_says_nothing_of_its_place_is_numbered(cited: Callable[..., list[str]]) -> None:
    assert cited({"title": "Fees"}, {"title": "FEES"}) == ["[Source: Fees, passage 1]", "[Source: FEES, passage 2]"]


def test_a_document_cannot_take_the_label_of_another(cited: Callable[..., list[str]]) -> None:
    labels = cited({"title": "Fees"}, {"title": "Fees, passage 1"}, {"title": "Fees"})
    assert len({label.casefold() for label in labels}) == 3


def test_the_text_says_file_page_and_link(ranked: Callable[..., Any]) -> None:
    place = {"source_file": "it/passwords.pdf", "page": 7, "url": "https://policies.meridian.example/a[1]·b"}
    chunks = [ranked(1, "Twelve characters.", title="Passwords", metadata=place)]
    context = assemble(chunks, budget=1000, counter=ApproxTokenCounter(), nonce=NONCE)
    assert "### [1] [Source: Passwords, page 7]\n" in context.text
    assert " · file it/passwords.pdf · " in context.text
    assert " · https://policies.meridian.example/a%5B1%5D%C2%B7b\n" in context.text, "no address fakes a label"
    (citation,) = context.citations
    assert (citation.path, citation.page, citation.url) == ("it/passwords.pdf", 7, place["url"])


def test_a_chunk_dict_says_the_same(ranked: Callable[..., Any]) -> None:
    place = {"source_file": "it/passwords.pdf", "page": 7, "url": "https://policies.meridian.example/a"}
    given = ranked(1, "Twelve characters.", title="Passwords", metadata=place).to_dict()
    assert (given["page"], given["url"]) == (7, place["url"])
    text = build_context_block([given])
    assert "[Source: Passwords, page 7]" in text
    assert "https://policies.meridian.example/a" in text


def test_no_script_address_reaches_the_text(ranked: Callable[..., Any]) -> None:
    text = build_context_block([{"content": "Fees.", "url": "javascript:alert(1)", "title": "Fees"}])
    assert "javascript" not in text
