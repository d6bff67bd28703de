"""The addresses of the pages that other pages link to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

DOCUMENTS: Final = "/documents"
SEARCHES: Final = "/searches"
_MOST_QUOTE: Final = 800


def document_address(
    domain: str, source_id: str, document_id: str | None, *, chunk_id: str = "", version: str = "", quoted: str = ""
) -> str:
    """Return the address of a document's page.

    Args:
        document_id: None: the passage belongs to no document; it is shown alone.
        chunk_id: the passage to mark and scroll to.
        version: "": that of the passage, else the newest in force.
        quoted: a part of the passage to mark; a longer one is cut off.
    """
    path = "/".join(map(_segment, (domain, source_id, document_id or "")))
    return with_query(f"{DOCUMENTS}/{path}", {"version": version, "chunk": chunk_id, "quote": quoted[:_MOST_QUOTE]}) + (
        "#passage" if chunk_id else ""
    )


def search_address(search_id: str) -> str:
    """Return the address of the page of a recorded search."""
    return f"{SEARCHES}/{_segment(search_id)}"


def with_query(address: str, values: Mapping[str, str]) -> str:
    """Return an address with the values that are not empty."""
    given = {name: value for name, value in values.items() if value}
    return f"{address}?{urlencode(given, errors='replace')}" if given else address


def own_address(address: str) -> str:
    """Return an address of this service; the front page for any other, so that no link leads elsewhere."""
    parts = urlsplit(address.replace("\\", "/"))
    own = not parts.scheme and not parts.netloc and address.startswith("/") and address.isprintable()
    return address if own else "/"


def _segment(text: str) -> str:
    return quote(text, safe="", errors="replace")
