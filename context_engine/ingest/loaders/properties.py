"""What a program wrote into a document's properties, as far as a person meant it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_NO_TITLE: Final = re.compile(
    r"(?i)(?:microsoft (?:word|excel|powerpoint)\b.*|(?:un(?:titled|benannt)|document|doc|book|slide|template)\s*\d*"
    r"|(?:presentation|präsentation|présentation|dokument|titel|title)\s*\d*|\[?(?:document |presentation )?title\]?"
    r"|(?:click|klicken).{0,20} to (?:add|edit) .{0,30}title.*|powerpoint presentation|word document|\W*"
    r"|(?:blank|normal|standard|basic|company|corporate|master|default|word|memo|letter|report)(?: \w+){0,2} template"
    r"|.*\.(?:docx?|docm|dot[xm]?|xls[xm]?|xlt[xm]?|pdf|indd|ppt[xm]?|pot[xm]?|rtf|odt|ott))"
)
_NO_AUTHOR: Final = re.compile(
    r"(?i)(?:python-docx|openpyxl|microsoft office user|administrator|admin|user|owner|author|unknown|root|\W*)"
)
_LIBRARY_DATE: Final = datetime(2013, 12, 23, 23, 15, tzinfo=UTC)  # stands in python-docx's template
_FIRST_YEAR: Final = 1990
_MOST: Final = 300
_LABEL: Final = re.compile(r"(?<!\S)([^\W\d_][^\W\d_.]*\.?(?: [^\W\d_]+\.?){0,3}) ?: ?")


def real_properties(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties title, version, author, created and modified, without what a program fills in by itself.

    Left out are names of files and programs as titles, names of libraries and accounts as authors, the date of a
    library's template, and dates before 1990.

    Args:
        given: texts, and moments as datetime; one without a zone is taken as UTC.
    """
    out: dict[str, Any] = {}
    for name, refused in (("title", _NO_TITLE), ("author", _NO_AUTHOR), ("version", re.compile(r"\W*"))):
        text = " ".join(str(given.get(name) or "").split())
        if text and len(text) <= _MOST and text.isprintable() and not refused.fullmatch(text):
            out[name] = text
    for name in ("created", "modified"):
        found = given.get(name)
        if not isinstance(found, datetime):
            continue
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        if found.year >= _FIRST_YEAR and found != _LIBRARY_DATE:
            out[name] = found
    return out


def moment(text: str) -> datetime | None:
    """Return a moment that a program wrote as ISO 8601, None for anything else."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def labelled(line: str) -> list[str]:
    """Return the labels of a page's head, which stand side by side, as lines of their own, with fewer and fewer words.

    >>> labelled("Harbour Bank Version: 3.2 Owner: Risk")
    ['Harbour Bank Version: 3.2', 'Bank Version: 3.2', 'Version: 3.2', 'Owner: Risk']
    """
    found = list(_LABEL.finditer(line))
    ends = [*(match.start() for match in found[1:]), len(line)]
    out = []
    for match, end in zip(found, ends):
        words = match[1].split()
        value = line[match.end() : end].strip(" |-–")
        out += [f"{' '.join(words[start:])}: {value}" for start in range(len(words))]
    return out
