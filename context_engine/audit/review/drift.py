"""Check whether the chunks that an answer showed are still in their sources: fetch each again and compare.

Chunks that the reader may not see count as gone, as in a search; those of a source that the reader may not know of
cannot be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from itertools import groupby
from typing import Any, Final, NamedTuple

from context_engine.audit.review.counterpart import Counterpart, WordChange, counterpart, word_changes
from context_engine.audit.review.shown import ShownChunk
from context_engine.core.models import PLACE_OF_MATCH, Chunk, FetchRequest, json_value
from context_engine.core.policy.trust import in_force, superseded
from context_engine.core.text import content_sha256
from context_engine.errors import ContextEngineError, SourceNotFound, UnknownDomain

Fetch = Callable[[str, FetchRequest], Sequence[Chunk]]
"""Returns chunks of a source by their ids, as the reader may see them; raises `ContextEngineError` on failure."""

_COMPARED: Final = (
    *("title", "section", "heading_path", "doc_type", "source_type", "authority_tier", "trust_class"),
    *("classification", "ttl_seconds", "effective_from", "effective_to", "superseded_by"),
)
_OF_THE_PLACE: Final = ("section", "heading_path", "reference")
_OF_THE_CUT: Final = frozenset(
    (
        *("chunk_id", "chunk_index", "content_sha256", "token_count", "previous_chunk_id", "next_chunk_id"),
        *("created_at", "fetched_at", "line", "page", "page_end", "version", "document_version"),
        *("dify_document_id", "upload_date", "last_update_date"),
    )
)
"""Metadata on a chunk's place, its cutting or the time of writing: a change of these does not change what it says."""


class ChunkState(StrEnum):
    """What became of a chunk."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    GONE = "gone"
    SUPERSEDED = "superseded"
    CANNOT_CHECK = "cannot_check"


class FieldChange(NamedTuple):
    """A changed field; other metadata is named "metadata.NAME". Values are JSON-ready."""

    name: str
    was: Any
    now: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkDrift:
    """What became of one chunk.

    Attributes:
        shown: as the answer showed it.
        text: the word changes; empty if the text is the same, or no longer stored in the record.
        text_changed: whether the text differs.
        fields: other changes, including the version.
        now_id: the id of the chunk now in its place, if different.
        cut_into: ids of the chunks that now contain its words, if it was cut differently.
        superseded_by: the version or document in force instead; None if none is named.
        why: the reason for `cannot_check` and `gone`; the day, for `superseded` by dates alone.
    """

    shown: ShownChunk
    state: ChunkState
    text: tuple[WordChange, ...] = ()
    text_changed: bool = False
    fields: tuple[FieldChange, ...] = ()
    now_id: str | None = None
    cut_into: tuple[str, ...] = ()
    superseded_by: str | None = None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the published form, without the chunk's text."""
        shown = {name: value for name, value in self.shown._asdict().items() if name != "chunk"}
        return {
            **shown,
            "state": str(self.state),
            "text_changed": self.text_changed,
            "text": [change._asdict() for change in self.text],
            "fields": [change._asdict() for change in self.fields],
            "now_id": self.now_id,
            "cut_into": list(self.cut_into),
            "superseded_by": self.superseded_by,
            "why": self.why,
        }


def drift(
    shown: Sequence[ShownChunk], fetch: Fetch, *, domain: str, day: date, today: bool = True, timeout_s: float = 10.0
) -> tuple[ChunkDrift, ...]:
    """Return what became of the chunks of an answer, in order; each source is asked once.

    Args:
        day: the day on which the chunks must be in force: the day of the question, or today.
        today: whether that day is not in the past.
        timeout_s: seconds per source.
    """
    drifts: dict[int, ChunkDrift] = {}
    for source_id, group in groupby(
        sorted(shown, key=lambda chunk: chunk.source_id), key=lambda chunk: chunk.source_id
    ):
        of_source = list(group)
        wanted = FetchRequest(
            domain=domain,
            chunk_ids=tuple(chunk.own_id for chunk in of_source if not chunk.document_id),
            document_ids=tuple(dict.fromkeys(chunk.document_id for chunk in of_source if chunk.document_id)),
            timeout_s=timeout_s,
        )
        try:
            now = tuple(fetch(source_id, wanted))
        except (UnknownDomain, SourceNotFound) as error:
            drifts |= {chunk.rank: _unchecked(chunk, f"{str(error).rstrip('.')}: {_UNKNOWN}") for chunk in of_source}
            continue
        except ContextEngineError as error:
            drifts |= {chunk.rank: _unchecked(chunk, str(error)) for chunk in of_source}
            continue
        texts = frozenset(chunk.content_sha256 for chunk in of_source)
        for chunk in of_source:
            drifts[chunk.rank] = _compared(chunk, now, texts - {chunk.content_sha256}, day, today=today)
    return tuple(drifts[chunk.rank] for chunk in shown)


_UNKNOWN: Final = "it was removed, or you may not know of it (--as names another reader)"


def _unchecked(shown: ShownChunk, why: str) -> ChunkDrift:
    return ChunkDrift(shown=shown, state=ChunkState.CANNOT_CHECK, why=why)


