"""A bank's own patterns, such as staff ids: a name and a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from context_engine.core.protocols import PersonalData
from context_engine.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_LONGEST: Final = 1000
_REPEAT_IN_REPEAT: Final = re.compile(r"\((?:[^()\\]|\\.)*(?<!\\)(?:[+*]|\{\d*,\})\??\)(?:[+*]|\{\d*,\})")


class OwnPattern(NamedTuple):
    """What is looked for, and what it is called in a pseudonym."""

    kind: str
    written: re.Pattern[str]


def read_patterns(patterns: Mapping[str, str]) -> tuple[OwnPattern, ...]:
    """Return patterns ready for use.

    Args:
        patterns: name -> regular expression; the name, in capitals, stands in the pseudonym.

    Raises:
        ConfigError: a name or an expression that cannot be used; `key` is the name.
    """
    return tuple(OwnPattern(_checked_name(name).upper(), _compiled(name, text)) for name, text in patterns.items())


def find_own(text: str, patterns: Sequence[OwnPattern]) -> Iterator[PersonalData]:
    """Yield what the patterns match, in the text as it is written; the value is without blanks, in small letters."""
    for pattern in patterns:
        for found in pattern.written.finditer(text):
            yield PersonalData(found.start(), found.end(), pattern.kind, "".join(found[0].casefold().split()))


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        problem = f"{name!r} is no name of a pattern: a letter, then letters, digits, _ or -, 32 at most"
        raise ConfigError(problem, key=name)
    return name


def _compiled(name: str, text: str) -> re.Pattern[str]:
    if len(text) > _LONGEST:
        raise ConfigError(f"is longer than {_LONGEST} characters: make it several patterns", key=name)
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"is not a regular expression: {error}", key=name) from None
    if pattern.search("") is not None:
        problem = "matches the empty text, and so between any two characters: have it match at least one"
        raise ConfigError(problem, key=name)
    if _REPEAT_IN_REPEAT.search(text):
        problem = "repeats a group that repeats itself, such as (a+)+, and may never end on some texts: write a+"
        raise ConfigError(problem, key=name)
    return pattern
