"""The headings above a chunk on their way into Dify and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.sources.dify.breadcrumb import parse_breadcrumb, with_breadcrumb
from context_engine.core.models import Chunk


def chunk(content: str, *path: str, section: str | None = None, reference: str | None = None) -> Chunk:
    metadata = {"reference": reference} if reference else {}
    return Chunk(content=content, title="Rules", heading_path=path, section=section, metadata=metadata)


def test_a_section_that_shows_where_it_stands_is_written_as_it_is() -> None:
    given_ = chunk("## 4 Limits\n\n### 4.1 Desks\n\nNone.", "4 Limits", "4.1 Desks", section="4.1")
    assert with_breadcrumb(given_) == given_.content


def test_what_a_text_does_not_show_stands_in_its_first_line() -> None:
    given_ = chunk("### 4.1 Desks\n\nNone.", "4 Limits", "4.1 Desks", section="4.1")
    assert with_breadcrumb(given_) == "› Rules › 4 Limits\n\n### 4.1 Desks\n\nNone."
    later = chunk("and so on.", "4 Limits", "4.1 Desks", section="4.1", reference="637(4)")
    assert with_breadcrumb(later) == "› Rules › 4 Limits › 4.1 Desks · 637(4)\n\nand so on."


def test_a_text_without_headings_is_written_as_it_is() -> None:
    assert with_breadcrumb(chunk("# Rules\n\nPreface.")) == "# Rules\n\nPreface."


@pytest.mark.parametrize("content", ["› Not ours › 1\n\nText.", "› one line", "›", ""])
def test_a_text_that_looks_like_a_trail_comes_back_as_it_was(content: str) -> None:
    assert parse_breadcrumb(with_breadcrumb(chunk(content))).content == content


NUMBERS = st.sampled_from(["1", "4.2", "A3", ""])
HEADINGS = st.lists(st.tuples(NUMBERS, st.sampled_from(["Limits", "Desks and books", "限额"])), max_size=3)


@given(
    headings=HEADINGS,
    shown=st.integers(0, 3),
    section=st.sampled_from([None, "4.2", "1", "Annex"]),
    reference=st.sampled_from([None, "637(4)"]),
    text=st.text(max_size=60),
)
def test_text_headings_section_and_reference_come_back(
    headings: list[tuple[str, str]], shown: int, section: str | None, reference: str | None, text: str
) -> None:
    path = tuple(" ".join(part for part in one if part) for one in headings)
    lines = [f"## {one}" for one in path[len(path) - min(shown, len(path)) :]]
    given_ = chunk("\n\n".join([*lines, f"Text {text}"]), *path, section=section, reference=reference)
    assert parse_breadcrumb(with_breadcrumb(given_)) == (given_.content, path, section, reference)
