"""The text of a passage as safe HTML in which the words of the query are marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import query_marks
from context_engine.core.text import without_html

_BEGIN: Final = "\ue000"
_END: Final = "\ue001"
"""Private characters around a quote while its passage is rendered."""

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
