"""Protocols for knowledge bases: a source that is searched, and a sink that documents are written to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from context_engine.core.models import (
    AccessScope,
    Chunk,
    Examination,
    ExaminationRequest,
    FetchRequest,
    Link,
    LinkQuery,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
)
from context_engine.errors import SourceError


@runtime_checkable
class Source(Protocol):
    """A knowledge base that can be searched. Safe for several threads at once.

    Attributes:
        source_id: the id of the manifest's source.
        score_kinds: the kinds of score its chunks may carry; a call with a threshold on another is refused.
    """

    source_id: str
    score_kinds: frozenset[ScoreKind]

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return at most `query.top_k` chunks, best first.

        Raises:
            SourceError: the source could not answer; an empty answer is not an error.
        """
        ...

    def close(self) -> None:
        """Release connections and files; may be called twice."""
        ...


@runtime_checkable
class JointlySearchable(Protocol):
    """A source that can be searched together with others more cheaply than one by one; optional.

    Attributes:
        store: the store of the source; sources with the same `store` object may be searched together.
    """

    @property
    def store(self) -> object: ...

    def search_together(self, sources: Sequence[Source], query: SourceQuery) -> Sequence[SourceAnswer | SourceError]:
        """Return for each source, in order, the result or exception of its own `search`.

        Args:
            sources: sources with the same `store` as this one, including this one.
            query: the query for all of them.

        Raises:
            Exception: of any kind; each source is then searched alone.
        """
        ...


@runtime_checkable
class Versioned(Protocol):
    """A source, or the store of several, that can tell whether it has changed; optional.

    Equal queries at the same version must get the same answer, whoever asks: only `SourceQuery.access` tells callers
    apart. Without a version, answers of the source are kept in the cache only if `cache_unversioned_ttl_s` is set.
    """

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return a text that is new after every change of what a caller may read, and of what was learnt from it.

        Two stores never have the same version. A version never comes back with other contents. A change of what the
        caller may not read should leave it as it is.

        Args:
            access: which classes of chunks the caller may read; None: all.
            timeout_s: seconds within which it must return.

        Returns:
            "" if it cannot tell for this caller.

        Raises:
            SourceError, StoreError: the version cannot be read.
        """
        ...


@runtime_checkable
class Preparable(Protocol):
    """A source that must load something, such as a model, before its first answer; optional."""

    def prepare(self, query_text: str, seconds: float) -> None:
        """Load missing parts. Called before each search; must return at once if everything is loaded.

        The time it takes counts against the search's deadline, not against the source's own time limit.

        Args:
            query_text: the text that will be searched for.
            seconds: the time within which it must return.

        Raises:
            Exception: of any kind; the source is searched anyway.
        """
        ...


@runtime_checkable
class Examinable(Protocol):
    """A source that can report whether it can be searched and what it holds; optional.

    A source without this method is only tried with a sample query.
    """

    def examine(self, request: ExaminationRequest) -> Examination:
        """Return the facts that were found within `request.timeout_s`; faults are listed as problems.

        Raises:
            SourceError, ConfigError: the source could not be examined at all.
        """
        ...


@runtime_checkable
class Listable(Protocol):
    """A source that can list its chunks; optional.

    An evaluation uses it to detect judged documents that the source does not hold, and to count all tokens.
    """

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield every chunk once, with the same id, document and text as in a search.

        Raises:
            SourceError, StoreError: the chunks cannot be listed.
        """
        ...


@runtime_checkable
class Fetchable(Protocol):
    """A source that can return chunks by id; optional. Without it, changed chunks cannot be detected."""

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        """Return the requested chunks that exist, each once, in any order, with the same ids as in a search.

        Chunks that `request.access` does not admit are treated as missing.

        Raises:
            SourceError: the chunks cannot be fetched now; finding none is not an error.
        """
        ...


@runtime_checkable
class GraphStore(Protocol):
    """A source that knows what its chunks lead to; optional. Without it, a search adds no linked chunks of it."""

    def linked(self, query: LinkQuery) -> Sequence[Link]:
        """Return the chunks of this source that one edge leads to from the origins, at most `query.query.top_k`.

        Each chunk carries the scores that a search of the source for the query gives it. A chunk that the access in the
        query does not admit is treated as missing: it is neither returned nor an origin. An origin of a source that is
        in another store leads to the documents that it cites by name: who asks has checked that the caller may read it.

        Raises:
            SourceError: the links cannot be followed now; finding none is not an error.
        """
        ...


@runtime_checkable
class Sink(Protocol):
    """A store that documents are written to, by one thread.

    A document is identified by (source_id, document_id, version); version "" means "no version".

    A writable adapter opens one for the sources of a domain (`source_adapter(open_sink=...)`).
    """

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write or replace a document; if `content_hash` is unchanged, write nothing and return False."""
        ...

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document; return whether it existed."""
        ...

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} for every document of the source."""
        ...

    def commit(self) -> None:
        """Make everything written so far durable and searchable; uncommitted writes may be lost, never torn."""
        ...


class SinkReport(NamedTuple):
    """A sink's report on a run, beyond the counts of documents and chunks.

    Attributes:
        place: where it wrote, for the user.
        outcome: the accepted documents in one sentence; "" if the counts are enough.
        advice: actions for the user; all are shown.
        remarks: notes on single documents; only the first few are shown.
        problems: documents that are not stored as written; any of them makes the run a failure.
        published: added to the JSON report under the adapter's name; None adds nothing.
        dataset_ids: {source id: dataset id} of datasets that the manifest does not name yet.
    """

    place: str
    outcome: str = ""
    advice: Sequence[str] = ()
    remarks: Sequence[str] = ()
    problems: Sequence[str] = ()
    published: Mapping[str, Any] | None = None
    dataset_ids: Mapping[str, str] = MappingProxyType({})


@runtime_checkable
class FileTrackingSink(Sink, Protocol):
    """A sink that knows which file a document came from; optional.

    With it, the documents of a file that cannot be read are kept."""

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path, relative to the ingested folder, of the file that a stored document came from.

        The path is the `source_file` in the metadata of its chunks; None if it is not known.
        """
        ...


@runtime_checkable
class ScrubbingSink(Sink, Protocol):
    """A sink that can remove what deleted documents leave behind in its store; optional."""

    def scrub(self) -> str:
        """Commit, and remove every copy of deleted documents: in indexes, lists of values and freed space.

        Returns:
            Where copies stay that the sink cannot remove, in words for the operator; "" if there are none.

        Raises:
            SourceError, StoreError: copies may be left; calling it again completes it.
        """
        ...


@runtime_checkable
class ReportingSink(Sink, Protocol):
    """A sink that reports on a run; optional."""

    def report(self, written: int) -> SinkReport:
        """Return the report at the end of a run.

        Args:
            written: number of new or changed documents; in a dry run, those that would be written.
        """
        ...
