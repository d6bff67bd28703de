"""Which elements of a page its styles hide: by display, size, opacity, colour or position.

Text that a reader does not see is how instructions are smuggled to a model. `style` attributes are read, and the rules
of `<style>` elements whose selectors the parser knows. A later rule may show an element again; the rest of the cascade
is ignored. Style sheets in other files are not fetched. A page with such a file may have any background, so its white
text is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_DECLARATION: Final = re.compile(r"\s*([\w-]+)\s*:\s*([^;]*)")
_RULE: Final = re.compile(r"([^{}@;]+)\{([^{}]*)\}")
_OTHER_MEDIA: Final = re.compile(r"@media[^{]*\bprint\b[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", re.IGNORECASE)
_FAR: Final = re.compile(r"-\d{3,}(?:\.\d+)?(?:px|pt|em|rem|%)?|-\d{2,}(?:em|rem)")
_CLIPPED: Final = re.compile(r"rect\((?:\s*[01](?:px)?[\s,]*){4}\)|inset\(\s*(?:50|100)%\s*\)")
_TINY: Final = (
    r"0+(?:\.0*)?(?:px|pt|em|rem|%)?|\.0+(?:px|pt|em|rem)|(?:0*\.\d+|1(?:\.\d*)?)px|(?:0*\.\d+|1(?:\.[0-5]\d*)?)pt"
    r"|0*\.[01]\d*(?:em|rem)"
)
_HIDING: Final = (
    ("display", re.compile("none")),
    ("visibility", re.compile("hidden|collapse")),
    ("font-size", re.compile(_TINY)),
    ("opacity", re.compile(r"0+(?:\.0*)?%?|\.0+")),
    ("text-indent", _FAR),
    ("clip", _CLIPPED),
    ("clip-path", _CLIPPED),
    ("color", re.compile("transparent")),
)
_WHITE: Final = {"#fff": "white", "#ffffff": "white", "rgb(255,255,255)": "white"}
_GROUNDS: Final = ("background", "background-color", "background-image")
_NO_GROUND: Final = ("", "none", "transparent", "inherit", "initial", "unset", "white")
_NOISE: Final = re.compile(r"\s*!\s*important|(?<=,)\s+")
_MAY_BE_WHITE: Final = 'font[color], [style*="fff"], [style*="FFF"], [style*="white"], [style*="255"]'
_SHADED: Final = "[bgcolor], [background], [style*=background]"
_ELSEWHERE: Final = "link[rel~=stylesheet], link[rel~=STYLESHEET]"
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
    values = _values(style)
    if any(name in values and pattern.fullmatch(values[name]) for name, pattern in _HIDING):
        return True
    if "color" in values and _colour(values["color"]) == _colour(
        values.get("background-color") or values.get("background") or ""
    ):
        return True
    return values.get("position") in ("absolute", "fixed") and any(
        _FAR.fullmatch(values.get(side, "")) for side in ("left", "top", "right", "bottom")
    )


def hidden_elements(page: LexborHTMLParser) -> frozenset[int]:
    """Return the memory ids of the elements that the page's own rules hide, or that are white on a white page."""
    styles = "\n".join(node.text() or "" for node in page.css("style"))
    rules = list(_rules(styles)) if len(styles) <= _MOST_STYLES and ":" in styles else []
    hidden: set[int] = set()
    for selector, declarations in rules:
        if hides(declarations):
            hidden |= _matched(page, selector)
        elif hidden and _shows(declarations):
            hidden -= _matched(page, selector)
    elsewhere = "@import" in styles or page.css_first(_ELSEWHERE) is not None
    return frozenset(hidden if elsewhere else hidden | _white_on_white(page, rules))


def _white_on_white(page: LexborHTMLParser, rules: Sequence[tuple[str, str]]) -> set[int]:
    """Return the white elements that are in no element with a background."""
    white = {node.mem_id: node for node in page.css(_MAY_BE_WHITE)[:_MOST_ELEMENTS] if _is_white(node)}
    for selector, declarations in rules:
        if _colour(_values(declarations).get("color", "")) == "white":
            white |= {node.mem_id: node for node in _nodes(page, selector)}
    if not white:
        return set()
    shaded = {node.mem_id for node in page.css(_SHADED)[:_MOST_ELEMENTS] if _is_shaded(node)}
    for selector, declarations in rules:
        if _has_ground(declarations):
            shaded |= _matched(page, selector)
    return {number for number, node in white.items() if not _is_within(node, shaded)}


def _is_white(node: LexborNode) -> bool:
    values = _values(node.attributes.get("style") or "")
    return _colour(values.get("color") or (node.attributes.get("color") or "").strip().lower()) == "white"


def _is_shaded(node: LexborNode) -> bool:
    given = node.attributes
    own = _colour((given.get("bgcolor") or "").strip().lower()), given.get("background") or ""
    return any(ground not in _NO_GROUND for ground in own) or _has_ground(given.get("style") or "")


def _has_ground(declarations: str) -> bool:
    values = _values(declarations)
    return any(_colour(values.get(name, "")) not in _NO_GROUND for name in _GROUNDS)


def _is_within(node: LexborNode, shaded: set[int]) -> bool:
    around: LexborNode | None = node
    while around is not None and around.mem_id not in shaded:
        around = around.parent
    return around is not None


def _rules(styles: str) -> Iterator[tuple[str, str]]:
    bare = _OTHER_MEDIA.sub("", _COMMENT.sub("", styles))
    for number, match in enumerate(_RULE.finditer(bare)):
        if number >= _MOST_RULES:
            return
        for selector in match[1].split(","):
            if selector.strip() and ":" not in selector:
                yield selector.strip(), match[2]


def _matched(page: LexborHTMLParser, selector: str) -> set[int]:
    return {node.mem_id for node in _nodes(page, selector)}


def _nodes(page: LexborHTMLParser, selector: str) -> list[LexborNode]:
    from selectolax.lexbor import SelectolaxError

    try:
        return page.css(selector)[:_MOST_ELEMENTS]
    except SelectolaxError:  # a selector that the parser does not know
        return []


def _shows(declarations: str) -> bool:
    values = _values(declarations)
    return values.get("display", "none") != "none" or values.get("visibility") == "visible"


def _values(declarations: str) -> dict[str, str]:
    return {name.lower(): _plain(value) for name, value in _DECLARATION.findall(declarations)}


def _plain(value: str) -> str:
    plain = value.strip().lower()
    return _NOISE.sub("", plain) if "!" in plain or "," in plain else plain


def _colour(value: str) -> str:
    return _WHITE.get(value.replace(" ", ""), value)
