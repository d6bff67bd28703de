"""Links to the place a chunk was cut from: a source's URL template, filled with what the chunk says of its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from context_engine.core.models.chunk import Chunk


LINK_FIELDS: Final = (
    *("path", "document_id", "document_version", "title", "section", "page", "line", "chunk_id"),
    "metadata.NAME",
)
"""What a template may name; NAME is any field of the chunk's metadata."""

_METADATA: Final = "metadata."
_START: Final = re.compile(r"https?://[^/{}?#@\s\\]+(?:[/?#]|$)|file:///", re.IGNORECASE)
_LONGEST: Final = 2000


def checked_link_template(template: str) -> str:
    """Return a URL template if it can be filled.

    >>> checked_link_template("https://policies.example/{path}#page={page}")
    'https://policies.example/{path}#page={page}'

    Raises:
        ValueError: it names a field that does not exist, or its scheme and host are not written out.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(
            f"{template!r} is not a template ({error}): write fields as {{path}}, a brace as {{{{"
        ) from None
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not _is_known(name)):
            raise ValueError(f"unknown field {{{name}}} in {template!r}: the fields are {', '.join(LINK_FIELDS)}")
    if not _START.match(template):
        raise ValueError(f"{template!r} must begin with https://HOST/, http://HOST/ or file:///, written out")
    return template


def _is_known(name: str) -> bool:
    return name in LINK_FIELDS[:-1] or (name.startswith(_METADATA) and len(name) > len(_METADATA))


def link_of(chunk: Chunk, template: str | None) -> str | None:
    """Return the address of a chunk's place, None where it has none.

    It is the template, filled, with values percent-encoded. A part after "#" whose field has no value is left out; any
    other field without a value leaves the chunk without a link of the template. Then the address that the chunk's own
    metadata gives serves, if it is a web address.

    Args:
        chunk: says path, page and so on.
        template: of its source; None where it has none.
    """
    return _filled(template, chunk) or next(filter(None, map(web_link, _own_addresses(chunk))), None)


def web_link(value: Any) -> str | None:
    """Return a value if it is an http or https address that is safe to show as a link, None if not.

    An address with a user's name or password in it is none.

    >>> web_link("https://policies.example/a#page=2"), web_link("javascript:alert(1)")
    ('https://policies.example/a#page=2', None)
    """
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    address = value.strip()
    if not address.isprintable() or any(char in address for char in ' "<>\\`{}'):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return address if parts.scheme.lower() in ("http", "https") and parts.hostname and "@" not in parts.netloc else None


def _own_addresses(chunk: Chunk) -> list[Any]:
    places = [place for place in (chunk.metadata, chunk.extra) if isinstance(place, Mapping)]
    return [place.get(name) for name in ("canonical_url", "url") for place in places]


def _filled(template: str | None, chunk: Chunk) -> str | None:
    if template is None:
        return None
    before, mark, fragment = template.partition("#")
    address = _with_values(before, chunk)
    rest = _with_values(fragment, chunk) if mark else None
    return address if address is None or not rest else f"{address}#{rest}"


def _with_values(template: str, chunk: Chunk) -> str | None:
    """Return a part of a template with its values, None if one is missing."""
    out = ""
    for text, name, _, _ in Formatter().parse(template):
        out += text
        if name is not None:
            value = _value(name, chunk)
            if value is None:
                return None
            out += quote(value, safe="/" if name == "path" else "", errors="surrogatepass")
    return out


def _value(name: str, chunk: Chunk) -> str | None:
    found = chunk.metadata.get(name[len(_METADATA) :]) if name.startswith(_METADATA) else getattr(chunk, name)
    return str(found) if isinstance(found, str | int | float) and str(found) else None
