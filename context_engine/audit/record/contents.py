"""Contents that records share and that are stored once: chunk texts and metadata, settings and declared sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from context_engine.audit.record.codec import dumped, loaded
from context_engine.audit.record.exact import Unreadable, json_bytes, json_bytes_each, read_json, tagged, untagged
from context_engine.audit.values import Content
from context_engine.core.models import (
    Chunk,
    EffectiveSettings,
    RawAnswer,
    Score,
    ScoreKind,
    Settings,
    SourceSpec,
    as_written,
    canonical_json,
)

_EACH_SEARCH: Final = ("content", "scores", "fetched_at")
_NAMES: Final = Chunk._fields
_MAY_BE_EMPTY: Final = ("chunk_id", "heading_path", "metadata", "extra")
_OF_QUESTION: Final = ("statistics", "unknown_words")


class Contents:
    """The texts of a record: each is stored once and has a number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, bytes], int] = {}
        self.all: list[Content] = []

    def number(self, kind: str, data: bytes) -> int:
        """Return the number of a content, adding it if it is new."""
        number = self._numbers.setdefault((kind, data), len(self.all))
        if number == len(self.all):
            self.all.append(Content(kind, data))
        return number

    def take(self, content: Content) -> int:
        """Add a content made elsewhere; return its number."""
        self.all.append(content)
        return len(self.all) - 1


def answer_columns(answer: RawAnswer, contents: Contents) -> dict[str, Any]:
    """Return an answer without the fields that were derived from the question's words."""
    rest = dumped(answer, without=("chunks", *_OF_QUESTION))
    return {**rest, "chunks": chunk_columns(answer.chunks, contents)}


def answer_of(columns: Mapping[str, Any], contents: Sequence[bytes], of_question: Mapping[str, Any]) -> RawAnswer:
    """Restore an answer from its columns.

    Args:
        contents: by number.
        of_question: the JSON fields that were derived from the question's words.

    Raises:
        Unreadable: this version does not write such data.
    """
    rest = {name: value for name, value in columns.items() if name != "chunks"}
    return loaded(RawAnswer, {**rest, **of_question}, chunks=chunks_of(columns["chunks"], contents))


def chunk_columns(chunks: Sequence[Chunk], contents: Contents) -> dict[str, Any]:
    """Return chunks by column: the numbers of text and card, scores and times."""
    columns: dict[str, Any] = {
        "text": [contents.number("text", chunk.content.encode("utf-8", "surrogatepass")) for chunk in chunks],
        "card": [contents.number("card", card) for card in json_bytes_each([_card(chunk) for chunk in chunks])],
        "scores": [chunk.scores for chunk in chunks],
    }
    if any(chunk.fetched_at is not None for chunk in chunks):
        columns["fetched_at"] = [chunk.fetched_at and chunk.fetched_at.isoformat() for chunk in chunks]
    return columns


def chunks_of(columns: Mapping[str, Any], contents: Sequence[bytes]) -> tuple[Chunk, ...]:
    """Restore chunks from their columns.

    Raises:
        Unreadable: this version does not write such data.
    """
    try:
        times = columns.get("fetched_at") or [None] * len(columns["text"])
        rows = zip(columns["text"], columns["card"], columns["scores"], times, strict=True)
        return tuple(
            loaded(
                Chunk,
                read_json(contents[card]),
                content=contents[text].decode("utf-8", "surrogatepass"),
                scores=tuple(Score(ScoreKind(kind), value, scorer) for kind, value, scorer in scores),
                fetched_at=None if time is None else datetime.fromisoformat(time),
            )
            for text, card, scores, time in rows
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable(f"chunks: {error}") from None


def _card(chunk: Chunk) -> dict[str, Any]:
    """Return a chunk's metadata, without its text and without the fields that may differ in each search."""
    card: dict[str, Any] = {name: value for name, value in zip(_NAMES, chunk) if value is not None}
    for name in _EACH_SEARCH:
        card.pop(name, None)
    for name in _MAY_BE_EMPTY:
        if not card[name]:
            del card[name]
    for name in ("metadata", "extra"):
        if name in card:
            card[name] = tagged(card[name])
    for name in ("effective_from", "effective_to"):
        if name in card:
            card[name] = card[name].isoformat()
    return card


_MOST_KEPT: Final = 64  # about one per domain and persona in use
_DEFAULT: Final = "default"


class _ContentCache:
    """Contents by the identity of the objects they were made from, which the cache keeps alive; a full cache is
    emptied.
    """

    def __init__(self) -> None:
        self._contents: dict[tuple[int, ...], tuple[Sequence[object], Content]] = {}

    def get(self, of: Sequence[object]) -> Content | None:
        kept = self._contents.get(tuple(map(id, of)))
        return None if kept is None else kept[1]

    def keep(self, of: Sequence[object], content: Content) -> Content:
        if len(self._contents) >= _MOST_KEPT:
            self._contents.clear()
        self._contents[tuple(map(id, of))] = (of, content)
        return content


_settings: Final = _ContentCache()
_sources: Final = _ContentCache()


def settings_content(effective: EffectiveSettings) -> Content:
    """Return settings with their origins; entries name them by the SHA-256 of this data."""
    content = _settings.get((effective,))
    if content is None:
        data = canonical_json(effective.to_dict()).encode("utf-8", "backslashreplace")
        content = _settings.keep((effective,), Content("settings", data))
    return content


def sources_content(specs: tuple[SourceSpec, ...]) -> Content:
    """Return the sources as declared, in order, without values that come only from variables."""
    content = _sources.get(specs)
    if content is None:
        content = _sources.keep(specs, Content("sources", json_bytes({"sources": [_declared(spec) for spec in specs]})))
    return content


def settings_of(data: bytes) -> EffectiveSettings:
    """Restore settings.

    Raises:
        Unreadable: a key or value is unknown to this version.
    """
    stored = read_json(data)
    try:
        values = Settings.model_validate({key: setting["value"] for key, setting in stored.items()})
        origins = {key: setting["origin"] for key, setting in stored.items() if setting["origin"] != _DEFAULT}
        return EffectiveSettings(values=values, origins=origins)
    except (ValidationError, TypeError, KeyError) as error:
        raise Unreadable(f"settings: {_first(error)}") from None


def specs_of(data: bytes) -> tuple[SourceSpec, ...]:
    """Restore sources.

    Raises:
        Unreadable: a field or value is unknown to this version.
    """
    try:
        return tuple(_spec(spec) for spec in read_json(data)["sources"])
    except (ValidationError, TypeError, KeyError) as error:
        raise Unreadable(f"sources: {_first(error)}") from None


def _declared(spec: SourceSpec) -> dict[str, Any]:
    """Return the declared fields without defaults: whether a time to live was declared affects the tag."""
    declared = spec.model_dump(mode="json", exclude_unset=True, exclude={"settings"})
    if "settings" in spec.model_fields_set:
        declared["settings"] = tagged(as_written(spec.settings, dict(spec.settings)))
    return declared


def _spec(declared: dict[str, Any]) -> SourceSpec:
    fields = {**declared, "settings": untagged(declared["settings"])} if "settings" in declared else declared
    return SourceSpec.model_validate(fields)


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
