"""Parse saved answers, in all forms in which they occur, into texts with their tags."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from context_engine.core.models import Settings
from context_engine.errors import InvalidRequest

_TAG: Final = "_provenance"
_TAG_KEYS: Final = ("source_id", "source_type", "authority_tier", "trust_class", "fetched_at", "ttl_seconds", "extra")
_ENOUGH_KEYS: Final = 5
"""Keys that make a mapping a tag: an incomplete tag must be checked, and fail."""
_PREFIXES: Final = ("", "_provenance.", "_provenance_", "provenance.", "provenance_")
_WHOLE: Final = ("authority_tier", "ttl_seconds")
_HOLDERS: Final = ("chunks", "result", "records", "json", "outputs", "output", "data", "body")
_DEEPEST: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedText:
    """A saved text with the tag found with it.

    Attributes:
        content: None if missing or not text.
        tag: None if there is none.
        item: the item that holds it; its `_rag_score` and similar fields are checked against the tag.
    """

    content: str | None
    tag: Mapping[str, Any] | None
    item: Mapping[str, Any]

    @property
    def tag_alone(self) -> bool:
        """Whether only the tag was saved."""
        return self.item.keys() == {_TAG}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagReading:
    """A saved answer.

    Attributes:
        settings: the settings of the ranking; the defaults if the answer does not state them.
        settings_known: whether the answer states its settings.
    """

    texts: tuple[TaggedText, ...]
    settings: Settings = field(default_factory=Settings)
    settings_known: bool = False


def read_tagged(data: Any) -> TagReading:
    """Read parsed JSON in any form that a saved answer has.

    Forms: the object of `search --json`; a list of chunk dicts; a workflow node's output: an object that holds, at any
    depth, `result`, `records`, `chunks`, `json` or `outputs`, with items of `content` and `metadata`, the tag in the
    item, its `metadata` or `doc_metadata`, as `_provenance` (a mapping or JSON text) or spread out over its keys. A
    tag alone, or a list of tags, is read too, without a text.

    Raises:
        InvalidRequest: it holds no list of texts.
    """
    reading = _items(data, 0)
    if reading is None:
        raise InvalidRequest(
            "holds no chunks: give the output of 'search --json' or '--jsonl', a list of chunk dicts, a _provenance "
            "object, or a workflow node's output with 'result'"
        )
    items, holder = reading
    settings = _settings(holder)
    texts = tuple(_tagged(item, number) for number, item in enumerate(items, start=1))
    return TagReading(texts=texts, settings=settings or Settings(), settings_known=settings is not None)


def _items(data: Any, depth: int) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """Return the list of texts and the object that holds it."""
    if depth > _DEEPEST:
        return None
    if isinstance(data, list):
        if not data or all(isinstance(item, Mapping) and ("content" in item or _is_tag(item)) for item in data):
            return [{_TAG: item} if _is_tag(item) else item for item in data], {}
        readings = [_items(item, depth + 1) for item in data]
        return next(
            (reading for reading in readings if reading and reading[0]),
            next((reading for reading in readings if reading), None),
        )
    if not isinstance(data, Mapping):
        return None
    if isinstance(data.get("content"), str):
        return [data], {}
    if _is_tag(data) or _is_tag(_parsed(data.get(_TAG))):
        return [{_TAG: data} if _is_tag(data) else data], {}
    for key in _HOLDERS:
        reading = _items(_parsed(data.get(key)), depth + 1) if key in data else None
        if reading is not None:
            return reading[0], reading[1] or data
    return None


def _is_tag(value: Any) -> bool:
    """Return whether a value is a provenance tag; a chunk dict has keys of the same names, but also a text."""
    return isinstance(value, Mapping) and "content" not in value and len(value.keys() & set(_TAG_KEYS)) >= _ENOUGH_KEYS


def _parsed(value: Any) -> Any:
    """Return the value of a JSON text: a node passes on its output as text if a variable has the type string."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _settings(holder: Mapping[str, Any]) -> Settings | None:
    rows = holder.get("settings")
    if not isinstance(rows, Mapping):
        return None
    values = {key: row["value"] for key, row in rows.items() if isinstance(row, Mapping) and "value" in row}
    known = {key: value for key, value in values.items() if key in Settings.model_fields}
    try:
        return Settings.model_validate(known) if known else None
    except ValidationError as error:
        raise InvalidRequest(f"its settings cannot be used: {error.errors()[0]['msg']}") from None


def _tagged(item: Any, number: int) -> TaggedText:
    if not isinstance(item, Mapping):
        raise InvalidRequest(f"item {number} is {type(item).__name__}, not a chunk with 'content'")
    content = item.get("content")
    return TaggedText(
        content=content if isinstance(content, str) else None,
        tag=next((tag for tag in _tags(item) if tag is not None), None),
        item=item,
    )


def _tags(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any] | None]:
    """Yield the tag at each place that may have one, nearest to the text first; None for a place without a tag.

    Only metadata is searched for the separate keys of a tag, because a chunk dict has keys of the same names.
    """
    yield _whole_tag(item)
    metadata = item.get("metadata")
    if isinstance(metadata, Mapping):
        for place in (metadata, metadata.get("doc_metadata")):
            if isinstance(place, Mapping):
                yield _whole_tag(place)
                yield _spread_tag(place)


def _whole_tag(place: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if _TAG not in place:
        return None
    tag = _parsed(place[_TAG])
    return tag if isinstance(tag, Mapping) else {}


def _spread_tag(place: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for prefix in _PREFIXES:
        if f"{prefix}source_type" in place and f"{prefix}fetched_at" in place:
            return _gathered(place, prefix)
    return None


def _gathered(place: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a tag from spread-out keys; all but the seven keys of a tag belong to `extra`."""
    named = {key.removeprefix(prefix): value for key, value in place.items() if key.startswith(prefix)}
    tag: dict[str, Any] = {key: named[key] for key in _TAG_KEYS if key in named}
    for key in _WHOLE:
        if isinstance(tag.get(key), str) and tag[key].isdecimal():
            tag[key] = int(tag[key])
    extra = _parsed(tag.get("extra"))
    rest = {key.removeprefix("extra.").removeprefix("extra_"): value for key, value in named.items()}
    tag["extra"] = extra if isinstance(extra, Mapping) else {k: v for k, v in rest.items() if k not in _TAG_KEYS}
    return tag
