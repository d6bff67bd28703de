"""A document's metadata in Dify, read under the names the manifest gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from context_engine.adapters.sources.dify.settings import DifySettings, MetadataNames
from context_engine.core.models import (
    TIERS,
    Classification,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    SourceType,
    TrustClass,
    to_date,
    to_moment,
)

_KEY: Final = re.compile(r"\s*\[ce-[0-9a-f]{12}(?:\.\d+)?\]\s*$")


def readable_name(value: Any) -> str | None:
    """Return a document's name without the key that older versions appended; None if nothing readable is left.

    >>> readable_name("NPA-SOP-001 3.2 New products [ce-4c52b60fa1e9]"), readable_name("[ce-4c52b60fa1e9.2]")
    ('NPA-SOP-001 3.2 New products', None)
    """
    return _KEY.sub("", value) or None if isinstance(value, str) else None


class Marks(NamedTuple):
    """Names of the metadata fields that mark a document written by this package."""

    source_id: str = "ce_source"
    document_id: str = "ce_document_id"
    version: str = "ce_version"
    title: str = "ce_title"
    content_hash: str = "ce_hash"
    stored: str = "ce_stored"
    state: str = "ce_state"


MARKS: Final = Marks()
MARKED: Final = MARKS.document_id
"""A document with this field was written by this package; without a hash it is unfinished."""
UNFINISHED: Final = "unfinished"
"""The state of a document whose writing is in progress or was interrupted."""
CLAIMS: Final = tuple(name for name in MetadataNames.model_fields if name != "section")
"""Claims in the metadata of our documents, under these names unless the manifest gives others."""
_OUR_NAMES: Final = {name: name for name in CLAIMS}
_TIER: Final = re.compile(r"(?:tier)?[\s_-]*([1-5])", re.IGNORECASE)
_DAY: Final = re.compile(r"(\d{4})(\d{2})(\d{2})")


class MetadataReader:
    """Reads the claims in documents' metadata; `timezone` is the zone in which Dify's Unix times are days."""

    def __init__(self, settings: DifySettings, timezone: str = "UTC") -> None:
        day = partial(_day, ZoneInfo(timezone))
        words = {_word(word): kind for word, kind in settings.source_types.items()}
        words |= {kind.value: kind for kind in SourceType}
        self._names = settings.metadata.used()
        self._chunk_line = settings.chunk_line
        self._read: dict[str, Callable[[Any], Any]] = {
            "authority_tier": _tier,
            "source_type": partial(_source_type, words),
            "trust_class": lambda value: _member(TrustClass, str(value).strip().upper()),
            "classification": lambda value: _member(Classification, _word(value)),
            "effective_from": day,
            "effective_to": day,
            "fetched_at": _moment,
            "ttl_seconds": _whole,
        }

    def has_line(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a document's chunks begin with a line: written by this package, or declared in the manifest."""
        return self._chunk_line or MARKED in metadata

    def claims(self, metadata: Mapping[str, Any], notices: list[Notice]) -> dict[str, Any]:
        """Return a chunk's fields; an unreadable value counts as unknown, with a notice.

        An unreadable classification counts as restricted, so that a typo leaks nothing.
        """
        claims: dict[str, Any] = {}
        names = _OUR_NAMES | self._names if MARKED in metadata else self._names
        for ours, name in names.items():
            value = metadata.get(name)
            if value is None or value == "":
                continue
            reader: Callable[[Any], Any] = self._read.get(ours, _text)
            read = reader(value)
            if read is None:
                problem = f"metadata {name!r}: {str(value)[:60]!r} cannot be read as {ours}"
                if ours == "classification":
                    claims[ours], problem = Classification.RESTRICTED, f"{problem}; treated as restricted"
                detail = {"field": ours, "metadata": name, "value": str(value)[:60]}
                notices.append(Notice(NoticeCode.FIELD_UNUSABLE, "", problem, detail))
            else:
                claims[ours] = read
        if "fetched_at" in claims:
            claims["fetched_at_basis"] = FetchedAtBasis.ORIGIN
        return claims


def _source_type(words: Mapping[str, SourceType], value: Any) -> SourceType | None:
    return words.get(_word(value))


def _word(value: Any) -> str:
    return "_".join(re.split(r"[\s_-]+", str(value).strip().casefold()))


def _text(value: Any) -> str | None:
    return None if isinstance(value, Mapping | list) else str(value).strip() or None


def _tier(value: Any) -> int | None:
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    match = _TIER.fullmatch(text)
    tier = int(match[1]) if match and not isinstance(value, bool) else None
    return tier if tier in TIERS else None


def _member(vocabulary: type[Any], word: str) -> Any:
    return vocabulary(word) if word in {member.value for member in vocabulary} else None


def _whole(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if not isinstance(value, bool) and number >= 0 and number.is_integer() else None


def _day(zone: ZoneInfo, value: Any) -> date | None:
    """Return a day from ISO text, a number such as 20240401, or unix seconds."""
    return _numbered_day(value) or to_date(_seconds(value), zone)


def _moment(value: Any) -> datetime | None:
    return to_moment(_numbered_day(value) or _seconds(value))


def _numbered_day(value: Any) -> date | None:
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    match = _DAY.fullmatch(text)
    if match is None or not 1900 <= int(match[1]) <= 2999:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def _seconds(value: Any) -> Any:
    """Return a text of digits as a number, any other value unchanged."""
    if isinstance(value, str) and re.fullmatch(r"\d{9,11}(\.\d+)?", value.strip()):
        return float(value)
    return value
