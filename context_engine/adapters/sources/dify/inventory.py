"""What a dataset holds of ours: each document once, and what should not be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from context_engine.adapters.sources.dify.content_digest import ContentDigest
from context_engine.adapters.sources.dify.document_marks import DatasetDocument, Key
from context_engine.adapters.sources.dify.writes import Writes
from context_engine.errors import SourceNotFound


@dataclass(slots=True)
class Inventory:
    """The documents of a dataset that this package wrote.

    Attributes:
        held: of each document the newest that is as it was written; where none is, the newest.
        damaged: of those held, what is not as it was written: chunks are missing, doubled or changed.
        old: of those held, what an earlier release wrote, which noted no measure: nothing can be said of it.
        doubled: further documents of the same key that are whole.
        unfinished: what a run is writing, or was writing when it was broken off.
        empty: documents that say and hold nothing.
        names: of the documents that must not be written over.
    """

    held: dict[Key, DatasetDocument] = field(default_factory=dict)
    damaged: dict[Key, DatasetDocument] = field(default_factory=dict)
    old: dict[Key, DatasetDocument] = field(default_factory=dict)
    doubled: dict[Key, list[DatasetDocument]] = field(default_factory=dict)
    unfinished: list[DatasetDocument] = field(default_factory=list)
    empty: list[DatasetDocument] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def take_inventory(rows: Iterable[DatasetDocument], intact: Callable[[DatasetDocument], bool]) -> Inventory:
    """Sort the documents of a dataset.

    Which of two copies is kept depends on the copies alone, the newest that is intact, so that two runs that look at
    them keep the same one.

    Args:
        rows: all of its documents.
        intact: whether a whole document is as it was written.
    """
    found = Inventory()
    copies: dict[Key, list[DatasetDocument]] = {}
    for row in rows:
        if not row.empty:
            found.names.add(row.name)
        if row.key is not None and row.content_hash is not None:
            copies.setdefault(row.key, []).append(row)
        elif row.ours:
            found.unfinished.append(row)
        elif row.empty:
            found.empty.append(row)
    for key, given in copies.items():
        _choose(found, key, sorted(given, key=lambda row: row.age, reverse=True), intact)
    return found


def holds(writes: Writes, dataset_id: str, row: DatasetDocument) -> bool:
    """Whether the chunks that Dify holds are those that were written; Dify is asked for them."""
    try:
        return row.ready and ContentDigest.of(writes.contents(dataset_id, row.dify_id)) == row.digest
    except SourceNotFound:
        return False


def as_written(writes: Writes, dataset_id: str, row: DatasetDocument) -> bool:
    """Whether a document holds what was written: by Dify's count of characters, where they differ by its chunks."""
    return row.as_written or holds(writes, dataset_id, row)


def _choose(
    found: Inventory, key: Key, newest_first: list[DatasetDocument], intact: Callable[[DatasetDocument], bool]
) -> None:
    good = next((row for row in newest_first if row.digest is not None and intact(row)), None)
    chosen = good or newest_first[0]
    found.held[key] = chosen
    if good is None:
        (found.damaged if chosen.digest is not None else found.old)[key] = chosen
    if len(newest_first) > 1:
        found.doubled[key] = [row for row in newest_first if row is not chosen]


def problems(found: Inventory) -> Mapping[str, list[str]]:
    """Return what is wrong, {what: names of documents}; nothing where nothing is."""
    by_kind = {
        "written twice": [found.held[key].name for key in found.doubled],
        "that lacks chunks, or holds others than were written to it": [row.name for row in found.damaged.values()],
        "unfinished": [row.name for row in found.unfinished],
        "empty and without metadata": [row.name for row in found.empty],
    }
    return {what: names for what, names in by_kind.items() if names}
