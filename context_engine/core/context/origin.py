"""What is said of a passage's origin: all of it on one line, or each kind of field on a line of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from context_engine.core.context.attribution import title
from context_engine.core.context.fence import neutralise
from context_engine.core.context.line import one_line
from context_engine.core.context.merge import JoinedPassage
from context_engine.core.context.passage import Passage, own_field
from context_engine.core.models import Classification, FetchedAtBasis, SourceType
from context_engine.core.policy.injection import INJECTION_SUSPECTED

_DOT: Final = " · "
_ENCODED: Final = {ord(char): quote(char) for char in "[]［］【】·"}
"""What would fake a label or another field, as an address may hold it."""

_TYPE_WORDS: Final = {
    SourceType.SYSTEM_OF_RECORD: "system of record",
    SourceType.BANK_SOP: "bank SOP",
    SourceType.INDUSTRY_STANDARD: "industry standard",
    SourceType.EXTERNAL_OFFICIAL: "external official",
    SourceType.GENERAL_WEB: "general web",
}
_FLAG_WORDS: Final = {
    "superseded": "superseded",
    "below_threshold": "below the relevance threshold",
    "effective_unknown": "effective date unknown",
    INJECTION_SUSPECTED: "reads like instructions",
}


def origin_line(block: JoinedPassage, nonce: str) -> str:
    """Return the line about the origin: what the engine and the manifest say first, then the document's own fields."""
    best = block.best
    said = [
        *_standing(block, nonce),
        f"confidence {best.confidence}" if best.confidence else None,
        _score(best),
        *_own_fields(best, nonce),
    ]
    return _line(said)


def fields_in_lines(block: JoinedPassage, nonce: str) -> list[str]:
    """Return the lines of the form `full`: rank and scores, metadata, tags, origin; none for what is not known.

    The year is that of the metadata, else the one the text came into force in; the content type that of the metadata,
    else the document's type.
    """
    best, chunk = block.best, block.best.chunk
    tags = own_field(chunk, "tags")
    year = own_field(chunk, "year") or (chunk.effective_from.year if chunk.effective_from else None)
    scores = [
        f"Rank {best.rank}",
        None if best.final is None else f"score {best.final:.3f}",
        None if best.relevance is None else f"relevance {best.relevance:.3f}",
        f"confidence {best.confidence}" if best.confidence else None,
    ]
    metadata = [
        None if year is None else f"Year: {one_line(year, nonce)}",
        _named("Organisation", own_field(chunk, "source_org"), nonce),
        _named("Type", own_field(chunk, "content_type") or chunk.doc_type, nonce),
        f"URL: {_address(best.url, nonce)}" if best.url else None,
    ]
    lines = [scores, metadata, [_named("Tags", tags, nonce)], _standing(block, nonce)]
    return [line for line in map(_line, lines) if line]


def _standing(block: JoinedPassage, nonce: str) -> list[str | None]:
    """Return what the engine and the manifest say of a block."""
    best = block.best
    flags = dict.fromkeys(flag for part in block.parts for flag in part.flags)
    return [
        _authority(best),
        f"source {one_line(best.source_id, nonce)}" if best.source_id else None,
        _file(best, nonce),
        f"version {one_line(best.chunk.document_version, nonce)}" if best.chunk.document_version else None,
        _in_force(best),
        _fetched(block, "expired" in flags, nonce),
        _classification(block),
        *(_FLAG_WORDS[flag] for flag in flags if flag in _FLAG_WORDS),
    ]


def _line(said: Iterable[str | None]) -> str:
    return _DOT.join(one for one in said if one)


def _named(name: str, value: Any, nonce: str) -> str | None:
    return None if value is None else f"{name}: {one_line(_listed(value), nonce)}"


def _listed(value: Any) -> Any:
    return ", ".join(str(one) for one in value) if isinstance(value, list | tuple) else value


def _address(url: str, nonce: str) -> str:
    return neutralise(url.translate(_ENCODED), nonce)


def _authority(passage: Passage) -> str:
    if passage.tier is None:
        return "Authority unknown"
    kind = f", {_TYPE_WORDS[passage.source_type]}" if passage.source_type else ""
    return f"Tier {passage.tier}{kind}"


def _file(passage: Passage, nonce: str) -> str | None:
    """Return the document's file, where its title is not that already."""
    path = passage.chunk.path
    return f"file {one_line(path, nonce)}" if path and path != title(passage) else None


def _in_force(passage: Passage) -> str | None:
    start, end = passage.chunk.effective_from, passage.chunk.effective_to
    words = [f"from {start.isoformat()}" if start else "", f"until {end.isoformat()} (exclusive)" if end else ""]
    return f"in force {' '.join(word for word in words if word)}" if start or end else None


def _fetched(block: JoinedPassage, expired: bool, nonce: str) -> str | None:
    """The oldest part dates the block."""
    dated = [part for part in block.parts if part.fetched_at]
    if not dated:
        return "expired" if expired else None
    oldest = min(dated, key=lambda part: part.fetched_at or "")
    day = one_line(oldest.fetched_at, nonce).partition("T")[0]
    if oldest.basis == FetchedAtBasis.RETRIEVED:
        return f"retrieved {day}, age unknown"
    return f"fetched {day}{', expired' if expired else ''}"


def _classification(block: JoinedPassage) -> str | None:
    """The highest of the parts, where it is above internal."""
    known = [part.classification for part in block.parts if part.classification]
    highest = max(known, key=lambda one: one.rank, default=None)
    return None if highest is None or highest.rank <= Classification.INTERNAL.rank else str(highest)


def _score(passage: Passage) -> str | None:
    if passage.relevance is not None:
        return f"relevance {passage.relevance:.2f}"
    return None if passage.final is None else f"score {passage.final:.2f}"


def _own_fields(passage: Passage, nonce: str) -> Iterable[str]:
    for name, words in (("year", ""), ("source_org", ""), ("content_type", ""), ("tags", "tags ")):
        value = own_field(passage.chunk, name)
        if value is not None:
            yield words + one_line(_listed(value), nonce)
    if passage.url:
        yield _address(passage.url, nonce)


def also_in(block: JoinedPassage, nonce: str) -> list[str]:
    """Return the line that names the duplicates, none where there are none."""
    names = dict.fromkeys(name for part in block.parts for name in part.also_in)
    return [f"Also in: {', '.join(one_line(name, nonce) for name in names)}"] if names else []
