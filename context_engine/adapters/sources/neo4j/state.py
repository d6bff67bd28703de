"""The state of a store, its writer, and the indexes of its access classes.

A node of a document, a chunk or a further vector is visible from the commit `born`, and until the commit `died`. The
state is one node that names the last commit: writing it makes a commit visible at once, however many transactions
wrote its nodes. Every access class has a label and indexes of its own, so that no statistics of the server mix texts
with different readers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from context_engine.adapters.sources.neo4j.server import INGEST, GraphServer, Transaction
from context_engine.adapters.sources.stores.learnt import Learnt
from context_engine.core.models import AccessClass, AccessScope
from context_engine.core.text import ANALYSER_VERSION
from context_engine.errors import SourceNotFound, StoreLocked, StoreVersionMismatch

LAYOUT_VERSION: Final = 1
LEASE_S: Final = 120.0
"""Seconds after which a silent writer counts as ended, so that another may write."""
WORDS_VERSION: Final = f"{ANALYSER_VERSION}.3"
"""The analysis that the words were made with."""
VISIBLE: Final = "n.born <= $generation AND (n.died IS NULL OR n.died > $generation)"
"""The condition for the nodes of a commit."""
_ONE_STATE: Final = (
    "CREATE CONSTRAINT context_engine_store IF NOT EXISTS FOR (s:ContextEngineStore) REQUIRE s.store IS UNIQUE"
)
_STATE: Final = "MATCH (s:ContextEngineStore {store: $store})"
_MAPS: Final = "MATCH (m:ContextEngineMaps {store: $store})"


class StoreClass(NamedTuple):
    """An access class with documents in the store.

    Attributes:
        generation: the last commit that changed it.
        texts, words: how many texts it has, and terms in them.
    """

    key: int
    holds: AccessClass
    generation: int
    texts: int = 0
    words: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphState:
    """The state of a store after a commit.

    Attributes:
        generation: number of the last commit.
        cleaned: number of the last commit whose dead nodes are being deleted, or are gone.
        next_row: number of the next node.
        model_id, dimension: of the vectors; None and 0 without any.
        sources: that were ever written.
        classes: all access classes, oldest first.
    """

    base_id: str
    layout: int = LAYOUT_VERSION
    generation: int = 0
    cleaned: int = 0
    next_row: int = 1
    words_version: str = WORDS_VERSION
    model_id: str | None = None
    dimension: int = 0
    sources: tuple[str, ...] = ()
    classes: tuple[StoreClass, ...] = ()

    def readable(self, access: AccessScope | None) -> tuple[StoreClass, ...]:
        """Return the classes that a caller may read; None admits everything."""
        return tuple(each for each in self.classes if access is None or access.admits(each.holds))


def read_state(transaction: Transaction, store: str) -> GraphState:
    """Return the state of a store.

    Raises:
        SourceNotFound: nothing was ever ingested.
        StoreVersionMismatch: a later version of this package wrote the store.
    """
    return read_store(transaction, store)[0]


def read_store(transaction: Transaction, store: str) -> tuple[GraphState, Learnt]:
    """Return the state of a store and what it has learnt; raises as `read_state` does."""
    for state, learnt in transaction.rows(f"{_STATE} RETURN s.state, s.learnt", store=store):
        maps = partial(_maps, transaction, store)
        return _state_of(state), Learnt(json.loads(learnt or "{}"), maps, f"the store {store!r}")
    raise SourceNotFound(f"nothing was ingested into it: run '{INGEST}'")


def make_state(transaction: Transaction, store: str, state: GraphState) -> None:
    """Make a store that nobody writes to."""
    transaction.rows(
        "CREATE (s:ContextEngineStore {store: $store, state: $state, writer: '', until: 0.0})",
        store=store, state=_text_of(state),
    )  # fmt: skip


def lock_state(transaction: Transaction, store: str) -> None:
    """Let nobody else change the state, or what was learnt, before the transaction has ended."""
    transaction.rows(f"{_STATE} SET s.locked = true", store=store)


def write_learnt(transaction: Transaction, store: str, learnt: Learnt) -> None:
    """Keep what a store has learnt.

    Args:
        transaction: that has locked the state, and read it after that.
    """
    fields, new, gone = learnt.changes()
    transaction.rows(f"{_STATE} SET s.learnt = $learnt", store=store, learnt=json.dumps(fields))
    transaction.rows(f"{_MAPS} WHERE m.adapter_id IN $gone DELETE m", store=store, gone=list(gone))
    for adapter_id, maps in new.items():
        transaction.rows(
            "MERGE (m:ContextEngineMaps {store: $store, adapter_id: $adapter_id}) SET m.maps = $maps",
            store=store, adapter_id=adapter_id, maps=maps,
        )  # fmt: skip


def forget_moved(transaction: Transaction, store: str, keys: Collection[int]) -> None:
    """Remove what was learnt from classes that documents have left or entered; the transaction has locked the state."""
    _, learnt = read_store(transaction, store)
    learnt.forget_moved(keys)
    write_learnt(transaction, store, learnt)


def _maps(transaction: Transaction, store: str, adapter_id: str) -> bytes:
    rows = transaction.rows(
        f"{_MAPS} WHERE m.adapter_id = $adapter_id RETURN m.maps", store=store, adapter_id=adapter_id
    )
    return bytes(rows[0][0]) if rows else b""


def _state_of(text: str) -> GraphState:
    fields = json.loads(text)
    if fields["layout"] > LAYOUT_VERSION:
        raise StoreVersionMismatch(
            f"its nodes are of version {fields['layout']}, this program knows version {LAYOUT_VERSION}: update the "
            "program"
        )
    classes = [
        StoreClass(key, AccessClass.of(rules, name), *numbers) for key, (rules, name), *numbers in fields["classes"]
    ]
    return GraphState(**{**fields, "sources": tuple(fields["sources"]), "classes": tuple(classes)})


class Lease:
    """The right to write to a store, which ends when its holder is silent for too long.

    Args:
        now: seconds since 1970.

    Attributes:
        state: as it was when the right was taken; the store is made if it is not there.
        unclean: whether the last writer may have left nodes behind.

    Raises:
        StoreLocked: another process is writing.
        StoreVersionMismatch: a later version of this package wrote the store.
        SourceError: the server failed.
    """

    def __init__(self, server: GraphServer, store: str, now: float) -> None:
        self.server, self._store, self._writer = server, store, secrets.token_hex(8)
        server.change_schema([_ONE_STATE])
        with server.writing() as transaction:
            (row,) = transaction.rows(
                "MERGE (s:ContextEngineStore {store: $store})"
                " ON CREATE SET s.state = $state, s.writer = '', s.until = 0.0"
                " SET s.locked = true WITH s RETURN s.state, s.writer, s.until",
                store=store,
                state=_text_of(GraphState(base_id=secrets.token_hex(8))),
            )
            text, writer, until = row
            if writer and now < until:
                raise self._taken()
            self.state, self.unclean = _state_of(text), bool(writer)
            transaction.rows(
                f"{_STATE} SET s.writer = $writer, s.until = $until",
                store=store, writer=self._writer, until=now + LEASE_S,
            )  # fmt: skip

    @contextmanager
    def writing(self, now: float) -> Iterator[Transaction]:
        """Yield a transaction of the writer, and renew the right.

        Raises:
            StoreLocked: another process has taken it meanwhile.
            SourceError: the server failed.
        """
        with self.server.writing() as transaction:
            # The property is read after the node is locked, so no other process takes the right before the commit.
            own = transaction.rows(
                f"{_STATE} SET s.locked = true WITH s WHERE s.writer = $writer SET s.until = $until RETURN true",
                store=self._store, writer=self._writer, until=now + LEASE_S,
            )  # fmt: skip
            if not own:
                raise self._taken()
            yield transaction

    def write(self, transaction: Transaction, state: GraphState) -> None:
        """Replace the state."""
        transaction.rows(f"{_STATE} SET s.state = $state", store=self._store, state=_text_of(state))

    def release(self, now: float) -> None:
        """Let other processes write."""
        with self.writing(now) as transaction:
            transaction.rows(f"{_STATE} SET s.writer = ''", store=self._store)

    def _taken(self) -> StoreLocked:
        return StoreLocked(f"store {self._store!r} is being written to by another process: wait until it has finished")


def _text_of(state: GraphState) -> str:
    classes = [[each.key, [each.holds.rules, each.holds.classification], *each[2:]] for each in state.classes]
    return json.dumps({**asdict(replace(state, classes=())), "classes": classes})


def text_index(store: str, key: int) -> str:
    """Return the name of the full text index of an access class."""
    return f"{store}_{key}_chunk_fulltext"


def vector_index(store: str, key: int) -> str:
    """Return the name of the vector index of an access class."""
    return f"{store}_{key}_chunk_vector_index"


def store_indexes(store: str) -> list[str]:
    """Return the statements that make the indexes of a store."""
    found_by = ("row", "died", "source", "chunk_id", "document_id")
    return [
        *(f"CREATE INDEX {store}_{name} IF NOT EXISTS FOR (n:{store}) ON (n.{name})" for name in found_by),
        f"CREATE CONSTRAINT {store}_term IF NOT EXISTS FOR (t:{store}_term) REQUIRE (t.class, t.term) IS UNIQUE",
        f"CREATE CONSTRAINT {store}_field IF NOT EXISTS FOR (f:{store}_field) REQUIRE f.number IS UNIQUE",
        f"CREATE INDEX {store}_field_name IF NOT EXISTS FOR (f:{store}_field) ON (f.name)",
    ]


def class_indexes(store: str, keys: Sequence[int], dimension: int, *, anew: bool) -> list[str]:
    """Return the statements that make the indexes of access classes.

    Args:
        dimension: of the vectors; 0 without any.
        anew: whether they are there with other fields, or for vectors of another dimension.
    """
    names = [name for key in keys for name in (text_index(store, key), vector_index(store, key))]
    statements = [f"DROP INDEX {name} IF EXISTS" for name in names if anew]
    for key in keys:
        statements.append(
            f"CREATE FULLTEXT INDEX {text_index(store, key)} IF NOT EXISTS FOR (n:{store}_{key})"
            " ON EACH [n.words, n.title_words, n.head_words, n.defined, n.written, n.source, n.numbers]"
            " OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}"
        )
        if dimension:
            statements.append(
                f"CREATE VECTOR INDEX {vector_index(store, key)} IF NOT EXISTS FOR (n:{store}_{key}) ON n.embedding"
                f" OPTIONS {{indexConfig: {{`vector.dimensions`: {dimension},"
                " `vector.similarity_function`: 'cosine'}}"
            )
    return statements
