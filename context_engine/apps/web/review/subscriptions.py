"""Subscriptions for people: what each is about, and its last change in words."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.models import Event
from context_engine.insight.subscriptions import FILE, KeptSubscription, kept_subscriptions

_KINDS: Final = ("changed", "added", "removed", "lost", "gained")


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
