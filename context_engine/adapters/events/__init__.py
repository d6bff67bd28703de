"""What takes events for other systems.

Each sink is opened by a function `(options, context)`, published in the entry-point group `context_engine.event_sinks`
under the name used in the setting `event_sinks`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine.core.models import Event
from context_engine.core.protocols import Clock, EventSink
from context_engine.settings.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """What a sink may use.

    Attributes:
        connection: returns a connection by name, its variables and files read at the call.
        webhook_key: returns the key that signs events; None if none is configured.
        data_dir: the folder for events that wait.
        source: the name of this deployment in its events.
    """

    connection: Callable[[str], Connection]
    webhook_key: Callable[[], bytes | None]
    data_dir: Path
    source: str
    clock: Clock


EventSinkFactory = Callable[[Mapping[str, Any], EventContext], EventSink]
"""Opens a sink from its options, before anything is written or sent; may raise ConfigError."""


def event_json(event: Event, source: str) -> str:
    """Return the envelope of an event as JSON in one line."""
    return json.dumps(event.envelope(source), ensure_ascii=False, separators=(",", ":"))