def _compared(shown: ShownChunk, now: Sequence[Chunk], taken: Set[str], day: date, *, today: bool) -> ChunkDrift:
    if not shown.document_id:
        if shown.content_sha256.startswith(shown.own_id):
            return _unchecked(shown, "its source gives it no id")
        return _in_version(
            shown, [chunk for chunk in now if chunk.chunk_id == shown.own_id], taken, "its id no longer exists"
        )
    document = [chunk for chunk in now if chunk.document_id == shown.document_id]
    if not document:
        return ChunkDrift(shown=shown, state=ChunkState.GONE, why="its document no longer exists")
    own = [chunk for chunk in document if chunk.document_version == shown.document_version]
    if not own:
        return _of_another_version(shown, document, taken)
    left = _in_version(shown, own, taken, "its document exists without this text")
    replaced_by = _replaced(shown, own, document, day, today=today)
    return left if replaced_by is None else replace(left, state=ChunkState.SUPERSEDED, **replaced_by)


def _in_version(shown: ShownChunk, own: Sequence[Chunk], taken: Set[str], missing: str) -> ChunkDrift:
    """Compare a chunk with those of its document in its own version."""
    match = counterpart(shown, own, taken)
    if match is None:
        return ChunkDrift(shown=shown, state=ChunkState.GONE, why=missing)
    return _difference(shown, match)


def _difference(shown: ShownChunk, match: Counterpart) -> ChunkDrift:
    if match.chunk is None:
        return ChunkDrift(shown=shown, state=ChunkState.CHANGED, cut_into=match.cut_into)
    fields = _field_changes(shown, match.chunk)
    known = shown.chunk is not None and not match.same_text
    return ChunkDrift(
        shown=shown,
        state=ChunkState.UNCHANGED if match.same_text and not fields else ChunkState.CHANGED,
        text=word_changes(shown.chunk.content, match.chunk.content) if known and shown.chunk is not None else (),
        text_changed=not match.same_text,
        fields=fields,
        now_id=None if match.chunk.chunk_id == shown.own_id else match.chunk.chunk_id,
    )


def _of_another_version(shown: ShownChunk, document: Sequence[Chunk], taken: Set[str]) -> ChunkDrift:
    """Compare a chunk with the newest version of its document, because its own version is gone."""
    newest = max(document, key=lambda chunk: (chunk.effective_from or date.min, chunk.document_version or ""))
    version = newest.document_version
    left = _in_version(shown, [chunk for chunk in document if chunk.document_version == version], taken, "")
    of_version = FieldChange("document_version", shown.document_version, version)
    state = ChunkState.CHANGED if shown.document_version is None else ChunkState.SUPERSEDED
    return replace(
        left,
        state=state,
        fields=(of_version, *(field for field in left.fields if field.name != "document_version")),
        superseded_by=version if state is ChunkState.SUPERSEDED else None,
        why="its text is not in the other version" if left.state is ChunkState.GONE else "",
    )


def _replaced(
    shown: ShownChunk, own: Sequence[Chunk], document: Sequence[Chunk], day: date, *, today: bool
) -> dict[str, Any] | None:
    """Return what superseded the version of a chunk, or the day it ceased to be in force; None if it is in force.

    Changes that the answer itself already stated are not reported.
    """
    chunk = next((candidate for candidate in own if content_sha256(candidate.content) == shown.content_sha256), own[0])
    if shown.chunk is not None and _standing(shown.chunk) == _standing(chunk) and chunk.superseded_by:
        return None
    removal = in_force(chunk, day)
    if removal is not None:
        return {"why": f"{removal.reason.replace('_', ' ')}: {removal.value}", "superseded_by": chunk.superseded_by}
    living = [chunk for chunk in document if in_force(chunk, day) is None]
    place = next(at for at, candidate in enumerate(living) if candidate is chunk)
    removed = superseded([(shown.source_id, candidate) for candidate in living], today=today).get(place)
    return None if removed is None else {"superseded_by": removed.limit}


def _standing(chunk: Chunk) -> tuple[Any, ...]:
    return chunk.effective_from, chunk.effective_to, chunk.superseded_by


def _field_changes(shown: ShownChunk, now: Chunk) -> tuple[FieldChange, ...]:
    changes = [FieldChange("document_version", shown.document_version, now.document_version)]
    if shown.chunk is not None:
        was = shown.chunk
        place = _OF_THE_PLACE if was.extra.get(PLACE_OF_MATCH) else ()
        changes += [
            FieldChange(name, getattr(was, name), getattr(now, name)) for name in _COMPARED if name not in place
        ]
        names = sorted((was.metadata.keys() | now.metadata.keys()) - _OF_THE_CUT.union(place))
        changes += [FieldChange(f"metadata.{name}", was.metadata.get(name), now.metadata.get(name)) for name in names]
    ready = (change._replace(was=json_value(change.was), now=json_value(change.now)) for change in changes)
    return tuple(change for change in ready if change.was != change.now)


def counts(drifts: Sequence[ChunkDrift]) -> Mapping[str, int]:
    """Return the number of chunks in each state; every state is a key."""
    return {str(state): sum(drift.state is state for drift in drifts) for state in ChunkState}
