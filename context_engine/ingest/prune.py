"""Decide which documents of a base may be removed because its folder no longer holds them.

A document is gone if its file is gone, or if its file was read and no longer gives it. Documents of a file that could
not be read, or below a folder that could not be listed, are kept. A folder that no longer holds any document of a
source may be the wrong folder, or not be mounted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from context_engine.core.models import NoticeCode
from context_engine.core.protocols import FileTrackingSink, Sink
from context_engine.ingest.report import DocumentKey, KeptDocuments

MOST_UNCONFIRMED: Final = 10
"""Most documents that a source may lose completely without a confirmation."""
_GONE: Final = "no longer in the folder: if it holds all of the source, run again with --prune to remove them"
_EMPTIED: Final = (
    "kept: the folder no longer holds any document of this source, so it may be the wrong folder, or not be mounted. "
    "To remove all of them, run again with --prune --allow-empty"
)


@dataclass(slots=True)
class FolderScan:
    """The files and folders that a run found, by their shown paths.

    Attributes:
        listed: every file.
        closed: folders that could not be listed, or are links; "." is the folder itself.
        unread: files that could not be read completely, by source.
    """

    listed: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    unread: dict[str, set[str]] = field(default_factory=dict)

    def closed_above(self, path: str) -> str | None:
        """Return the unlisted folder above a path, if any."""
        return next((folder for folder in sorted(self.closed) if folder == "." or path.startswith(f"{folder}/")), None)


@dataclass(frozen=True, slots=True)
class HeldDocuments:
    """Compares the documents of the sources with the scan of the folder.

    Attributes:
        sink: holds the documents.
        scan: files found by the run.
    """

    sink: Sink
    scan: FolderScan

    def file_of(self, source_id: str, key: DocumentKey) -> str | None:
        """Return the file that a held document came from; None if the sink does not know."""
        return self.sink.file_of(source_id, *key) if isinstance(self.sink, FileTrackingSink) else None

    def is_unread(self, source_id: str, key: DocumentKey) -> bool:
        """Whether a held document came from a file that could not be read now, so that its id is still taken."""
        unread = self.scan.unread.get(source_id, set())
        return bool(unread) and self.file_of(source_id, key) in unread

    def plan(self, source_id: str, seen: Collection[DocumentKey], *, gave_any: bool, allow_empty: bool) -> PrunePlan:
        """Decide which documents of a source are to be removed.

        Args:
            seen: the documents of the source that were found in the folder.
            gave_any: whether any document of any source was found.
            allow_empty: whether a source without any document in the folder may lose all of its documents.
        """
        documents = self.sink.documents(source_id)
        few = gave_any and len(documents) <= MOST_UNCONFIRMED
        return plan_prune(
            source_id,
            documents.keys() - set(seen),
            partial(self.file_of, source_id),
            self.scan,
            emptied=not seen,
            confirmed=allow_empty or few,
        )

    def gone(self, source_id: str, seen: Collection[DocumentKey]) -> KeptDocuments | None:
        """Return the documents of a source that `prune` would remove; None if there are none."""
        gone = self.sink.documents(source_id).keys() - set(seen)
        file_of = partial(self.file_of, source_id)
        removable = plan_prune(source_id, gone, file_of, self.scan, emptied=False, confirmed=True).removed
        return KeptDocuments(source_id, NoticeCode.DOCUMENTS_GONE, _GONE, removable) if removable else None


class PrunePlan(NamedTuple):
    """The documents of a source to remove, and those to keep."""

    removed: tuple[DocumentKey, ...] = ()
    kept: tuple[KeptDocuments, ...] = ()


def plan_prune(
    source_id: str,
    gone: Iterable[DocumentKey],
    file_of: Callable[[DocumentKey], str | None],
    scan: FolderScan,
    *,
    emptied: bool,
    confirmed: bool,
) -> PrunePlan:
    """Decide which documents of a source may be removed.

    Args:
        gone: documents that the source holds and the run did not see.
        file_of: returns the file that a document came from; None if unknown.
        emptied: whether the folder no longer holds any document of the source.
        confirmed: whether the user confirmed that.
    """
    removed: list[DocumentKey] = []
    kept: dict[tuple[NoticeCode, str], list[DocumentKey]] = {}
    for key in sorted(gone):
        file = file_of(key)
        cause = _unknown(file, scan, scan.unread.get(source_id, ()))
        if cause:
            kept.setdefault((NoticeCode.NOT_PRUNED, cause), []).append(key)
        elif emptied and not confirmed and file not in scan.listed:
            kept.setdefault((NoticeCode.SOURCE_EMPTIED, _EMPTIED), []).append(key)
        else:
            removed.append(key)
    return PrunePlan(tuple(removed), tuple(_kept(source_id, kept)))


def _unknown(file: str | None, scan: FolderScan, unread: Collection[str]) -> str | None:
    """Return why it is unknown whether a document is gone; None if it is gone for certain."""
    if file is None:
        if not unread and not scan.closed:
            return None
        where = next(iter(sorted(unread)), None) or next(iter(sorted(scan.closed)))
        return f"kept: which file they came from is not known, and {where} could not be read. Fix that, and run again"
    if file in unread:
        return f"kept: {file} could not be read. Fix it or take it out of the folder, and run again"
    folder = scan.closed_above(file)
    if folder is None:
        return None
    subject = "the folder" if folder == "." else f"folder {folder}"
    return f"kept: {subject} could not be listed. Let this user read it, or take it out, and run again"


def _kept(source_id: str, kept: Mapping[tuple[NoticeCode, str], list[DocumentKey]]) -> Iterator[KeptDocuments]:
    for (reason, cause), keys in kept.items():
        yield KeptDocuments(source_id, reason, cause, tuple(keys))
