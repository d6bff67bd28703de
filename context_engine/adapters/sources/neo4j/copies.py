"""Copies of a store under other labels of its database, for trials (`stores.copies`)."""

from __future__ import annotations

from typing import Final

from context_engine.adapters.sources.neo4j.conditions import GraphView
from context_engine.adapters.sources.neo4j.server import GraphServer
from context_engine.adapters.sources.neo4j.state import (
    VISIBLE,
    class_indexes,
    lock_state,
    make_state,
    read_state,
    read_store,
    store_indexes,
    write_learnt,
)
from context_engine.adapters.sources.stores.copies import StoreName
from context_engine.errors import SourceBusy, SourceError

_AT_ONCE: Final = 1_000
"""Numbers of nodes in one transaction."""
_RELATIONS: Final = ("BELONGS_TO", "NEXT_CHUNK", "CITES")


def copy_store(server: GraphServer, store: str, target: str) -> None:
    """Copy the visible nodes of a store, and what it has learnt, to another store of the database.

    Raises:
        SourceNotFound: nothing was ever ingested.
        SourceError: the server failed, or documents changed meanwhile; nothing is left of the copy.
    """
    try:
        with server.writing() as transaction:
            lock_state(transaction, store)  # a commit waits: the counts of terms are those of the state
            view = GraphView.read(transaction, store)
            for kind in ("term", "field"):
                transaction.rows(f"MATCH (n:{store}_{kind}) CREATE (m:{target}_{kind}) SET m = properties(n)")
            make_state(transaction, target, view.state)
            _, learnt = read_store(transaction, target)
            learnt.adopt(view.learnt)
            write_learnt(transaction, target, learnt)
        server.change_schema(store_indexes(target))
        batches = range(0, view.state.next_row, _AT_ONCE)
        for change in (_copy_nodes, _copy_relations):
            for first in batches:
                with server.writing() as transaction:
                    change(view._replace(transaction=transaction), target, first)
        server.change_schema(class_indexes(target, view.keys, view.state.dimension, anew=False))
        with server.reading(60.0) as transaction:
            if read_state(transaction, store).cleaned > view.state.generation:
                raise SourceBusy("its documents changed meanwhile: try again", retryable=True)
    except SourceError:
        remove_store(server, target)
        raise


def remove_store(server: GraphServer, store: str) -> None:
    """Remove every node and index of a store."""
    with server.reading(60.0) as transaction:
        indexes = transaction.rows(
            "SHOW INDEXES YIELD name, owningConstraint WHERE name STARTS WITH $begin RETURN name, owningConstraint",
            begin=f"{store}_",
        )
    server.change_schema([f"DROP {'CONSTRAINT' if owner else 'INDEX'} {name} IF EXISTS" for name, owner in indexes])
    own = [f"(n:{store})", *(f"(n:{store}_{kind})" for kind in ("term", "field"))]
    kept = [f"(n:{kind} {{store: $store}})" for kind in ("Project", "ContextEngineMaps", "ContextEngineStore")]
    for nodes in (*own, *kept):
        deleted = _AT_ONCE
        while deleted == _AT_ONCE:
            with server.writing() as transaction:
                ((deleted,),) = transaction.rows(
                    f"MATCH {nodes} WITH n LIMIT {_AT_ONCE} DETACH DELETE n RETURN count(*)", store=store
                )


def copies_of(view: GraphView, store: StoreName) -> list[str]:
    """Return the names of the copies of a store."""
    rows = view.rows("MATCH (s:ContextEngineStore) WHERE s.store =~ $names RETURN s.store ORDER BY s.store",
                     names=store.copies)  # fmt: skip
    return [name for (name,) in rows]


def _copy_nodes(view: GraphView, target: str, first: int) -> None:
    labels = [("Document", "", "true")]
    labels += [
        (kind, f":{target}_{key}", f"n.store_class = {key}") for key in view.keys for kind in ("Chunk", "Passage")
    ]
    for kind, label, condition in labels:
        view.rows(
            f"MATCH (n:{view.store}) WHERE {_BATCH} AND n:{kind} AND {condition} AND {VISIBLE}"
            f" CREATE (m:{kind}:{target}{label}) SET m = properties(n) REMOVE m.died",
            first=first, end=first + _AT_ONCE,
        )  # fmt: skip


def _copy_relations(view: GraphView, target: str, first: int) -> None:
    of_batch = f"MATCH (n:{view.store}) WHERE {_BATCH} AND NOT n:Passage AND {VISIBLE}"
    own = f"MATCH (a:{target} {{row: n.row}}) WHERE NOT a:Passage"
    for kind in _RELATIONS:
        view.rows(
            f"{of_batch} MATCH (n)-[:{kind}]->(o:{view.store}) {own}"
            f" MATCH (b:{target} {{row: o.row}}) WHERE NOT b:Passage CREATE (a)-[:{kind}]->(b)",
            first=first, end=first + _AT_ONCE,
        )  # fmt: skip
    view.rows(
        f"{of_batch} MATCH (n)-[:BELONGS_TO]->(o:Project) {own} MERGE (p:Project {{store: $target, id: o.id}})"
        " CREATE (a)-[:BELONGS_TO]->(p)",
        target=target, first=first, end=first + _AT_ONCE,
    )  # fmt: skip


_BATCH: Final = "n.row >= $first AND n.row < $end"
