"""A line of Markdown as a reader sees it: without its marks, HTML, entities and templating tags."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Final

_TAGS: Final = (
    "a|abbr|article|aside|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|footer"
    "|h[1-6]|header|hr|i|img|ins|kbd|li|main|mark|nav|ol|p|pre|q|s|samp|section|small|span|strike|strong|sub|summary|sup"
    "|table|tbody|td|tfoot|th|thead|time|tr|tt|u|ul|var|wbr"
)
_MOST_EMPTY: Final = 2_000  # characters of markup that may hold no word
_PLAIN_WORDS: Final = re.compile(r"^[^\S\n]*\w+,?[^\S\n]\w", re.MULTILINE)
PLACEHOLDER: Final = re.compile(r"\{\{[{&]?[^{}#/^!>]{1,200}\}?\}\}")
"""A placeholder that a template fills in later, `{{ company }}`: part of the text, though empty of meaning."""
_MARKS: Final = re.compile(r"[<&\[{*_`\\~]")
_CODE: Final = re.compile(r"(?<!`)(`{1,3})(?!`)(.{1,1000}?)(?<!`)\1(?!`)")
_HIDDEN: Final = re.compile("\ue000(\\d{1,6})\ue001")  # code, while what is around it is changed
_TEMPLATE: Final = re.compile(r"<%.{0,2000}?%>|\{%.{0,2000}?%\}|\{\{[#/^!>][^{}]{0,200}\}\}", re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.{0,2000}?-->", re.DOTALL)
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
    """Return the words of a text without its markup; of a link its text remains, of a picture its description.

    Code and placeholders such as `{{company}}` are kept as written.

    >>> without_markup('<a name="sec4"></a>4 **Limits** &amp; [waivers](https://bank.example/w) {#limits}')
    '4 Limits & waivers'
    """
    if not _MARKS.search(text):
        return " ".join(text.split())
    return " ".join(_outside_code(text, _plain, marked=False).split())


def without_html(text: str) -> str:
    """Return Markdown without HTML and templating tags; entities become their characters.

    >>> without_html('# <a name="s5"></a>5 Keys &amp; `<kbd>`')
    '# 5 Keys & `<kbd>`'
    """
    return _outside_code(text, _without_html, marked=True) if _MARKS.search(text) else text


def without_templating(text: str) -> str:
    """Return a text without tags that a program runs or replaces; placeholders for values are kept.

    >>> without_templating("<% if open %>{{#desk}}Desk {{name}}{{/desk}}{% include x.md %}")
    'Desk {{name}}'
    """
    return _TEMPLATE.sub("", text)


def has_words(text: str) -> bool:
    """Return whether a reader sees a letter or digit in a text, other than in anchors, empty divisions and rules.

    >>> has_words('<a name="s4"></a>\\n\\n<div class="breaker"></div>'), has_words("4")
    (False, True)
    """
    if len(text) <= _MOST_EMPTY and not _PLAIN_WORDS.search(text) and _MARKS.search(text):
        text = without_markup(text)
    return any(map(str.isalnum, text))


def _outside_code(text: str, change: Callable[[str], str], *, marked: bool) -> str:
    """Return a text changed outside of code; `marked`: code keeps its backquotes."""
    codes: list[str] = []

    def hide(code: re.Match[str]) -> str:
        codes.append(code[0] if marked else code[2])
        return f"\ue000{len(codes) - 1}\ue001"

    def show(place: re.Match[str]) -> str:
        return codes[int(place[1])] if int(place[1]) < len(codes) else place[0]

    return _HIDDEN.sub(show, change(_CODE.sub(hide, text)))


def _plain(text: str) -> str:
    """Return text without links, HTML, templating tags, attributes and emphasis."""
    for _ in range(2):  # a picture inside a link
        text = _IMAGE_OR_LINK.sub(r"\1", text)
    text = _ATTRIBUTES.sub("", _without_html(_ADDRESS.sub(r"\1", text)))
    return _unmarked(_ESCAPED.sub(r"\1", text))


def _without_html(text: str) -> str:
    text = _TAG.sub(_gap, _COMMENT.sub("", without_templating(text)))
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text)


def _gap(tag: re.Match[str]) -> str:
    """Return what replaces a tag: a blank if the tag separates words on a page, else nothing."""
    return " " if re.match(r"</?(?:br|td|th|tr|li|p|div|h\d|dd|dt|hr|img)\b", tag[0], re.IGNORECASE) else ""


def _unmarked(text: str) -> str:
    return _ESCAPED_MARK.sub(r"\1", _UNDERLINED.sub(r"\2", _EMPHASIS.sub(r"\2", text)))
