"""Entity records as text, and that text cut between fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from context_engine.core.chunking.pack import Count, Piece, broken, furthest, tokens_between
from context_engine.core.chunking.spans import Span, lines, stripped

_MOST_DEPTH: Final = 8


def record_text(title: str, fields: Mapping[str, Any]) -> str:
    """Return a record as text: the title, then one line `field name: value` a field; empty values are left out.

    Nested fields are named by their path; lists of plain values are on one line.

    >>> record_text("Harbour Note (NPA-001)", {"risk_rating": "high", "limit": {"amount": 5, "currency": "USD"}})
    'Harbour Note (NPA-001)\\nrisk rating: high\\nlimit amount: 5\\nlimit currency: USD'
    """
    rows = [row for key, field in fields.items() for row in _rows(key, field)]
    return "\n".join(row for row in (_one_line(title), *rows) if row)


def field_spans(text: str, fields: Mapping[str, Any]) -> dict[str, Span]:
    """Return where the lines of each field stand in a record's text, in the order of the text.

    Fields without a line are left out; the result is empty if the text was not made from these fields.

    >>> field_spans("Harbour Note\\nlimit amount: 5\\nlimit currency: USD\\ndesk: Rates",
    ...             {"limit": {"amount": 5, "currency": "USD"}, "desk": "Rates", "remark": None})
    {'limit': (13, 48), 'desk': (49, 60)}
    """
    lines = {key: "\n".join(rows) for key, field in fields.items() if (rows := _rows(key, field))}
    start = len(text) - sum(map(len, lines.values())) - max(len(lines) - 1, 0)
    if not lines or not text.endswith("\n".join(lines.values())):
        return {}
    spans: dict[str, Span] = {}
    for key, line in lines.items():
        spans[key] = (start, start + len(line))
        start += len(line) + 1
    return spans


def field_pieces(text: str, size: int, count: Count) -> list[Piece]:
    """Return groups of a record's lines, each of at most `size` tokens. The title opens every piece, so that it can be
    read alone.

    The title is the first line. The span of a piece covers its lines without the repeated title. A
    line that does not fit is cut, and its field's name repeated.

    Args:
        count: counts tokens.
    """
    rows = [span for span in (stripped(text, *line) for line in lines(text, 0, len(text))) if span[0] < span[1]]
    if not rows:
        return []
    lead = _lead(text, rows[0], size, count)
    pieces: list[Piece] = []
    for before, span in _grouped(text, rows, lead, size, count):
        pieces.append(Piece(before + text[slice(*span)], span, None, (), len(pieces)))
    return pieces


def _lead(text: str, title: Span, size: int, count: Count) -> str:
    """Return the opening of every piece: the title, cut to half a piece."""
    start, end = broken(text, title, max(1, size // 2), count)[0]
    return text[start:end] + "\n"


def _grouped(text: str, rows: Sequence[Span], lead: str, size: int, count: Count) -> Iterator[tuple[str, Span]]:
    """Yield (the repeated text, the span of the piece's own lines)."""
    index = 0
    while index < len(rows):
        before = lead if index else ""
        tokens = partial(tokens_between, text, rows, partial(_counted, count, before), index)
        last = index
        if tokens(index) > size:
            yield from _parts(text, rows[index], before, size, count)
        else:
            last = furthest(tokens, size, index, len(rows))
            yield before, (rows[index][0], rows[last][1])
        index = last + 1


def _parts(text: str, row: Span, lead: str, size: int, count: Count) -> Iterator[tuple[str, Span]]:
    """Cut one line; from the second part on the field's name is repeated if there is room for it."""
    start, end = row
    name, colon, _ = text[start:end].partition(": ")
    again = f"{lead}{name} (continued): "
    if not lead or not colon or count(again) * 4 > size * 3:
        yield from ((lead, span) for span in broken(text, row, size, partial(_counted, count, lead)))
        return
    value = (start + len(name) + len(colon), end)
    for number, span in enumerate(broken(text, value, size, partial(_counted, count, again))):
        yield (again, span) if number else (lead, (start, span[1]))


def _counted(count: Count, before: str, text: str) -> int:
    return count(before + text)


def _rows(key: Any, field: Any) -> list[str]:
    """Return the lines of one field."""
    if not isinstance(field, (str, int, float)) and isinstance(field, (Mapping, list, tuple)):
        return [f"{name}: {value}" for name, value in _flat(str(key), field, 0)]
    shown = _shown(field)
    return [f"{_spoken(str(key))}: {shown}"] if shown else []


def _flat(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of every plain value inside a field."""
    if isinstance(value, Mapping) and depth < _MOST_DEPTH:
        for key, inner in value.items():
            yield from _flat(f"{name} {key}", inner, depth + 1)
    elif (
        isinstance(value, (list, tuple))
        and depth < _MOST_DEPTH
        and any(isinstance(item, (Mapping, list)) for item in value)
    ):
        for number, inner in enumerate(value, start=1):
            yield from _flat(f"{name} {number}", inner, depth + 1)
    else:
        shown = _shown(value)
        if shown:
            yield _spoken(name), shown


@lru_cache(maxsize=1024)
def _spoken(name: str) -> str:
    """Return the name of a field as words."""
    return _one_line(name.replace("_", " "))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _one_line(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown for shown in map(_shown, value) if shown)
    return _one_line(str(value))


def _one_line(text: str) -> str:
    return " ".join(text.split())
