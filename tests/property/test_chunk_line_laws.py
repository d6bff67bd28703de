"""Whatever a chunk holds, its first line and its text come back as they were."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.chunking.chunk_line import escaped, line_of, read_line, restored, with_line
from context_engine.core.models import Chunk

PARTS = st.sampled_from(
    ["› ", "›", " › ", " · ", "·", "\\", "\\\\", "…", "\n", "\n\n", "\r\n", "\r", "# ", "## ", "### 4.1 Desks",
     "4.1 Desks", "\u2028", "\x85", "\ufeff", "\u200b", "\x00", "\xa0", " ", "page 3", "version ", "section ",
     "no section", "cited as ", "in force from 2026-01-01", "Rules", "限额", "Article 5", "\ud800"]
)  # fmt: skip
ANY = st.text(max_size=30) | st.lists(PARTS, max_size=12).map("".join)
MAYBE = st.none() | ANY
DAYS = st.none() | st.dates() | st.sampled_from([date.min, date.max])


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    path = tuple(draw(st.lists(ANY, max_size=4)))
    shown = "".join(f"## {one}\n\n" for one in path[draw(st.integers(0, 4)) :])
    metadata = {"page": draw(st.none() | st.integers(-1, 10_000)), "reference": draw(MAYBE | st.integers())}
    return Chunk(
        content=draw(st.just("") | st.just(shown)) + draw(ANY),
        document_id=draw(MAYBE),
        title=draw(MAYBE),
        document_version=draw(MAYBE),
        heading_path=path,
        section=draw(MAYBE),
        effective_from=draw(DAYS),
        effective_to=draw(DAYS),
        metadata=metadata,
    )


@given(chunks(), st.booleans(), st.booleans())
def test_line_and_text_come_back(chunk: Chunk, document: bool, place: bool) -> None:
    line = line_of(chunk, document=document, place=place)
    assert read_line(with_line(line, chunk.content)) == (line or None, chunk.content)


@given(chunks(), st.integers(1, 4))
def test_a_text_written_again_and_again_comes_back(chunk: Chunk, times: int) -> None:
    line, text = line_of(chunk), chunk.content
    for _ in range(times):
        text = with_line(line, text)
    for _ in range(times):
        read, text = read_line(text)
        assert read == (line or None)
    assert text == chunk.content


@given(ANY)
def test_an_escaped_text_has_no_line_of_ours(text: str) -> None:
    assert read_line(escaped(text)) == (None, text)
    assert restored(escaped(text)) == text
    assert not any(line.startswith("›") for line in escaped(text).split("\n"))


@given(ANY)
def test_only_what_is_written_is_read(text: str) -> None:
    line, content = read_line(text)
    assert line is None or with_line(line, content) == text
