"""Settings, clock and ids of an engine without a configuration."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from pydantic import ValidationError

from context_engine.core.models import (
    DomainSettings,
    DomainSpec,
    EffectiveSettings,
    SearchRequest,
    SearchSettings,
    Settings,
    SettingsGroup,
    lifetime,
)
from context_engine.errors import InvalidRequest, nearest


def default_settings(domain: DomainSpec, request: SearchRequest) -> EffectiveSettings:
    """Return the defaults with the domain's settings and the call's own over them.

    Raises:
        InvalidRequest: a persona, an unknown setting, one that a domain or a call cannot set, or a value that cannot be
            used.
    """
    if request.persona is not None:
        raise InvalidRequest(f"persona {request.persona!r} is not known: this engine was made without a configuration")
    _check_keys(domain.settings, DomainSettings)
    _check_keys(request.call_settings, SearchSettings)
    try:
        values = Settings.model_validate({**domain.settings, **request.call_settings})
    except ValidationError as error:
        raise InvalidRequest(_message(error)) from None
    origins = {**dict.fromkeys(domain.settings, "domain"), **dict.fromkeys(request.call_settings, "call")}
    return EffectiveSettings(values=values, origins=origins)


def _check_keys(keys: Iterable[str], allowed: type[SettingsGroup]) -> None:
    """Refuse settings of other groups than those allowed; unknown ones are found when they are validated."""
    for key in keys:
        if key in Settings.model_fields and key not in allowed.model_fields:
            raise InvalidRequest(f"setting {key} {lifetime(key)}: give the engine a `resolve` that sets it")


def _message(error: ValidationError) -> str:
    """Return the first problem as a sentence; one of several settings together names them itself."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "value_error":
        problem = str(first["ctx"]["error"])
    else:
        hint = nearest(key, Settings.model_fields) if first["type"] == "extra_forbidden" else ""
        problem = f"{first['msg']}, got {first['input']!r}.{hint}"
    return f"setting {key}: {problem}" if key else problem


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current moment, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()


class TimeSortedIds:
    """Ids of 24 hex digits: 12 of milliseconds since 1970, 12 random."""

    def new(self, now: datetime) -> str:
        """Return a new id that sorts after every id of an earlier millisecond."""
        return f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(6)}"
