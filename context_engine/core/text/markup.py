"""A line of Markdown as a reader sees it: without its marks, HTML, entities and templating tags."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

__all__ = ["PLACEHOLDER", "without_markup"]

_TAGS: Final = (
    "a|abbr|article|aside|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|footer"
    "|h[1-6]|header|hr|i|img|ins|kbd|li|main|mark|nav|ol|p|pre|q|s|samp|section|small|span|strike|strong|sub|summary|sup"
    "|table|tbody|td|tfoot|th|thead|time|tr|tt|u|ul|var|wbr"
)
PLACEHOLDER: Final = re.compile(r"\{\{[{&]?[^{}#/^!>]{1,200}\}?\}\}")
"""What a template fills in later, `{{ company }}`: part of the text, though it says nothing yet."""
_MARKS: Final = re.compile(r"[<&\[{*_`\\~]")
_CODE: Final = re.compile(r"(?<!`)(`{1,3})(?!`)(.{1,1000}?)(?<!`)\1(?!`)")
_TEMPLATE: Final = re.compile(r"<%.{0,2000}?%>|\{%.{0,2000}?%\}|\{\{[#/^!>][^{}]{0,200}\}\}", re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.{0,5000}?-->", re.DOTALL)
_IMAGE_OR_LINK: Final = re.compile(
    r"!?\[((?:[^\[\]]|\[[^\[\]]{0,300}\]){0,1000}+)\]"  # its words
    r"(?:\([ \t]*<?(?:[^()\s<>]|\([^()\s]{0,300}\)){0,4000}+>?(?:\s{1,9}(?:\"[^\"]{0,500}\"|'[^']{0,500}'))?[ \t]*\)"
    r"|\[[^\[\]]{0,300}\])"
)
_ADDRESS: Final = re.compile(r"<((?:https?://|mailto:)[^<>\s]{1,2000})>")
_TAG: Final = re.compile(rf"</?(?:{_TAGS})(?:\s[^<>]{{0,2000}})?/?>", re.IGNORECASE)
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,31});")
_ATTRIBUTES: Final = re.compile(r"[ \t]*(?<!\{)\{:?[ \t]*[#.][\w-][^{}]{0,300}\}(?!\})|[ \t]*(?<!\{)\{:[^{}]{0,300}\}")
_EMPHASIS: Final = re.compile(r"(?<![\w*\\])(\*{1,3})(?=[^\s*])(.{1,1000}?)(?<=[^\s*\\])\1(?![\w*])")
_UNDERLINED: Final = re.compile(r"(?<![\w\\])(_{1,3}|~~)(?=[^\s_~])(.{1,1000}?)(?<=[^\s_~\\])\1(?![\w])")
_ESCAPED: Final = re.compile(r"\\([\\`{}\[\]()#+.!|>-])")
_ESCAPED_MARK: Final = re.compile(r"\\([*_~])")


def without_markup(text: str) -> str:
    """Return the words of a text: of a link its own and not its target, of a picture what is said for it.

    What stands in code is kept as it is written, and so is a placeholder such as `{{company}}`.

    >>> without_markup('<a name="sec4"></a>4 **Limits** &amp; [waivers](https://bank.example/w) {#limits}')
    '4 Limits & waivers'
    """
    if not _MARKS.search(text):
        return " ".join(text.split())
    out: list[str] = []
    start = 0
    for code in _CODE.finditer(text):
        out += [_plain(text[start : code.start()]), code[2]]
        start = code.end()
    out.append(_plain(text[start:]))
    return " ".join(_unmarked("".join(out) if len(out) > 1 else out[0]).split())


def _plain(text: str) -> str:
    """Return text that is no code without links, HTML, templating tags and attributes."""
    text = _COMMENT.sub("", _TEMPLATE.sub("", text))
    for _ in range(2):  # a picture inside a link
        text = _IMAGE_OR_LINK.sub(r"\1", text)
    text = _TAG.sub(_gap, _ADDRESS.sub(r"\1", text))
    return _ESCAPED.sub(r"\1", _ATTRIBUTES.sub("", _ENTITY.sub(lambda found: unescape(found[0]), text)))


def _gap(tag: re.Match[str]) -> str:
    """Return what stands between the words on both sides of a tag: a blank where the tag parts them on a page."""
    return " " if re.match(r"</?(?:br|td|th|tr|li|p|div|h\d|dd|dt|hr|img)\b", tag[0], re.IGNORECASE) else ""


def _unmarked(text: str) -> str:
    return _ESCAPED_MARK.sub(r"\1", _UNDERLINED.sub(r"\2", _EMPHASIS.sub(r"\2", text)))
