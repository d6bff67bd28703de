from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from context_engine.core.models import Chunk, SourceSpec, checked_link_template, link_of, web_link

TEMPLATE = "https://policies.meridian.example/{path}#page={page}"


def chunk_at(**metadata: Any) -> Chunk:
    return Chunk(content="Passwords have twelve characters.", document_id="IT 7", section="4.2", metadata=metadata)


def test_a_template_is_filled_with_the_place_of_the_chunk() -> None:
    chunk = chunk_at(source_file="it/password policy.pdf", page=7)
    assert link_of(chunk, TEMPLATE) == "https://policies.meridian.example/it/password%20policy.pdf#page=7"


def test_a_value_cannot_leave_its_place_in_the_address() -> None:
    chunk = chunk_at(owner="a/b?c#d&e", source_file="x y/ü.md")
    assert link_of(chunk, "https://wiki.example/{metadata.owner}?d={document_id}&s={section}") == (
        "https://wiki.example/a%2Fb%3Fc%23d%26e?d=IT%207&s=4.2"
    )
    assert link_of(chunk, "https://wiki.example/{path}") == "https://wiki.example/x%20y/%C3%BC.md"


def test_a_text_without_pages_links_to_its_document() -> None:
    assert link_of(chunk_at(source_file="a.md"), TEMPLATE) == "https://policies.meridian.example/a.md"


def test_without_a_value_before_the_fragment_there_is_no_link_of_the_template() -> None:
    assert link_of(chunk_at(page=7), TEMPLATE) is None
    assert link_of(chunk_at(url="https://a.example/x"), TEMPLATE) == "https://a.example/x"


def test_the_document_s_own_address_serves_without_a_template() -> None:
    assert link_of(chunk_at(url="https://a.example/x"), None) == "https://a.example/x"
    both = chunk_at(url="https://a.example/x?session=1", canonical_url="https://a.example/x")
    assert link_of(both, None) == "https://a.example/x"
    assert link_of(chunk_at()._replace(extra={"url": "http://b.example"}), None) == "http://b.example"


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JAVASCRIPT://x.example/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/hosts",
        "//evil.example/x",
        "https://",
        "https://user:secret@a.example/",
        "https://a.example/ x",
        'https://a.example/"onclick="x',
        "https://a.example/\nx",
        "https://[broken",
        "https://a.example/" + "x" * 3000,
        7,
        None,
    ],
)
def test_what_is_no_safe_web_address_is_no_link(address: Any) -> None:
    assert web_link(address) is None
    assert link_of(chunk_at(url=address), None) is None


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("https://a.example/{pages}", r"unknown field {pages}.*path, document_id.*metadata.NAME"),
        ("https://a.example/{}", "unknown field {}"),
        ("https://a.example/{path!r}", "unknown field {path}"),
        ("https://a.example/{path:>9}", "unknown field {path}"),
        ("https://a.example/{metadata.}", "unknown field"),
        ("https://a.example/{path", "write fields as {path}"),
        ("https://{document_id}.example/", "written out"),
        ("https://bank.example{path}", "written out"),
        ("https://key@bank.example/{path}", "written out"),
        ("javascript:{path}", "written out"),
        ("{path}", "written out"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_where_it_is_written(template: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked_link_template(template)
    with pytest.raises(ValidationError, match="url"):
        SourceSpec(id="s", type="bank_sop", url=template)


@pytest.mark.parametrize("template", [TEMPLATE, "file:///srv/policies/{path}", "http://wiki.local:8080/?id={chunk_id}"])
def test_templates_that_can_be_used(template: str) -> None:
    assert SourceSpec(id="s", type="bank_sop", url=template).url == template


@pytest.mark.parametrize(
    ("value", "page"),
    [
        (7, 7),
        ("7", 7),
        (7.0, 7),
        (" 12 ", 12),
        (0, None),
        (-1, None),
        (True, None),
        ("iv", None),
        (7.5, None),
        (None, None),
    ],
)
def test_a_page_is_a_number_from_one(value: Any, page: int | None) -> None:
    assert chunk_at(page=value).page == page
