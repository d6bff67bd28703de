"""Markdown and plain text: `.md`, `.markdown`, `.txt`.

Read: the unchanged text, in any encoding that can be recognised (see `encoding`), with uniform line ends; in `.txt`,
words split by a hyphen at the end of a line are put together (see `split_words`); YAML front matter between two lines
`---` at the start, and labelled lines below the title ("Version: 3.2"). Nothing is rendered or left out: HTML inside
Markdown is kept. A text that only links to another place, or holds only template tags, gives no document (reported).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_engine.core.text import PLACEHOLDER, has_words, without_markup, without_templating
from context_engine.ingest.header import BrokenFrontMatter, front_matter, header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.encoding import decoded
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.split_words import with_whole_words

_EMPTY: Final = "has no text: write some, or take the file out of the folder"
LEADS_ELSEWHERE: Final = "is a stub that only links to another page: it gives no passage"
ONLY_TAGS: Final = "holds only template tags: it gives no passage"
_MOST_STUB: Final = 1_500  # characters
_HEADING: Final = re.compile(r"^[ \t]{0,3}#{1,6}[ \t].*$|^[^\n]+\n[ \t]{0,3}(?:=+|-{3,})[ \t]*$", re.MULTILINE)
_PLACE: Final = re.compile(
    r"!?\[[^\[\]\n]{0,300}\](?:\([^()\s]{1,1000}(?:[ \t]+\"[^\"\n]{0,300}\")?\)|\[[^\[\]\n]{0,100}\])"
    r"|<a\b[^<>]{0,1000}>[^<>]{0,300}</a>|<?https?://[^\s<>]{1,1000}>?"
    r"|`?(?:[\w.-]{1,100}/){0,12}[\w.-]{1,100}\.(?:md|markdown|html?|pdf|docx?|txt|adoc|rst)\b`?",
    re.IGNORECASE,
)
_STUB_WORDS: Final = (
    "a an and at be been bookmark bookmarks by can content contents current document documents file find for "
    "found from go has have here in instead into is it its latest link lives location longer maintained merged "
    "moved new no note now of on or page pages permanently please policy redirect redirected redirecting "
    "redirects relocated renamed replaced see superseded the there this to under update version view visit was "
    "website will with you your"
)
_FORMULA: Final = frozenset(_STUB_WORDS.split())
"""Words of a stub that points to a text elsewhere; any other word makes it a document."""
_FIELDS: Final = ("redirect_to", "redirect", "redirect_url")


def load_text(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Markdown or text file."""
    text = decoded(file.read(), file.name)
    if isinstance(text, Skipped):
        yield text
        return
    try:
        fields, end = front_matter(text.text)
    except BrokenFrontMatter as error:
        yield Skipped(file.name, one_line(str(error)), error.line)
        return
    body = text.text[end:]
    if file.name.lower().endswith(".txt"):
        body = with_whole_words(body)
    if why := _nothing(body, fields):
        yield Skipped(file.name, why, error=False)
        return
    yield LoadedDocument(
        path=file.name,
        text=body,
        offset=end,
        fields=fields,
        header=header_fields(body),
        location={"line": text.text.count("\n", 0, end) + 1},
        notices=text.notices,
    )


def _nothing(body: str, fields: Mapping[str, Any]) -> str | None:
    if leads_elsewhere(body, fields):
        return LEADS_ELSEWHERE
    if not body.strip():
        return _EMPTY
    return ONLY_TAGS if only_templating(body) else None


def leads_elsewhere(text: str, fields: Mapping[str, Any]) -> bool:
    """Return whether a text only refers to one other place; `fields` is its front matter.
    >>> leads_elsewhere("# Leave\\n\\nThis page has moved to [Absence](absence.md).", {})
    True
    >>> leads_elsewhere("See [Absence](absence.md) for leave of more than ten days.", {})
    False
    """
    if not has_words(text):
        return any(fields.get(name) for name in _FIELDS)
    if len(text) > _MOST_STUB:
        return False
    below = _HEADING.sub("", text)
    rest, places = _PLACE.subn(" ", below)
    return places == 1 and all(word in _FORMULA for word in re.findall(r"\w+", without_markup(rest).casefold()))


def only_templating(text: str) -> bool:
    """Return whether a text consists only of template tags, such as `{% include scope.md %}`.

    >>> only_templating("{{ site.time }}\\n{% include scope.md %}"), only_templating("{{company}} policy")
    (True, False)
    """
    tagged = any(sign in text for sign in ("{%", "{{", "<%"))
    return tagged and not has_words(PLACEHOLDER.sub("", without_templating(text)))
