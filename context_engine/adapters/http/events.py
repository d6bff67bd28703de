"""Server-sent events: the text/event-stream form of the HTML standard, section 9.2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """An event; `name` is empty if the server gives none."""

    name: str
    data: str


def server_events(parts: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events of a stream as they become whole; an event that the end cuts is left out.

    Args:
        parts: the bytes as they come; a part may end anywhere, within a character too.
    """
    name, data = "", list[str]()
    for line in _lines(parts):
        if not line:
            if data:
                yield ServerEvent(name, "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield the whole lines, which end with CR, LF or both."""
    rest, is_first, after_return = bytearray(), True, False
    for part in parts:
        if after_return and part[:1] == b"\n":
            part = part[1:]
        after_return = part.endswith(b"\r") if part else after_return
        rest += part
        if b"\n" not in part and b"\r" not in part:
            continue
        *lines, last = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            yield (line.removeprefix(_BYTE_ORDER_MARK) if is_first else line).decode("utf-8", "replace")
            is_first = False
        rest = last
