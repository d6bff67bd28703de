"""The state of a store, and the indices of its access classes.

Every access class has an index of its own, so that no statistics of the server mix texts with different readers. An
index holds a row for each document, for each of its chunks and for each vector. A row is visible from the commit
`born`, and until the commit `died`. The state is one document that names the last commit, its indices and its writer:
writing it makes a commit visible in all indices at once.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.server import CONFLICT, NOTHING_WRITTEN, Calls
from context_engine.adapters.sources.stores.learnt import Learnt
from context_engine.core.models import AccessClass, AccessScope
from context_engine.core.text import ANALYSER_VERSION
from context_engine.errors import SourceNotFound, SourceUnavailable, StoreLocked, StoreVersionMismatch

LAYOUT_VERSION: Final = 1
LEASE_S: Final = 120.0
"""Seconds after which a silent writer counts as ended, so that another may write."""
WORDS_VERSION: Final = f"{ANALYSER_VERSION}.2"
"""The analysis that the rows were made with."""


class IndexClass(NamedTuple):
    """An access class with documents in the store.

    Attributes:
        index_name: of its index.
        generation: the last commit that changed it.
    """

    key: int
    holds: AccessClass
    index_name: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """The state of a store after a commit.

    Attributes:
        generation: number of the last commit.
        writing: number of the commit that the writer makes; none is given twice.
        given_up: numbers of commits that never came, whose rows are invisible for ever.
        next_row: number of the next row.
        model_id, dimension: of the vectors; None and 0 without any.
        sources: that were ever written.
        classes: all access classes, oldest first.
        writer: name of the process that writes; "" if none does.
        until: seconds since 1970 from which another process may write.
    """

    base_id: str
    layout: int = LAYOUT_VERSION
    generation: int = 0
    writing: int = 1
    given_up: tuple[int, ...] = ()
    next_row: int = 1
    words_version: str = WORDS_VERSION
    model_id: str | None = None
    dimension: int = 0
    sources: tuple[str, ...] = ()
    classes: tuple[IndexClass, ...] = ()
    writer: str = ""
    until: float = 0.0

    def readable(self, access: AccessScope | None) -> tuple[IndexClass, ...]:
        """Return the classes that a caller may read; None admits everything."""
        return tuple(
            access_class for access_class in self.classes if access is None or access.admits(access_class.holds)
        )

    @property
    def visible(self) -> Mapping[str, Any]:
        """The query for the rows of the last commit."""
        gone = {"bool": {"filter": [_up_to("died", self.generation)], "must_not": [self._given_up("died")]}}
        return {"bool": {"filter": [_up_to("born", self.generation)], "must_not": [gone, self._given_up("born")]}}

    def _given_up(self, field: str) -> Mapping[str, Any]:
        return {"terms": {field: list(self.given_up)}}


def _up_to(field: str, generation: int) -> Mapping[str, Any]:
    return {"range": {field: {"lte": generation}}}


_NO_INDEX: Final = "index_not_found_exception"
_STATE_INDEX: Final = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}},
    "mappings": {"enabled": False},
}


class LearntDocument(Learnt):
    """What a store has learnt: one document beside the state, replaced as it was read, and one for each adapter's maps.

    Of two who change it at once, one is refused.

    Args:
        prefix: begins the names of the store's indices.
        document: as the server gives it.
    """

    def __init__(self, calls: Calls, prefix: str, document: Mapping[str, Any]) -> None:
        super().__init__(document.get("_source", {}), self._read, f"the store '{prefix}-*'")
        self._calls, self._prefix = calls, prefix
        self._version = version_of(document) if document.get("found") else "op_type=create"

    def write(self) -> None:
        """Replace the document on the server.

        Raises:
            StoreLocked: another process has replaced it meanwhile.
            SourceError: the server failed.
        """
        fields, new, gone = self.changes()
        for adapter_id, maps in new.items():  # first, so that nobody reads of maps that are not there yet
            self._calls.ask("PUT", self._maps_of(adapter_id), {"maps": base64.b64encode(maps).decode()})
        answer = self._calls.answer("PUT", f"{self._prefix}-state/_doc/learnt?{self._version}", fields)
        if answer.status == CONFLICT:
            raise StoreLocked(f"another process changes what the store {self._prefix!r} has learnt: try again")
        self._version = version_of(answer.json())
        for adapter_id in gone:
            self._calls.ask("DELETE", self._maps_of(adapter_id))

    def _read(self, adapter_id: str) -> bytes:
        try:
            return base64.b64decode(self._calls.ask("GET", self._maps_of(adapter_id))["_source"]["maps"])
        except (SourceNotFound, ValueError, KeyError, TypeError):
            return b""

    def _maps_of(self, adapter_id: str) -> str:
        return f"{self._prefix}-state/_doc/maps-{adapter_id}"


def version_of(document: Mapping[str, Any]) -> str:
    """Return the version of a document that was read or written, as the next change of it must name it."""
    return f"if_seq_no={document['_seq_no']}&if_primary_term={document['_primary_term']}"


class StateDocument:
    """Reads and writes the state of a store.

    Args:
        prefix: begins the names of the store's indices.

    Attributes:
        learnt: what the store has learnt, as it was when the state was read last.
    """

    learnt: LearntDocument

    def __init__(self, calls: Calls, prefix: str) -> None:
        self._calls, self._prefix = calls, prefix
        self._version = ""

    def read(self) -> IndexState:
        """Return the state.

        Raises:
            SourceNotFound: nothing was ever ingested.
            StoreVersionMismatch: a later version of this package wrote the store.
            SourceError: the server failed.
        """
        path = f"{self._prefix}-state/_mget"
        state, learnt = documents = self._calls.ask("POST", path, {"ids": ["state", "learnt"]})["docs"]
        if any(document["error"].get("type") != _NO_INDEX for document in documents if "error" in document):
            raise SourceUnavailable("its state cannot be read: the server's log says why", retryable=True)
        if not state.get("found"):
            raise SourceNotFound(NOTHING_WRITTEN)
        self._version, self.learnt = version_of(state), LearntDocument(self._calls, self._prefix, learnt)
        return _state_of(state["_source"])

    def read_or_make(self) -> IndexState:
        """Return the state; a store that is not there is made; raises as `read` does."""
        try:
            return self.read()
        except SourceNotFound:
            self._calls.ask("PUT", f"{self._prefix}-state", _STATE_INDEX)
            self._version = "op_type=create"
            self.write(IndexState(base_id=secrets.token_hex(8)))
            return self.read()

    def write(self, state: IndexState) -> None:
        """Replace the state as it was last read or written.

        Raises:
            StoreLocked: another process has replaced it meanwhile.
            SourceError: the server failed.
        """
        answer = self._calls.answer("PUT", f"{self._prefix}-state/_doc/state?{self._version}", _fields_of(state))
        if answer.status == CONFLICT:
            raise self._locked()
        self._version = version_of(answer.json())

    def take(self, now: float) -> tuple[IndexState, bool]:
        """Become the writer; return the state, and whether the last writer has left rows behind.

        Args:
            now: seconds since 1970.

        Raises:
            StoreLocked: another process is writing.
        """
        state = self.read_or_make()
        if state.writer and now < state.until:
            raise self._locked()
        taken = replace(state, writer=secrets.token_hex(8), until=now + LEASE_S)
        taken = stepped(taken, unfinished=True) if state.writer else taken
        self.write(taken)
        return taken, bool(state.writer)

    def _locked(self) -> StoreLocked:
        return StoreLocked(f"store {self._prefix!r} is being written to by another process: wait until it has finished")


def change_learnt(calls: Calls, prefix: str, change: Callable[[LearntDocument], None]) -> None:
    """Change what a store has learnt; once more if another process changes it at the same time.

    Raises:
        StoreLocked: others change it all the time.
        SourceError: the server failed.
    """
    document = StateDocument(calls, prefix)

    def write() -> None:
        document.read()
        change(document.learnt)
        document.learnt.write()

    try:
        write()
    except StoreLocked:
        write()


def stepped(state: IndexState, *, unfinished: bool) -> IndexState:
    """Return a state in which the next commit has a new number.

    Args:
        unfinished: whether rows with its number may have been written: they stay invisible.
    """
    number = state.writing
    given_up = (*state.given_up, number) if unfinished else state.given_up
    generation = state.generation if unfinished else number
    return replace(state, writing=number + 1, generation=generation, given_up=given_up)


def _fields_of(state: IndexState) -> dict[str, Any]:
    classes = [
        [
            access_class.key,
            access_class.holds.rules,
            access_class.holds.classification,
            access_class.index_name,
            access_class.generation,
        ]
        for access_class in state.classes
    ]
    return {**asdict(replace(state, classes=())), "classes": classes}


def _state_of(fields: Mapping[str, Any]) -> IndexState:
    if fields["layout"] > LAYOUT_VERSION:
        raise StoreVersionMismatch(
            f"its indices are of version {fields['layout']}, this program knows version {LAYOUT_VERSION}: update the "
            "program"
        )
    classes = (
        IndexClass(key, AccessClass.of(rules, name), index, generation)
        for key, rules, name, index, generation in fields["classes"]
    )
    lists = {name: tuple(fields[name]) for name in ("given_up", "sources")}
    return IndexState(**{**fields, **lists, "classes": tuple(classes)})


class IndexShape(NamedTuple):
    """How new indices are made; each is a setting of the source."""

    shards: int
    replicas: int
    engine: str
    m: int
    ef_construction: int


_NAME: Final = {"type": "keyword"}
_NUMBER: Final = {"type": "long"}
_WORD: Final = {"type": "keyword", "doc_values": False}
_KEPT_WORD: Final = {**_WORD, "index": False}
_TEXT: Final = {"type": "text", "index": False}
_FIELDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            "kind",
            "source",
            "claimed",
            "document_id",
            "version",
            "chunk_id",
            "fields_held",
            "attributes",
            "digest",
            "written",
        ),
        _NAME,
    ),
    **dict.fromkeys(("born", "died", "row", "part", "document", "section", "length", "from_day", "to_day"), _NUMBER),
    **dict.fromkeys(("body", "head"), _WORD),
    **dict.fromkeys(("title", "defined"), _KEPT_WORD),
    "unembedded": {"type": "boolean"},
    **dict.fromkeys(("content", "fields", "indexed_at", "content_hash", "source_file"), _TEXT),
}


def make_index(calls: Calls, index: str, shape: IndexShape, dimension: int) -> None:
    """Make the index of an access class.

    Args:
        dimension: of its vectors; 0 without any.

    Raises:
        SourceError: the server failed, or has no plugin for vectors.
    """
    fields = dict(_FIELDS)
    settings: dict[str, Any] = {
        "number_of_shards": shape.shards,
        "number_of_replicas": shape.replicas,
        "refresh_interval": -1,
    }
    if dimension:
        settings["knn"] = True
        method = {
            "name": "hnsw",
            "engine": shape.engine,
            "space_type": "cosinesimil",
            "parameters": {"m": shape.m, "ef_construction": shape.ef_construction},
        }
        fields["vector"] = {"type": "knn_vector", "dimension": dimension, "method": method}
    mappings = {"dynamic": "strict", "properties": fields}
    calls.ask("PUT", index, {"settings": {"index": settings}, "mappings": mappings, "aliases": {rows_of(index): {}}})


def rows_of(index: str) -> str:
    """Return the alias by which the rows of an index are written: a server makes no index for an alias that is gone."""
    return f"{index}-rows"
