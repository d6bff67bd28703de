"""What the rows of a table are called: by the columns that tell them apart.

A column called an id and one called a name go first, then words, then what else differs from row to row; a column that
says the same in every row says nothing of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.ingest.declared_fields import ID_FIELDS
from context_engine.ingest.loaders.markdown import one_line

NAMING: Final = re.compile(r"(?i)(?:.*[ _])?(?:name|title)")
IDENTIFYING: Final = re.compile(r"(?i)(?:.*[ _])?(?:id|no\.?|number|code|ref\.?|reference|key)")
_NOT_TELLING: Final = frozenset(("version", "sheet", "table"))
_MOST_PARTS: Final = 4
_MOST_VALUE: Final = 80
_LEAST_SHARE: Final = 0.5


def telling_names(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the fields that tell rows apart: an id, a name or words, then what is needed beside them.

    Args:
        rows: the first rows of a table as fields.

    >>> rows = [("Fraud", "R-1", "Phishing"), ("Fraud", "R-2", "Theft")]
    >>> telling_names([dict(zip(("Kind", "Ref", "Risk"), row)) for row in rows])
    ('Ref', 'Risk')
    """
    names = list(dict.fromkeys(name for row in rows for name in row if name not in _NOT_TELLING))
    values = {name: [_value(row.get(name)) for row in rows] for name in names}
    differing = [name for name in names if len(rows) < 2 or len(set(values[name])) > 1]
    if not differing:
        return tuple(names[:1])
    identity = next(iter(_ordered(differing, ID_FIELDS[True], IDENTIFYING)), None)
    spoken = _spoken([name for name in differing if name != identity], values, len(rows))
    chosen = [name for name in (identity, spoken) if name] or differing[:1]
    while len(chosen) < _MOST_PARTS and (better := _better(chosen, differing, values)):
        chosen.append(better)
    return tuple(chosen)


def row_title(fields: Mapping[str, Any], telling: Sequence[str]) -> str:
    """Return what a row is called: "Phishing (R-14)" of a name and an id, else its telling values side by side.

    Args:
        fields: the row.
        telling: names of fields, as `telling_names` gives them.

    >>> row_title({"Ref": "R-14", "Risk": "Phishing"}, ("Ref", "Risk"))
    'R-14 · Phishing'
    >>> row_title({"id": "7", "name": "Theft"}, ("id", "name"))
    'Theft (7)'
    """
    values = {name: text for name in telling if (text := _value(fields.get(name)))}
    if len(values) == 2:
        (first, identity), (second, name) = values.items()
        if NAMING.fullmatch(second) and (first in ID_FIELDS[True] or IDENTIFYING.fullmatch(first)):
            return name if identity in name else f"{name} ({identity})"
    if values:
        return " · ".join(dict.fromkeys(values.values()))
    return next((text for value in fields.values() if (text := _value(value))), "")


def _ordered(names: Sequence[str], known: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """Return the names that are known, in that order, then those that fit a pattern."""
    return [name for name in known if name in names] + [name for name in names if pattern.fullmatch(name)]


def _spoken(names: Sequence[str], values: Mapping[str, Sequence[str]], count: int) -> str | None:
    """Return the field that says in words what a row is about: one called a name, else the first that differs."""
    if named := _ordered(names, ("title", "name"), NAMING):
        return named[0]
    wordy = [name for name in names if _is_wordy(values[name])]
    fitting = (name for name in wordy if len(set(values[name])) >= _LEAST_SHARE * count)
    return next(fitting, max(wordy, key=lambda name: len(set(values[name])), default=None))


def _is_wordy(values: Sequence[str]) -> bool:
    """Whether values are mostly short words, no numbers."""
    said = [value for value in values if value]
    words = sum(
        any(map(str.isalpha, value)) and not any(map(str.isdigit, value)) and "…" not in value for value in said
    )
    return words * 2 > len(said)


def _better(chosen: Sequence[str], names: Sequence[str], values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the field that tells the most rows apart beside those chosen, None where none tells more."""
    most, best = _combined(chosen, values), None
    for name in names:
        if name not in chosen and (found := _combined([*chosen, name], values)) > most:
            most, best = found, name
    return best


def _combined(names: Sequence[str], values: Mapping[str, Sequence[str]]) -> int:
    return len(set(zip(*(values[name] for name in names), strict=True)))


def _value(value: Any) -> str:
    """Return a value as part of a title: on one line, cut at a word."""
    text = one_line("" if value is None else str(value))
    if len(text) <= _MOST_VALUE:
        return text
    return f"{text[:_MOST_VALUE].rpartition(' ')[0] or text[:_MOST_VALUE]}…"
