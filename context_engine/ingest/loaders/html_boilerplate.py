"""The boilerplate of a page: kept apart from its content, so that the report can say what was left out."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.loaded_document import file_notice
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.text_overlap import quoted

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode


_NEVER_SHOWN: Final = frozenset(
    ("script", "style", "head", "-comment", "!doctype", "annotation", "annotation-xml", "embed")
)
_AROUND: Final = frozenset(("nav", "aside", "footer", "dialog"))
_CONTROLS: Final = frozenset(("button", "datalist", "progress", "meter"))
_INSTEAD: Final = frozenset(("noscript", "template", "iframe", "noframes", "canvas", "audio", "video", "svg"))
_RAW: Final = frozenset(("template", "iframe", "noframes"))  # what stands in them is not parsed
_FRAMES: Final = frozenset(("frame", "iframe"))
_ROLES: Final = frozenset(["navigation", "banner", "contentinfo", "complementary", "search", "dialog", "menu"])
_BOILERPLATE: Final = frozenset(
    (
        *("nav", "navbar", "navigation", "menu", "breadcrumb", "breadcrumbs", "sidebar", "footer", "skip-link"),
        *("cookie-banner", "cookie-notice", "pagination", "social-share"),
    )
)
_HIDDEN: Final = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*hidden")
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_NAVIGATION: Final = "navigation, page heads and feet"
_HIDDEN_TEXT: Final = "hidden text"


class Boilerplate:
    """Decides what is not content, and keeps its words by kind.

    Args:
        whole_page: whether what is read is the page, whose `<header>` is no content.
    """

    def __init__(self, *, whole_page: bool) -> None:
        self._around = _AROUND | {"header"} if whole_page else _AROUND
        self._kept: dict[str, list[str]] = {}
        self._frames: list[str] = []

    def drops(self, node: LexborNode) -> bool:
        """Whether an element is no content; its words are kept."""
        tag = node.tag or ""
        if tag in _NEVER_SHOWN:
            return True
        kind = self._kind(node, tag)
        if kind:
            self.keep(kind, _said(node, tag))
        if tag in _FRAMES:
            self._frames.append(node.attributes.get("src") or "one without an address")
        return kind is not None

    def keep(self, kind: str, text: str) -> None:
        """Keep words that are not in the text."""
        if text:
            self._kept.setdefault(kind, []).append(text)

    def beside(self, text: str) -> None:
        """Keep what stands beside the main content."""
        self.keep(_NAVIGATION, text)

    def take(self, other: Boilerplate) -> None:
        """Take over what another kept."""
        for kind, texts in other._kept.items():
            self._kept.setdefault(kind, []).extend(texts)
        self._frames += other._frames

    def notices(self) -> tuple[Notice, ...]:
        """Return what was set aside, one for each kind, and the frames."""
        found = [_set_aside(kind, list(dict.fromkeys(texts))) for kind, texts in self._kept.items()]
        if self._frames:
            left = f"frames are not read: {', '.join(self._frames)}"
            found.append(file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=list(self._frames)))
        return tuple(found)

    def _kind(self, node: LexborNode, tag: str) -> str | None:
        if tag in _INSTEAD or tag == "frame":
            return "text shown in place of something else"
        given = node.attributes
        if given and (
            "hidden" in given or given.get("aria-hidden") == "true" or _HIDDEN.search(given.get("style") or "")
        ):
            return _HIDDEN_TEXT
        if tag in _CONTROLS:
            return "controls of forms"
        if tag in self._around or (given and (given.get("role") in _ROLES or _is_boilerplate(given))):
            return _NAVIGATION
        return None


def _set_aside(kind: str, texts: list[str]) -> Notice:
    return file_notice(NoticeCode.BOILERPLATE_LEFT_OUT, f"{kind} set aside: {quoted(texts)}", kind=kind)


def _is_boilerplate(given: dict[str, str | None]) -> bool:
    names = f"{given.get('id') or ''} {given.get('class') or ''}".lower().split()
    return not _BOILERPLATE.isdisjoint(names)


def _said(node: LexborNode, tag: str) -> str:
    """Return the words in an element, without those of scripts in it."""
    if tag in _RAW:
        return one_line(unescape(_MARKUP.sub(" ", node.html or "" if tag == "template" else node.text() or "")))
    return one_line(" ".join(unescape(_MARKUP.sub(" ", node.html or "")).split()))
