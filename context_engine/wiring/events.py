"""The receivers of events that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.core.engine import SystemClock
from context_engine.core.models import Event
from context_engine.core.protocols import EventSink
from context_engine.errors import ConfigError, ContextEngineError
from context_engine.settings.environment_secrets import read_webhook_key
from context_engine.wiring.adapters import EVENT_SINKS, find_adapter, load_adapter

if TYPE_CHECKING:
    from context_engine.adapters.events import EventContext, EventSinkFactory
    from context_engine.wiring.setup import Setup


class EventSinks:
    """Sends each event to all sinks. Thread-safe.

    Attributes:
        sinks: by their names; () sends nowhere.
    """

    def __init__(self, sinks: Mapping[str, EventSink]) -> None:
        self.sinks = sinks

    def __bool__(self) -> bool:
        """Whether events go anywhere."""
        return bool(self.sinks)

    def send(self, event: Event) -> None:
        """Send an event; a sink that fails does not keep it from the others.

        Raises:
            ConfigError: a sink could not keep it.
        """
        problems: list[str] = []
        for name, sink in self.sinks.items():
            try:
                sink.send(event)
            except ContextEngineError as error:
                problems.append(f"{name}: {error}")
            except Exception as error:  # noqa: BLE001 - of a bank's own sink; its text may hold secrets
                problems.append(f"{name}: failed with {type(error).__name__}")
        if problems:
            raise ConfigError(f"event {event.event_id} was not taken by {'; '.join(problems)}", key="event_sinks")

    def close(self) -> None:
        for sink in self.sinks.values():
            sink.close()


def open_events(setup: Setup, data_dir: str | Path | None = None) -> EventSinks:
    """Return the sinks of the setting `event_sinks`; close them.

    Args:
        data_dir: the data folder, where events wait for their delivery; None: the default.

    Raises:
        ConfigError: a sink is not installed, or its options or its connection cannot be used.
    """
    from context_engine.adapters.events import EventContext

    effective = setup.resolver.base()
    context = EventContext(
        connection=setup.config.connections.get,
        webhook_key=lambda: read_webhook_key(setup.env, setup.cwd),
        data_dir=setup.data_dir(data_dir),
        source=effective.values.event_source,
        clock=SystemClock(),
    )
    file = effective.origins.get("event_sinks")
    sinks = effective.values.event_sinks
    return EventSinks({name: _opened(name, options, context, file) for name, options in sinks.items()})


def waiting_events(setup: Setup, data_dir: str | Path | None = None) -> int:
    """Return how many events wait for their delivery to a web hook, of every process."""
    from context_engine.adapters.events.webhook import OUTBOX, Outbox

    return len(Outbox(setup.data_dir(data_dir) / OUTBOX))


def check_events(setup: Setup) -> None:
    """Open the sinks, and send nothing.

    Raises:
        ConfigError: as `open_events`.
    """
    open_events(setup, os.devnull).close()  # there no event waits


def _opened(name: str, options: Mapping[str, Any], context: EventContext, file: str | None) -> EventSink:
    key = f"event_sinks.{name}"
    factory: EventSinkFactory = load_adapter(find_adapter(EVENT_SINKS, name, file=file, key=key))
    try:
        return factory(options, context)
    except ConfigError as error:
        if error.file or (error.key or "").startswith("CONTEXT_ENGINE_"):
            raise
        where = ".".join(part for part in (key, error.key) if part)
        raise ConfigError(error.problem, file=file, key=where) from error
