"""The text of a passage as safe HTML in which the words of the query are marked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from context_engine.apps.web.inert import clean
from context_engine.apps.web.snippet import query_marks
from context_engine.core.text import without_html

_LEFT_AS_TEXT: Final = ("list", "code", "lheading", "blockquote", "html_block", "html_inline", "reference")


def passage_html(content: str, query: str) -> str:
    """Return a text as safe HTML in which the words of the query are marked.

    Args:
        content: the chunk's text, plain or Markdown.
        query: words match by their stems, as the search itself does.
    """
    text = clean(without_html(content))
    return str(_markdown().render(text, {"query": query}))


def marked(text: str, query: str) -> str:
    """Return a plain text as HTML in which the words of the query are marked."""
    out, end = "", 0
    for start, stop in query_marks(text, query):
        out += f"{escape(text[end:start])}<mark>{escape(text[start:stop])}</mark>"
        end = stop
    return out + escape(text[end:])


@cache
def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=_InertRenderer).enable("table")
    return made.disable(list(_LEFT_AS_TEXT))


class _InertRenderer(RendererHTML):
    """Renders text with marked words; of links, pictures and headings only the text remains."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return marked(tokens[idx].content, env["query"])

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<code>{marked(tokens[idx].content, env['query'])}</code>"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<pre>{marked(tokens[idx].content, env['query'])}</pre>\n"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return marked(self.renderInlineAsText(tokens[idx].children, options, env), env["query"])

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return ""

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return ""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<p class=heading>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</p>\n"
