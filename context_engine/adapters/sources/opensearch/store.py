"""A store in an OpenSearch server: its sources are searched together; copies of it, for trials, are other indices."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypeVar

from context_engine.adapters.sources.opensearch import sink
from context_engine.adapters.sources.opensearch.class_texts import IndexTexts, held_vectors, is_placed
from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    NOTHING,
    StoreView,
    any_of,
    both,
    chunk_of,
    fields_of,
)
from context_engine.adapters.sources.opensearch.documents import ShapedStore
from context_engine.adapters.sources.opensearch.graph import IndexGraph, IndexWords
from context_engine.adapters.sources.opensearch.search import IndexedRows, IndexSearch, scoped
from context_engine.adapters.sources.opensearch.server import INGEST, Calls, OpenSearchServer
from context_engine.adapters.sources.opensearch.state import (
    WORDS_VERSION,
    IndexClass,
    LearntDocument,
    StateDocument,
    change_learnt,
    make_index,
    rows_of,
)
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.copies import CopiedStore, StoreName
from context_engine.adapters.sources.stores.learnt import LearningStore
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.trainable_store import READ_S
from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    Examination,
    HeldVectors,
    ScopeCalibration,
    WholeDocument,
)
from context_engine.core.protocols import Clock, Embedder
from context_engine.errors import SourceBusy, SourceError, SourceNotFound, SourceUnavailable

_TRIES: Final = 3
_OF_DOCUMENTS: Final = {"term": {"kind": "document"}}
_OF_CHUNKS: Final = {"term": {"kind": "chunk"}}
T = TypeVar("T")


class OpenSearchStore(LearningStore[StoreView, IndexedRows, IndexSearch], CopiedStore):
    """A knowledge base in the indices of an OpenSearch server. Opened on first use; safe for many threads.

    Args:
        server: that has the indices.
        store: its indices.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time, and dates what is kept.
    """

    _asking, _graph = IndexSearch, IndexGraph

    def __init__(
        self,
        server: OpenSearchServer,
        store: ShapedStore,
        options: SearchOptions,
        embedder: Embedder | None,
        clock: Clock,
    ) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._server, self._prefix = server, store.prefix
        self._shaped, self._own = store, store.named

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source at one point in time; none if the source is unknown."""
        calls = self._server.reading(READ_S)
        view = StoreView.read(calls, self._prefix)
        rows = calls.snapshot(view.indices, both(view.state.visible, _OF_CHUNKS, _of(source_id)), CHUNK_FIELDS)
        return map(chunk_of, rows)

    def examine(self, source_id: str, access: AccessScope | None, timeout_s: float) -> Examination:
        """Return what the server is and what it holds of a source."""

        def read(view: StoreView) -> Examination:
            version = str(view.calls.ask("GET", "")["version"]["number"])
            query = both(view.state.visible, _OF_DOCUMENTS, _of(source_id))
            (result,) = view.search([{"size": 0, "track_total_hits": True, "query": query}])
            left = copies_of(view.calls, self._own) if access is None else []
            return self._examination(
                source_id,
                view.keys,
                [f"DELETE {name}-* removes it" for name in left],
                {"indices": len(view.indices)},
                kind=f"OpenSearch {version}",
                version=version,
                documents=result["hits"].get("total", {"value": 0})["value"],
                search_method="terms" if view.state.model_id is None else "terms, k-NN",
            )

        return self._in_view(access, timeout_s, read)

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace the calibrations of a plan, also while another process changes what is learnt (`Calibratable`)."""
        change_learnt(self._server.writing(), self._prefix, lambda learnt: learnt.calibrated(domain, plan, found))

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document of a source, in the order of writing (`Copyable`)."""
        return self._in_view(None, READ_S, lambda view: sink.document_hashes(view, source_id))

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        yield from self._in_view(None, READ_S, lambda view: sink.stored_documents(view, source_id, keys))

    def rebuild(self) -> None:
        """Let the server merge every index into one segment, without deleted rows (`AccessProvable`)."""
        calls = self._server.writing()
        for index in StoreView.read(calls, self._prefix).indices:
            calls.ask("POST", f"{index}/_forcemerge?max_num_segments=1")

    def _copy_as(self, name: str) -> None:
        copy_store(self._server.writing(), self._shaped, name)

    def _remove_copy(self, name: str) -> None:
        remove_store(self._server.writing(), name)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._server.close()

    def _in_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[StoreView], T]) -> T:
        """Return what `read` gives; raises the failure of a shard."""
        calls = self._server.reading(timeout_s)
        value = self._read(calls, access, read)
        if calls.failures:
            raise calls.failures[0]
        return value

    def _in_partial_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[StoreView], T]) -> T:
        return self._read(self._server.reading(timeout_s), access, read)

    def _read(self, calls: Calls, access: AccessScope | None, read: Callable[[StoreView], T]) -> T:
        """Return what `read` gives for one commit.

        A writer removes what a commit has replaced when the next one is there. So a reader that meets both asks again.
        """
        document = StateDocument(calls, self._prefix)
        for _ in range(_TRIES):
            view = StoreView.read(calls, self._prefix, access)
            state = view.state
            self._check_analysis(state.words_version, WORDS_VERSION)
            try:
                value = read(view)
            except SourceNotFound:
                if document.read().generation == state.generation:
                    raise
                continue
            if document.read().generation <= state.generation + 1:
                return value
            calls.failures.clear()
        raise SourceBusy("its documents changed during the search: ask again", retryable=True)

    def _texts(self, view: StoreView) -> IndexTexts:
        return IndexTexts(view)

    def _held_vectors(self, view: StoreView, source_ids: Sequence[str]) -> HeldVectors:
        return held_vectors(view, source_ids)

    def _scoped(self, view: StoreView, scopes: Sequence[Scope]) -> dict[str, IndexedRows]:
        return {scope.source_id: scoped(view, scope) for scope in scopes if scope.source_id in view.state.sources}

    def _vocabulary(self, view: StoreView, rows: IndexedRows | None, asked: Sequence[str]) -> IndexWords:
        return IndexWords(view, NOTHING if rows is None else rows.query, asked)

    def _fields(self, view: StoreView, rows: IndexedRows) -> tuple[str, ...]:
        return fields_of(view, rows.source_id)

    def _fetched(
        self, view: StoreView, source_id: str, chunk_ids: Sequence[str], document_ids: Sequence[str]
    ) -> list[Chunk]:
        wanted = [any_of("chunk_id", chunk_ids), any_of("document_id", document_ids)]
        query = both(_of(source_id), {"bool": {"should": wanted, "minimum_should_match": 1}})
        return [chunk_of(row) for row in view.rows(query, CHUNK_FIELDS)]

    def _is_placed(self, view: StoreView, source_id: str, place: SourcePlace) -> bool:
        return is_placed(view, source_id, place)

    def _failures(self, view: StoreView, source_id: str) -> tuple[SourceError, ...]:
        return tuple(
            SourceUnavailable(str(failure), source_id=source_id, retryable=failure.retryable)
            for failure in view.calls.failures
        )

    @contextmanager
    def _opened(self, access: AccessScope | None, timeout_s: float) -> Iterator[StoreView]:
        yield StoreView.read(self._server.reading(timeout_s), self._prefix, access)

    @contextmanager
    def _learning(self) -> Iterator[StoreView]:
        view = StoreView.read(self._server.writing(), self._prefix)
        yield view
        view.learnt.write()


