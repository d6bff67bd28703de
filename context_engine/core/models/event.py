"""An event for other systems, and its form on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models.chunk import utc_text

_TYPE: Final = "context-engine."


class Event(NamedTuple):
    """A change that other systems want to know of.

    Attributes:
        event_id: the same for the same change, so that a receiver recognises a repetition.
        kind: what has changed, such as "answer_changed".
        subject: the thing that has changed, by its id.
        time: when the change was noticed.
        data: ids, counts and differences, ready for JSON; texts only of what every receiver may read.
    """

    event_id: str
    kind: str
    subject: str
    time: datetime
    data: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        return {**self._asdict(), "data": dict(self.data), "time": utc_text(self.time)}

    def envelope(self, source: str) -> dict[str, Any]:
        """Return the event as an object of CloudEvents 1.0 in JSON (https://cloudevents.io).

        Args:
            source: the name of this deployment; with the id it is unique.
        """
        return {
            "specversion": "1.0",
            "id": self.event_id,
            "source": source,
            "type": f"{_TYPE}{self.kind}",
            "subject": self.subject,
            "time": utc_text(self.time),
            "datacontenttype": "application/json",
            "data": dict(self.data),
        }
