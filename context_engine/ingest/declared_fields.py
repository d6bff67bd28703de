"""The declared fields of a document as typed values; an invalid value gives a notice instead of a guess."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any, Final, TypeVar

from context_engine.core.models import TIERS, Classification, Notice, NoticeCode, SourceType, TrustClass, utc_text
from context_engine.ingest.loaded_document import file_notice

DECLARED_FIELDS: Final = frozenset(
    (
        *("document_id", "version", "title", "doc_type", "effective_from", "effective_to", "superseded_by"),
        *("fetched_at", "ttl_seconds", "classification", "source_type", "authority_tier", "trust_class"),
    )
)
"""Declared fields that become fields of the chunk, not metadata."""
RECORD_FIELDS: Final = DECLARED_FIELDS | {"entity_id"}
"""Fields of a record that are left out of its text, because the chunk carries them."""
ALIASES: Final[Mapping[str, str]] = {
    "document_version": "version",
    "doc_id": "document_id",
    "effective_date": "effective_from",
    "tier": "authority_tier",
}
ID_FIELDS: Final[Mapping[bool, tuple[str, ...]]] = {
    True: ("entity_id", "document_id", "id"),
    False: ("document_id", "entity_id"),
}
"""The fields that may hold the id of a record (True) or another document (False), in order of preference."""
_DATE_FORMS: Final = ("%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%Y年%m月%d日", "%Y/%m/%d")
_MOST_ID: Final = 200
T = TypeVar("T")


class DeclaredFields:
    """Reads declared fields by name, and collects a notice for each invalid value."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self.notices: list[Notice] = []

    def text(self, name: str, most: int = _MOST_ID) -> str | None:
        """Return a short text: one line of at most `most` characters."""
        return self._read(name, lambda value: _short(value, most), f"one line of at most {most} characters")

    def date(self, name: str) -> date | None:
        """Return a date."""
        return self._read(name, _date, "a date such as 2026-01-15")

    def moment(self, name: str) -> datetime | None:
        """Return a datetime in UTC; one without a time zone is taken as UTC."""
        return self._read(name, _moment, "a moment such as 2026-03-02T10:00:00Z")

    def seconds(self, name: str) -> int | None:
        """Return a whole number of seconds, >= 0."""
        return self._read(name, _whole, "a whole number of seconds, 0 or more")

    def tier(self, name: str) -> int | None:
        """Return an authority tier, 1-5."""
        return self._read(name, lambda value: TIERS[TIERS.index(_whole(value))], "a tier from 1 to 5")

    def source_type(self, name: str) -> SourceType | None:
        """Return a source type."""
        return self._read(name, lambda value: SourceType(str(value).strip().lower()), f"one of {', '.join(SourceType)}")

    def trust(self, name: str) -> TrustClass | None:
        """Return a trust class."""
        return self._read(name, lambda value: TrustClass(str(value).strip().upper()), f"one of {', '.join(TrustClass)}")

    def classification(self, name: str) -> Classification | None:
        """Return a classification; an unknown one counts as restricted, so that a typo leaks nothing."""
        value = self._fields.get(name)
        if value is None or not str(value).strip():
            return None
        words = set(re.findall(r"[a-z]+", str(value).lower()))
        matches = [level for level in Classification if level.value in words]
        if len(matches) == 1:
            return matches[0]
        self._warn(name, value, f"one of {', '.join(Classification)}; taken as restricted")
        return Classification.RESTRICTED

    def _read(self, name: str, read: Callable[[Any], T], wanted: str) -> T | None:
        value = self._fields.get(name)
        if value is None or value == "":
            return None
        try:
            return read(value)
        except (ValueError, TypeError, OverflowError):
            self._warn(name, value, f"{wanted}; ignored")
            return None

    def _warn(self, name: str, value: Any, wanted: str) -> None:
        shown = str(value)[:60]
        problem = f"{name} {shown!r} is not {wanted}"
        self.notices.append(file_notice(NoticeCode.DECLARED_FIELD_UNUSABLE, problem, field=name, value=shown))


def json_value(value: Any) -> Any:
    """Return a value as JSON can hold it: dates and datetimes as ISO text, NaN and infinity as None."""
    if isinstance(value, datetime):
        return utc_text(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        ordered = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [json_value(inner) for inner in ordered]
    return str(value)


def _short(value: Any, most: int) -> str:
    if isinstance(value, (bool, Mapping, list, tuple, set)):
        raise ValueError("not a text")
    text = str(json_value(value)).strip()
    if not text or len(text) > most or not text.isprintable():
        raise ValueError("not a short text")
    return text


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("not a whole number")
    number = int(value)
    if number < 0:
        raise ValueError("negative")
    return number


def _date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    text = str(value).strip()
    for form in _DATE_FORMS:
        try:
            return datetime.strptime(text, form).date()
        except ValueError:
            continue
    return datetime.fromisoformat(text).date()


def _moment(value: Any) -> datetime:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
