"""The text that pictures and controls of a page show: a description, a value, the chosen option."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from context_engine.ingest.loaders.markdown import one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

Keep = Callable[[str, str], None]
"""Takes text that is not shown, with its kind."""
CONTROLS: Final = frozenset(("img", "area", "input", "textarea", "select"))
"""Elements whose text is in their attributes, or is chosen from several."""
_PRESSED: Final = frozenset(("submit", "button", "reset", "image"))
_NOT_SHOWN: Final = frozenset(("hidden", "password", "file"))
_NAMES_A_FILE: Final = re.compile(r"\S+\.\w{3,4}")
_KIND: Final = "controls of forms"


def shown(node: LexborNode, keep: Keep) -> str:
    """Return the text shown by a picture or control, with spaces around it; its unused options go to `keep`."""
    attributes = node.attributes
    if node.tag in ("img", "area"):
        text = one_line(attributes.get("alt") or "")
        return f" [Picture: {text}] " if any(map(str.isalnum, text)) and not _NAMES_A_FILE.fullmatch(text) else ""
    if node.tag == "textarea":
        return f" {one_line(node.text() or '')} "
    if node.tag == "select":
        return f" {_chosen(node, keep)} "
    return f" {_input(attributes, keep)} "


def _input(attributes: dict[str, str | None], keep: Keep) -> str:
    kind = (attributes.get("type") or "text").strip().lower()
    value = one_line(attributes.get("value") or "")
    if kind in _NOT_SHOWN:
        return ""
    if kind in ("checkbox", "radio"):
        return "[x]" if "checked" in attributes else "[ ]"
    if kind in _PRESSED:
        keep(_KIND, value or one_line(attributes.get("alt") or ""))
        return ""
    if not value:
        keep(_KIND, one_line(attributes.get("placeholder") or ""))
    return value


def _chosen(node: LexborNode, keep: Keep) -> str:
    options = node.css("option")
    chosen = [option for option in options if "selected" in option.attributes]
    if not chosen and "multiple" not in node.attributes:
        chosen = options[:1]
    ids = {option.mem_id for option in chosen}
    others = (one_line(option.text() or "") for option in options if option.mem_id not in ids)
    groups = (one_line(group.attributes.get("label") or "") for group in node.css("optgroup"))
    for text in (*groups, *others):
        keep(_KIND, text)
    return ", ".join(text for option in chosen if (text := one_line(option.text() or "")))
