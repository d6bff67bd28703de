"""Which elements of a page its styles hide: by display, size, opacity, colour or position.

Text that a reader does not see is how instructions are smuggled to a model. `style` attributes are read, and the rules
of `<style>` elements whose selectors the parser knows. A later rule may show an element again; the rest of the cascade
is ignored. Style sheets in other files are not fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser


_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_DECLARATION: Final = re.compile(r"\s*([\w-]+)\s*:\s*([^;]*)")
_RULE: Final = re.compile(r"([^{}@;]+)\{([^{}]*)\}")
_OTHER_MEDIA: Final = re.compile(r"@media[^{]*\bprint\b[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", re.IGNORECASE)
_ZERO: Final = re.compile(r"0+(?:\.0*)?(?:px|pt|em|rem|%)?|\.0+(?:px|em)?")
_FAR: Final = re.compile(r"-\d{3,}(?:\.\d+)?(?:px|pt|em|rem|%)?|-\d{2,}(?:em|rem)")
_CLIPPED: Final = re.compile(r"rect\((?:\s*[01](?:px)?[\s,]*){4}\)|inset\(\s*(?:50|100)%\s*\)")
_WHITE: Final = {"#fff": "white", "#ffffff": "white", "rgb(255,255,255)": "white"}
_MOST_RULES: Final = 2_000
_MOST_STYLES: Final = 1 << 20
_MOST_ELEMENTS: Final = 100_000


def hides(style: str) -> bool:
    """Return whether the declarations of a style hide an element.

    >>> hides("display: none"), hides("font-size:0"), hides("left:-9999px; position:absolute"), hides("color: red")
    (True, True, True, False)
    """
    if ":" not in style:
        return False
    values = {name.lower(): _plain(value) for name, value in _DECLARATION.findall(style)}
    off = values.get("position") in ("absolute", "fixed") and any(
        _FAR.fullmatch(values.get(side, "")) for side in ("left", "top", "right", "bottom")
    )
    background = values.get("background-color") or values.get("background") or ""
    return (
        values.get("display") == "none"
        or values.get("visibility") in ("hidden", "collapse")
        or any(_ZERO.fullmatch(values.get(name, "")) for name in ("font-size", "opacity"))
        or _FAR.fullmatch(values.get("text-indent", "")) is not None
        or _CLIPPED.fullmatch(values.get("clip") or values.get("clip-path") or "") is not None
        or off
        or values.get("color") == "transparent"
        or ("color" in values and _colour(values["color"]) == _colour(background))
    )


def hidden_elements(page: LexborHTMLParser) -> frozenset[int]:
    """Return the memory ids of the elements that the page's own rules hide."""
    styles = "\n".join(node.text() or "" for node in page.css("style"))
    if len(styles) > _MOST_STYLES or ":" not in styles:
        return frozenset()
    hidden: set[int] = set()
    for selector, declarations in _rules(styles):
        if hides(declarations):
            hidden |= _matched(page, selector)
        elif hidden and _shows(declarations):
            hidden -= _matched(page, selector)
    return frozenset(hidden)


def _rules(styles: str) -> Iterator[tuple[str, str]]:
    bare = _OTHER_MEDIA.sub("", _COMMENT.sub("", styles))
    for number, match in enumerate(_RULE.finditer(bare)):
        if number >= _MOST_RULES:
            return
        for selector in match[1].split(","):
            if selector.strip() and ":" not in selector:
                yield selector.strip(), match[2]


def _matched(page: LexborHTMLParser, selector: str) -> set[int]:
    from selectolax.lexbor import SelectolaxError

    try:
        return {node.mem_id for node in page.css(selector)[:_MOST_ELEMENTS]}
    except SelectolaxError:  # a selector that the parser does not know
        return set()


def _shows(declarations: str) -> bool:
    values = {name.lower(): _plain(value) for name, value in _DECLARATION.findall(declarations)}
    return values.get("display", "none") != "none" or values.get("visibility") == "visible"


def _plain(value: str) -> str:
    return re.sub(r"\s*!\s*important|(?<=,)\s+", "", value.strip().lower())


def _colour(value: str) -> str:
    return _WHITE.get(value.replace(" ", ""), value)
