"""The built-in masker: cards, IBANs, national ids, telephone numbers, e-mail addresses and a bank's own patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.core.models import PERSONAL_DATA_KINDS
from context_engine.core.protocols import PersonalData
from context_engine.errors import ConfigError, MissingExtra, nearest

if TYPE_CHECKING:
    from context_engine.adapters.maskers.plain_text import PlainText

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_LONGEST: Final = 1000
_REPEAT_IN_REPEAT: Final = re.compile(r"\((?:[^()\\]|\\.)*(?<!\\)(?:[+*]|\{\d*,\})\??\)(?:[+*]|\{\d*,\})")


class OwnPattern(NamedTuple):
    """A pattern and its name in a pseudonym."""

    kind: str
    written: re.Pattern[str]


def read_patterns(patterns: Mapping[str, str]) -> tuple[OwnPattern, ...]:
    """Compile {name: regular expression}; the name, in capitals, appears in the pseudonym.

    Raises:
        ConfigError: a name or an expression cannot be used; `key` is the name.
    """
    return tuple(OwnPattern(_checked_name(name).upper(), _compiled(name, text)) for name, text in patterns.items())


def find_own(text: str, patterns: Sequence[OwnPattern]) -> Iterator[PersonalData]:
    """Yield the matches of the patterns in the text as written; the value is in lower case without spaces."""
    for pattern in patterns:
        for match in pattern.written.finditer(text):
            yield PersonalData(match.start(), match.end(), pattern.kind, "".join(match[0].casefold().split()))


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        problem = f"{name!r} cannot name a pattern: use a letter, then letters, digits, _ or -, at most 32"
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


_EXTRA: Final = "privacy"
Find = Callable[["PlainText"], Iterator[PersonalData]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalDataOptions:
    """The personal data to look for.

    Attributes:
        kinds: of `PERSONAL_DATA_KINDS`.
        countries: ISO 3166 codes of the countries whose identity numbers are masked.
        phone_regions: ISO 3166 codes; numbers without `+` are read as theirs.
        patterns: name -> regular expression.
    """

    kinds: tuple[str, ...] = PERSONAL_DATA_KINDS
    countries: tuple[str, ...] = ()
    phone_regions: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)


class _PersonalDataMasker:
    """Finds each kind in turn; a `Masker`. `numbers` search only around digits, `others` the whole text."""

    def __init__(self, numbers: tuple[Find, ...], others: tuple[Find, ...], patterns: tuple[OwnPattern, ...]) -> None:
        self._numbers, self._others, self._patterns = numbers, others, patterns

    def find(self, text: str) -> Iterator[PersonalData]:
        from context_engine.adapters.maskers.plain_text import plain_text

        plain = plain_text(text)
        for part in plain.around_digits() if self._numbers else ():
            for find in self._numbers:
                yield from find(part)
        for find in self._others:
            yield from find(plain)
        yield from find_own(text, self._patterns)


def open_personal_data(options: PersonalDataOptions) -> _PersonalDataMasker:
    """Return the built-in masker.

    Raises:
        MissingExtra: the extra `privacy` is not installed.
        ConfigError: an option cannot be used; `key` is its setting.
    """
    try:
        numbers, others = _finds(options)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("stdnum", "phonenumbers"):
            raise
        raise MissingExtra("masking personal data", _EXTRA) from error
    try:
        patterns = read_patterns(options.patterns)
    except ConfigError as error:
        raise ConfigError(error.problem, key=f"mask_patterns.{error.key}") from None
    return _PersonalDataMasker(numbers, others, patterns)


def _finds(options: PersonalDataOptions) -> tuple[tuple[Find, ...], tuple[Find, ...]]:
    from context_engine.adapters.maskers.bank_numbers import find_cards, find_ibans
    from context_engine.adapters.maskers.contacts import SUPPORTED_REGIONS, find_emails, find_phones
    from context_engine.adapters.maskers.national_ids import COUNTRIES, find_national_ids

    countries = _codes(options.countries, COUNTRIES, "mask_countries", "no national id is known of")
    regions = _codes(options.phone_regions, SUPPORTED_REGIONS, "mask_phone_regions", "there is no telephone region")
    numbers: Mapping[str, Find] = {
        "card": find_cards,
        "iban": find_ibans,
        "national_id": lambda plain: find_national_ids(plain, countries),
        "phone": lambda plain: find_phones(plain, regions),
    }
    others = (find_emails,) if "email" in options.kinds else ()
    return tuple(find for kind, find in numbers.items() if kind in options.kinds), others


def _codes(
    chosen: tuple[str, ...], known: Mapping[str, object] | frozenset[str], key: str, problem: str
) -> tuple[str, ...]:
    codes = tuple(dict.fromkeys(code.strip().upper() for code in chosen))
    for code in codes:
        if code not in known:
            raise ConfigError(f"{problem} {code!r}.{nearest(code, sorted(known))}", key=key)
    return codes
