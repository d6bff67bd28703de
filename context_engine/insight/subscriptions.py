"""Subscriptions to a document or to a question, each with what was shown at the last look.

They stand in a file in the data folder that only its owner may read: a line of JSON for each state, the last line of a
subscription counts. No line holds a text: texts are named by their ids and their SHA-256.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.core.models import Event
from context_engine.errors import ConfigError
from context_engine.insight.rehearsal import AnswerState, AnswerText
from context_engine.service.appending import append_line, read_lines
from context_engine.settings.data_dir import SUBSCRIPTIONS, replace_file

FILE: Final = SUBSCRIPTIONS
"""Name of the file in the data folder."""
_KINDS: Final = ("changed", "added", "removed", "lost", "gained")


class Subscription(NamedTuple):
    """A subscription to a document, or to a question if `query` is not empty.

    Attributes:
        principal: whose rights count, by the name in access.yaml; "" without that file.
        by: the operating system user who subscribed.
        at: when, ISO 8601 in UTC.
        source_id, document_id: of the document.
        query, persona: of the question.
    """

    subscription_id: str
    domain: str
    principal: str
    by: str
    at: str
    source_id: str = ""
    document_id: str = ""
    query: str = ""
    persona: str = ""

    @property
    def subject(self) -> str:
        """The document or the question in words."""
        return self.query or f"{self.source_id}/{self.document_id}"


class KeptSubscription(NamedTuple):
    """A subscription and its state.

    Attributes:
        shown: what was shown at the last look; for a document its texts in their order, and no decision.
        changes: how many changes were noticed so far.
        event: the last change; None if there was none.
        delivered: whether all sinks have the event.
    """

    subscription: Subscription
    shown: AnswerState
    changes: int = 0
    event: Event | None = None
    delivered: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the published form, which is also that of a line."""
        return {
            **self.subscription._asdict(),
            "decision": self.shown.decision,
            "texts": [text._asdict() for text in self.shown.texts],
            "changes": self.changes,
            "event": None if self.event is None else self.event.to_dict(),
            "delivered": self.delivered,
        }


def new_id() -> str:
    """Return an id for a subscription."""
    return secrets.token_hex(6)


def kept_subscriptions(file: Path) -> Mapping[str, KeptSubscription]:
    """Return the subscriptions of a file by their ids; none without the file.

    Raises:
        ConfigError: a line cannot be read.
    """
    out: dict[str, KeptSubscription] = {}
    for number, line in enumerate(read_lines(file), start=1):
        try:
            row = json.loads(line)
            out[str(row["subscription_id"])] = _kept(row)
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"line {number} is no subscription: remove it", file=str(file)) from None
    return out


def locked(file: Path) -> WriterLock:
    """Return the lock of a file of subscriptions, which every writer holds.

    Raises:
        StoreLocked: another process has it.
        ConfigError: it cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return WriterLock(file.parent)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(file)) from None


def keep(file: Path, kept: KeptSubscription) -> None:
    """Write the state of a subscription; the caller holds the lock.

    Raises:
        ConfigError: the file cannot be written.
    """
    append_line(file, _line(kept))


def cancel(file: Path, subscription_id: str) -> None:
    """Remove a subscription with every state of it, the words of its question included; the caller holds the lock.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    rest = [kept for name, kept in kept_subscriptions(file).items() if name != subscription_id]
    try:
        replace_file(file, "".join(f"{_line(kept)}\n" for kept in rest).encode(), private=True)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(file)) from None


def _line(kept: KeptSubscription) -> str:
    return json.dumps(kept.to_dict(), ensure_ascii=False)


def _kept(row: Mapping[str, Any]) -> KeptSubscription:
    event = row["event"]
    return KeptSubscription(
        Subscription(*(str(row[name]) for name in Subscription._fields)),
        AnswerState(str(row["decision"]), tuple(AnswerText(**text) for text in row["texts"])),
        int(row["changes"]),
        None if event is None else Event(**{**event, "time": datetime.fromisoformat(event["time"])}),
        bool(row["delivered"]),
    )


class ListedSubscription(NamedTuple):
    """A subscription with its last change in words; "" if there was none."""

    kept: KeptSubscription
    change: str


def listed_subscriptions(data_dir: Path) -> list[ListedSubscription]:
    """Return the subscriptions of a data folder, those with the newest change first.

    Raises:
        ConfigError: they cannot be read.
    """
    listed = [
        ListedSubscription(kept, "" if kept.event is None else change_words(kept.event))
        for kept in kept_subscriptions(Path(data_dir) / FILE).values()
    ]
    return sorted(listed, key=lambda each: each.kept.event.time.timestamp() if each.kept.event else 0.0, reverse=True)


def change_words(event: Event) -> str:
    """Return the difference of an event, such as "1 changed, shown in 2 answers"."""
    data = event.data
    parts = [" becomes ".join(data["decisions"]).replace("_", " ")] if data.get("change") == "decision" else []
    parts += [f"{len(data[kind])} {kind}" for kind in _KINDS if data.get(kind)]
    answers = (data.get("answers_that_showed_it") or {}).get("count", 0)
    parts += [f"shown in {answers:,} answer{'' if answers == 1 else 's'}"] if answers else []
    return ", ".join(parts) or "the same texts in another order"