def _of(source_id: str) -> Mapping[str, Any]:
    return {"term": {"source": source_id}}


def copy_store(calls: Calls, store: ShapedStore, target: str) -> None:
    """Copy the visible rows of a store, and what it has learnt, to indices with another prefix.

    Raises:
        SourceNotFound: nothing was ever ingested.
        SourceError: the server failed, or documents changed meanwhile; nothing is left of the copy.
    """
    view = StoreView.read(calls, store.prefix)
    try:
        classes = tuple(_copied(calls, view, store, each, target) for each in view.classes)
        if StateDocument(calls, store.prefix).read().generation != view.state.generation:
            raise SourceBusy("its documents changed meanwhile: try again", retryable=True)
        document = StateDocument(calls, target)
        document.read_or_make()
        document.write(replace(view.state, classes=classes, writer="", until=0.0))
        learnt = LearntDocument(calls, target, {})
        learnt.adopt(view.learnt)
        learnt.write()
    except SourceError:
        remove_store(calls, target)
        raise


def remove_store(calls: Calls, prefix: str) -> None:
    """Remove every index of a store."""
    for name in sorted(calls.ask("GET", f"{prefix}-*/_alias")):
        calls.ask("DELETE", name)


def copies_of(calls: Calls, store: StoreName) -> list[str]:
    """Return the prefixes of the copies of a store."""
    names = [name.removesuffix("-state") for name in calls.ask("GET", f"{store.begin_of_copies}*-state/_alias")]
    return sorted(filter(re.compile(store.copies).match, names))


def _copied(calls: Calls, view: StoreView, store: ShapedStore, access_class: IndexClass, target: str) -> IndexClass:
    """Copy the rows of an access class to a new index."""
    index = f"{target}-{access_class.key}-{secrets.token_hex(4)}"
    make_index(calls, index, store.shape, view.state.dimension)
    rows = calls.snapshot([access_class.index_name], view.state.visible, ["*"])
    while some := list(islice(rows, store.at_once)):
        calls.bulk([_line(index, row) for row in some])
    calls.ask("POST", f"{index}/_refresh")
    return access_class._replace(index_name=index)


def _line(index: str, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a row as the server reads it; that it ends with the next commit of its store does not count."""
    fields = {name: value for name, value in row.items() if name not in ("_id", "_index", "died")}
    return json.dumps({"index": {"_index": rows_of(index), "_id": row["_id"]}}), json.dumps(fields)
