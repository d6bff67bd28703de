"""What is said of a table of contents that stands in no chunk."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.loaded_document import file_notice
from context_engine.ingest.text_overlap import missing, quoted


def contents_left_out(lines: Sequence[str], text: str, pages: Sequence[int] = ()) -> Notice:
    """Return that a table of contents is left out; what only it says is quoted.

    Args:
        lines: of the table.
        text: what the document says without it.
        pages: that the table stands on, ascending; none where there are no pages.
    """
    left = f"a table of contents is left out: {len(lines)} lines{_on(pages)}"
    alone = missing(lines, text)
    message = f"{left}; not in the text: {quoted(alone)}" if alone else left
    detail = {"lines": len(lines)} | ({"pages": list(pages)} if pages else {})
    return file_notice(NoticeCode.CONTENTS_LEFT_OUT, message, **detail)


def _on(pages: Sequence[int]) -> str:
    if not pages:
        return ""
    return f" on page {pages[0]}" if len(pages) == 1 else f" on pages {', '.join(map(str, pages))}"
