"""Rows found by BM25 in the server, where the database has the extension `pg_textsearch`.

A class has an index of its own, on its partition, so that no statistics of the server mix texts with different
readers. It answers only for the commit that it was built after: version 0.6.1 of the extension lost up to 2.5 % of
the best rows of an index to which rows had been added, and none of one just built. Its scores choose the rows only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from psycopg import sql
from psycopg.errors import LockNotAvailable

from context_engine.adapters.sources.postgres.attributes import Condition
from context_engine.adapters.sources.postgres.connection import AT_USUAL_COSTS, Session, rows_within
from context_engine.core.ranking.lexical import K1, B

_log = logging.getLogger(__name__)
EXTENSION: Final = "pg_textsearch"
_OUTDATED: Final = (
    "SELECT class_key, generation FROM classes WHERE ranked IS DISTINCT FROM generation"
    " AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = %s) ORDER BY class_key"
)
_BUILD: Final = (
    "CREATE INDEX CONCURRENTLY {index} ON {table} USING bm25 (parts)"
    " WITH (text_config = 'pg_catalog.simple', k1 = {k1}, b = {b})"
)
_BEST: Final = (
    "(SELECT rid FROM (SELECT rid, parts <@> to_bm25query({text}, {index}) AS distance FROM {table} WHERE {condition}"
    " ORDER BY distance LIMIT {limit}) AS nearest WHERE distance < 0)"
)


def rebuild(session: Session) -> None:
    """Build the index of every class that has changed since its own was built; outside a transaction.

    A long transaction of another session, as that of a backup, prevents it. The next commit then tries again.
    """
    outdated = session.execute(_OUTDATED, (EXTENSION,)).fetchall()
    for key, generation in outdated:
        table, index = sql.Identifier(f"words_{key}"), sql.Identifier(_name(key))
        session.execute("SET statement_timeout = 0")
        try:
            session.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(index))
            session.execute(sql.SQL(_BUILD).format(index=index, table=table, k1=sql.Literal(K1), b=sql.Literal(B)))
        except LockNotAvailable:
            _log.warning("a long transaction of another session prevents the BM25 indexes: 'ingest' tries again")
            return
        session.execute("UPDATE classes SET ranked = %s WHERE class_key = %s", (generation, key))


def best_rows(
    session: Session, terms: Iterable[str], keys: Sequence[int], conditions: Sequence[Condition], limit: int
) -> list[int]:
    """Return the rows of some classes with the highest BM25 for some terms.

    Args:
        conditions: on disjoint sets of rows; each gives at most `limit` rows of each class.
    """
    text = sql.Literal(" ".join(terms))
    searches = [
        sql.SQL(_BEST).format(
            text=text,
            index=sql.Literal(_name(key)),
            table=sql.Identifier(f"words_{key}"),
            condition=condition,
            limit=sql.Literal(limit),
        )
        for key in keys
        for condition in conditions
    ]
    query = sql.SQL(" UNION ALL ").join(searches)
    return [rid for (rid,) in rows_within(session, AT_USUAL_COSTS, query)] if searches else []


def _name(key: int) -> str:
    return f"words_{key}_bm25"
