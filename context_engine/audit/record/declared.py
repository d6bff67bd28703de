"""Settings and declared sources as contents: the same for many searches, so made once and kept once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from context_engine.audit.record.exact import Unreadable, json_bytes, read_json, tagged, untagged
from context_engine.audit.values import Content
from context_engine.core.models import EffectiveSettings, Settings, SourceSpec, as_written, canonical_json

_MOST_KEPT: Final = 64
_DEFAULT: Final = "default"


class _Kept:
    """Contents by the identity of what they were made of, which is kept with them; all are dropped when it is full."""

    def __init__(self) -> None:
        self._contents: dict[tuple[int, ...], tuple[Sequence[object], Content]] = {}

    def get(self, of: Sequence[object]) -> Content | None:
        found = self._contents.get(tuple(map(id, of)))
        return None if found is None else found[1]

    def keep(self, of: Sequence[object], content: Content) -> Content:
        if len(self._contents) >= _MOST_KEPT:
            self._contents.clear()
        self._contents[tuple(map(id, of))] = (of, content)
        return content


_settings: Final = _Kept()
_sources: Final = _Kept()


def settings_content(effective: EffectiveSettings) -> Content:
    """Return settings with their origins; the SHA-256 of its data is what an entry names them by."""
    found = _settings.get((effective,))
    if found is None:
        data = canonical_json(effective.to_dict()).encode("utf-8", "backslashreplace")
        found = _settings.keep((effective,), Content("settings", data))
    return found


def sources_content(specs: tuple[SourceSpec, ...]) -> Content:
    """Return sources as they were declared, in their order, without what only a variable says."""
    found = _sources.get(specs)
    if found is None:
        found = _sources.keep(specs, Content("sources", json_bytes({"sources": [_declared(spec) for spec in specs]})))
    return found


def settings_of(data: bytes) -> EffectiveSettings:
    """Return the settings of a content.

    Raises:
        Unreadable: it holds a key or value that is none of this version.
    """
    given = read_json(data)
    try:
        values = Settings.model_validate({key: one["value"] for key, one in given.items()})
        origins = {key: one["origin"] for key, one in given.items() if one["origin"] != _DEFAULT}
        return EffectiveSettings(values=values, origins=origins)
    except (ValidationError, TypeError, KeyError) as error:
        raise Unreadable(f"settings: {_first(error)}") from None


def specs_of(data: bytes) -> tuple[SourceSpec, ...]:
    """Return the sources of a content.

    Raises:
        Unreadable: it holds a field or value that is none of this version.
    """
    try:
        return tuple(_spec(one) for one in read_json(data)["sources"])
    except (ValidationError, TypeError, KeyError) as error:
        raise Unreadable(f"sources: {_first(error)}") from None


def _declared(spec: SourceSpec) -> dict[str, Any]:
    """Return what was declared, and no default: whether a time to live was declared decides what a tag says."""
    declared = spec.model_dump(mode="json", exclude_unset=True, exclude={"settings"})
    if "settings" in spec.model_fields_set:
        declared["settings"] = tagged(as_written(spec.settings, dict(spec.settings)))
    return declared


def _spec(given: dict[str, Any]) -> SourceSpec:
    fields = {**given, "settings": untagged(given["settings"])} if "settings" in given else given
    return SourceSpec.model_validate(fields)


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
