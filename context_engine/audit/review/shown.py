"""The chunks that an answer showed, as far as its record still has them; does not need its question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple, Self

from context_engine.audit.record.candidates import CANDIDATES, read_candidates
from context_engine.audit.record.contents import chunks_of
from context_engine.audit.record.entry import Addenda, read_entry
from context_engine.audit.record.exact import Unreadable
from context_engine.core.models import Chunk, RankedChunk, SearchResult
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest, LedgerCorrupt

_SEARCHES: Final = ("search", "rank")


class ShownChunk(NamedTuple):
    """A chunk as an answer showed it.

    Attributes:
        rank: 1-based.
        content_sha256: hex SHA-256 of its text.
        chunk: the recorded chunk; None if the record never had it or it was erased.
    """

    rank: int
    source_id: str
    chunk_id: str
    document_id: str | None
    document_version: str | None
    content_sha256: str
    chunk: Chunk | None = None

    @property
    def own_id(self) -> str:
        """The id that its source gave the chunk. An answer renames a second text with the same id."""
        return self.chunk_id if self.chunk is None or not self.chunk.chunk_id else self.chunk.chunk_id

    @classmethod
    def of(cls, ranked: RankedChunk) -> Self:
        chunk = ranked.chunk
        return cls(
            rank=ranked.rank,
            source_id=ranked.source_id,
            chunk_id=ranked.chunk_id,
            document_id=chunk.document_id,
            document_version=chunk.document_version,
            content_sha256=content_sha256(chunk.content),
            chunk=chunk,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """An answer with the chunks that it showed.

    Attributes:
        time: when it was given, UTC.
        past_day: the day asked about, if in the past.
        chunks: in order.
        listed_short: number of chunks missing here: the entry had no room for them, and their addendum was erased.
    """

    search_id: str
    domain: str
    time: str
    past_day: date | None
    chunks: tuple[ShownChunk, ...]
    listed_short: int = 0


def shown_chunks(result: SearchResult) -> tuple[ShownChunk, ...]:
    return tuple(map(ShownChunk.of, result.chunks))


def recorded_answer(entry: bytes, addenda: Addenda) -> ShownAnswer:
    """Return what the record of a search shows.

    Args:
        entry: stored bytes.

    Raises:
        InvalidRequest: the record is not of a search.
        LedgerCorrupt: it cannot be read.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    read = read_entry(entry)
    if read.get("kind") not in _SEARCHES:
        raise InvalidRequest(f"record {read.get('id')} is of kind {read.get('kind')!r}, which shows no chunks")
    try:
        candidates = _candidates(read, addenda)
        listed = _listed(read) if candidates is None else _returned(candidates, _known(candidates, addenda))
        past = None if candidates is None or candidates["result"].get("today", True) else candidates["result"]["as_of"]
        return ShownAnswer(
            search_id=read["id"],
            domain=read["domain"],
            time=read["time"],
            past_day=None if past is None else date.fromisoformat(past),
            chunks=tuple(listed),
            listed_short=0 if candidates is not None else int(read.get("more", {}).get("chunks", 0)),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        why = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        raise LedgerCorrupt(f"record {read.get('id')} cannot be read: {why}") from None


def _candidates(entry: Mapping[str, Any], addenda: Addenda) -> dict[str, Any] | None:
    """Return the candidates of a record; None if they were erased."""
    named = bytes.fromhex(entry["addenda"][CANDIDATES])
    data = _fetched([named], addenda).get(named)
    return None if data is None else read_candidates(data)


def _known(candidates: Mapping[str, Any], addenda: Addenda) -> dict[int, Chunk]:
    """Return the returned chunks whose text and card are stored, by rank."""
    digests = [bytes.fromhex(digest) for digest in candidates["contents"]]
    rows = {chunk["rank"]: _row(candidates, chunk["chunk"]) for chunk in candidates["returned"]}
    wanted = {number: digests[number] for row in rows.values() for name in ("text", "card") for number in row[name]}
    present = _fetched(list(set(wanted.values())), addenda)
    contents = [present.get(digest, b"") for digest in digests]
    return {
        rank: chunks_of(row, contents)[0]
        for rank, row in rows.items()
        if all(digests[number] in present for name in ("text", "card") for number in row[name])
    }


def _fetched(digests: Sequence[bytes], addenda: Addenda) -> dict[bytes, bytes]:
    """Return the data of the addenda that are there."""
    present = addenda.addenda(digests)
    if any(addendum.digest != digest for digest, addendum in present.items()):
        raise Unreadable("an addendum is not the one that was recorded: run 'audit verify'")
    return {digest: addendum.data for digest, addendum in present.items()}


def _row(candidates: Mapping[str, Any], place: Mapping[str, Any] | Sequence[int]) -> Mapping[str, Any]:
    """Return the columns of one returned chunk: its own columns, or its row of the answer's columns."""
    if isinstance(place, Mapping):
        return place
    answer, index = place
    columns: Mapping[str, list[Any]] = candidates["answers"][answer]["chunks"]
    return {name: [column[index]] for name, column in columns.items()}


def _returned(candidates: Mapping[str, Any], known: Mapping[int, Chunk]) -> list[ShownChunk]:
    fates = candidates["fates"]
    keys = zip(fates.get("source_id", ()), fates.get("chunk_id", ()), strict=True)
    places = {key: place for place, key in enumerate(keys)}
    out = []
    for ranked in candidates["returned"]:
        place = places[ranked["source_id"], ranked["chunk_id"]]
        document, version, sha256 = (
            fates[name][place] for name in ("document_id", "document_version", "content_sha256")
        )
        key = (ranked["source_id"], ranked["chunk_id"])
        out.append(ShownChunk(ranked["rank"], *key, document, version, str(sha256), known.get(ranked["rank"])))
    return out


def _listed(entry: Mapping[str, Any]) -> list[ShownChunk]:
    return [
        ShownChunk(
            rank, chunk["source"], chunk["chunk"], chunk.get("document"), chunk.get("version"), str(chunk.get("sha256"))
        )
        for rank, chunk in enumerate(entry["chunks"], 1)
    ]
