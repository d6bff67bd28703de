"""What pictures and the controls of forms show on a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from context_engine.ingest.loaders.html_boilerplate import Boilerplate
from context_engine.ingest.loaders.markdown import one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode


CONTROLS: Final = frozenset(("img", "area", "input", "textarea", "select"))
"""Elements whose text stands in their attributes, or is chosen from several."""
_PRESSED: Final = frozenset(("submit", "button", "reset", "image"))
_NOT_SHOWN: Final = frozenset(("hidden", "password", "file"))
_NAMES_A_FILE: Final = re.compile(r"\S+\.\w{3,4}")
_KIND: Final = "controls of forms"


def shown(node: LexborNode, aside: Boilerplate) -> str:
    """Return what a picture or control shows, with a space around it; what could be chosen and is not goes aside."""
    given = node.attributes
    if node.tag in ("img", "area"):
        text = one_line(given.get("alt") or "")
        return f" [Picture: {text}] " if any(map(str.isalnum, text)) and not _NAMES_A_FILE.fullmatch(text) else ""
    if node.tag == "textarea":
        return f" {one_line(node.text() or '')} "
    if node.tag == "select":
        return f" {_chosen(node, aside)} "
    return f" {_input(given, aside)} "


def _input(given: dict[str, str | None], aside: Boilerplate) -> str:
    kind = (given.get("type") or "text").strip().lower()
    value = one_line(given.get("value") or "")
    if kind in _NOT_SHOWN:
        return ""
    if kind in ("checkbox", "radio"):
        return "[x]" if "checked" in given else "[ ]"
    if kind in _PRESSED:
        aside.keep(_KIND, value or one_line(given.get("alt") or ""))
        return ""
    if not value:
        aside.keep(_KIND, one_line(given.get("placeholder") or ""))
    return value


def _chosen(node: LexborNode, aside: Boilerplate) -> str:
    options = node.css("option")
    chosen = [one for one in options if "selected" in one.attributes]
    if not chosen and "multiple" not in node.attributes:
        chosen = options[:1]
    ids = {one.mem_id for one in chosen}
    others = (one_line(one.text() or "") for one in options if one.mem_id not in ids)
    groups = (one_line(one.attributes.get("label") or "") for one in node.css("optgroup"))
    for text in (*groups, *others):
        aside.keep(_KIND, text)
    return ", ".join(text for one in chosen if (text := one_line(one.text() or "")))
