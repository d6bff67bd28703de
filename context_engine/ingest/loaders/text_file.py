"""Markdown and plain text: `.md`, `.markdown`, `.txt`.

Read: the text as it stands, in any encoding that can be told (see `encoding`), every line end as one; YAML front
matter between two lines `---` at the start, and labelled lines below the title ("Version: 3.2"). Not read: nothing is
rendered or left out; HTML inside Markdown stays as it is written. A text that only leads to another place, or holds
nothing but templating tags, gives no document (reported).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_engine.ingest.header import BrokenFrontMatter, front_matter, header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.encoding import decoded
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.stub import LEADS_ELSEWHERE, ONLY_TAGS, leads_elsewhere, only_templating

_EMPTY: Final = "has no text: write some, or take the file out of the folder"


def load_text(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Markdown or text file."""
    found = decoded(file.read(), file.name)
    if isinstance(found, Skipped):
        yield found
        return
    try:
        fields, end = front_matter(found.text)
    except BrokenFrontMatter as error:
        yield Skipped(file.name, one_line(str(error)), error.line)
        return
    body = found.text[end:]
    if why := _nothing(body, fields):
        yield Skipped(file.name, why, error=False)
        return
    yield LoadedDocument(
        path=file.name,
        text=body,
        offset=end,
        fields=fields,
        header=header_fields(body),
        location={"line": found.text.count("\n", 0, end) + 1},
        notices=found.notices,
    )


def _nothing(body: str, fields: Mapping[str, Any]) -> str | None:
    """Return why there is nothing to read in a text below its front matter."""
    if leads_elsewhere(body, fields):
        return LEADS_ELSEWHERE
    if not body.strip():
        return _EMPTY
    return ONLY_TAGS if only_templating(body) else None
