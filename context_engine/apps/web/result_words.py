"""Words of a result for pages: decision, status, confidence, age, cautions, its passages and where they are from.

The text of a passage is safe HTML in which the words of the query are marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import also_in, location, query_marks
from context_engine.core.models import (
    Classification,
    Confidence,
    Decision,
    RankedChunk,
    SearchResult,
    SourceStatus,
    Status,
)
from context_engine.core.text import without_html

DECISIONS: Final = {
    Decision.ANSWERED: "Answered",
    Decision.NO_MATCH: "Nothing was found",
    Decision.OUT_OF_SCOPE: "Nothing here is about the question",
    Decision.INCOMPLETE: "Nothing can be concluded: evidence is missing",
}
STATUS: Final = {
    Status.COMPLETE: "every source answered",
    Status.DEGRADED: "a source or a step is missing from this answer",
    Status.FAILED: "no source answered",
}
BARS: Final = {Confidence.WEAK: 1, Confidence.FAIR: 2, Confidence.STRONG: 3}
"""Filled bars of a confidence, of three."""
_BEGIN: Final = "\ue000"
_END: Final = "\ue001"
"""Private characters around a quote while its passage is rendered."""
TIERS: Final = {1: "system of record", 2: "bank SOP", 3: "industry standard", 4: "external official", 5: "general web"}
UNVERIFIED: Final = "Unverified source: judge what it says, do not follow it."
_FLAGS: Final = {
    "below_threshold": "below the relevance limit",
    "superseded": "superseded by a newer version",
    "linked": "another passage leads to it",
    "effective_unknown": "says no dates of effect",
    "threshold_not_applicable": "without a score of the threshold's kind",
    "injection_suspected": "reads like instructions to a model: to be judged, not followed",
}
_AGES: Final = {"fresh": "fresh", "expired": "past its lifetime"}


def source_name(source: SourceStatus) -> str:
    """Return the title of a source, else its id."""
    return source.title or source.source_id


def age_words(chunk: RankedChunk) -> str:
    """Return in words whether a passage is still fresh."""
    return _AGES.get(str(chunk.provenance.extra.get("freshness")), "age unknown")


def cautions(result: SearchResult) -> Iterator[str]:
    """Yield what a reader must know before the passages."""
    highest = max((chunk.classification for chunk in result.chunks), key=lambda each: each.rank, default=None)
    if highest is not None and highest.rank > Classification.INTERNAL.rank:
        yield f"This page holds {highest} text: send it to nobody who may not read that."
    for sources in result.failed_alike:
        names = ", ".join(map(source_name, sources))
        yield f"{names} did not answer{'' if sources[0].state == 'failed' else ' in full'}."
    yield from result.beside_the_answer


def passage_facts(chunk: RankedChunk, source: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact about a passage's origin.

    Args:
        source: the name of its source.
    """
    own, tag = chunk.chunk, chunk.provenance
    version = f", version {own.document_version}" if own.document_version else ""
    place = location(own)
    yield "Source", source if source == chunk.source_id else f"{source} ({chunk.source_id})"
    yield "Authority", f"tier {chunk.authority_tier}, {TIERS[chunk.authority_tier]}"
    yield "Document", f"{own.document_id or own.title or 'unknown'}{version}"
    if own.path or place:
        yield ("File" if own.path else "Place"), ", ".join(filter(None, (own.path, place)))
    if own.effective_from or own.effective_to:
        days = (own.effective_from and f"from {own.effective_from}", own.effective_to and f"until {own.effective_to}")
        yield "In force", " ".join(day for day in days if day)
    yield "Fetched", f"{tag.fetched_at[:10]}, {age_words(chunk)}"
    yield "Classification", str(chunk.classification)
    flags = [_FLAGS.get(flag, flag.replace("_", " ")) for flag in chunk.flags if flag != "expired"]
    if flags:
        yield "Note", "; ".join(flags)
    if chunk.also_in:
        yield "Also in", also_in(chunk).removeprefix("also in ")
    yield "Text hash", str(tag.extra.get("content_sha256", ""))[:16]


_ENDS: Final = re.compile(f"([{_BEGIN}{_END}])")
_WORD: Final = re.compile(r"\w")
_LEFT_AS_TEXT: Final = ("list", "code", "lheading", "blockquote", "html_block", "html_inline", "reference")


def passage_html(content: str, query: str = "", quote: str = "") -> str:
    """Return a text as safe HTML in which the words of the query, or a quote, are marked.

    Args:
        content: the chunk's text, plain or Markdown.
        query: words match by their stems, as the search itself does.
        quote: a part of the text, whose white space may differ; one that is not in the text is ignored.
    """
    text = _with_ends(_ENDS.sub("", clean(without_html(content))), quote)
    return str(_markdown().render(text, {"query": query, "in_quote": False}))


def _with_ends(text: str, quote: str) -> str:
    """Return a text with a mark at each end of the quote, beside a word, where it disturbs no Markdown."""
    place = re.search(r"\s+".join(map(re.escape, clean(without_html(quote)).split())), text)
    words = [] if place is None else list(_WORD.finditer(text, *place.span()))
    if not words:
        return text
    start, end = words[0].start(), words[-1].end()
    return f"{text[:start]}{_BEGIN}{text[start:end]}{_END}{text[end:]}"


def marked(text: str, query: str) -> str:
    """Return a plain text as HTML in which the words of the query are marked."""
    out, end = "", 0
    for start, stop in query_marks(text, query):
        out += f"{escape(text[end:start])}<mark>{escape(text[start:stop])}</mark>"
        end = stop
    return out + escape(text[end:])


def _inline(text: str, env: Any) -> str:
    """Return a piece of a passage as HTML; `env` remembers whether the quote has begun and not ended."""
    out = ""
    for piece in _ENDS.split(text):
        if piece in (_BEGIN, _END):
            env["in_quote"] = piece == _BEGIN
        elif env["in_quote"]:
            out += f"<mark class=quote>{escape(piece)}</mark>" if piece else ""
        else:
            out += marked(piece, env["query"])
    return out


@cache
def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=_InertRenderer).enable("table")
    return made.disable(list(_LEFT_AS_TEXT))


class _InertRenderer(RendererHTML):
    """Renders text with marked words; of links, pictures and headings only the text remains."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _inline(tokens[idx].content, env)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<code>{_inline(tokens[idx].content, env)}</code>"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<pre>{_inline(tokens[idx].content, env)}</pre>\n"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _inline(self.renderInlineAsText(tokens[idx].children, options, env), env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return ""

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return ""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<p class=heading>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</p>\n"

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<div class=scroll tabindex=0 role=group aria-label=Table><table>\n"

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>\n"
