"""Texts in which a program fills in values: `.erb`, `.tmpl`.

Read as what the suffix before says: Markdown and plain text as they stand, with their tags; HTML without its tags
`<% … %>`. Without such a suffix, what begins with an element is HTML. Not read: what is neither (`.yml.tmpl`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from context_engine.core.text import without_templating
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.html_file import load_html
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.text_file import load_text

_TEXT: Final = (".markdown", ".md", ".txt")
_HTML: Final = (".htm", ".html")
_FIRST: Final = 4096


def load_template(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a template."""
    kind = PurePath(file.path.stem).suffix.lower()
    if kind in _TEXT or (kind not in _HTML and not kind[1:].isalpha() and not _is_html(file)):
        yield from load_text(file)
    elif kind in _HTML or not kind[1:].isalpha():
        yield from load_html(file, template=True)
    else:
        reason = f"{kind}{file.path.suffix} cannot be read; of templates Markdown, text and HTML are"
        yield Skipped(file.name, reason, error=False)


def _is_html(file: SourceFile) -> bool:
    with file.open() as stream:
        return without_templating(stream.read(_FIRST).decode("utf-8", "replace")).lstrip().startswith("<")
