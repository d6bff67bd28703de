"""The rows nearest to a question's vector: exactly, or by an index whose recall is watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, LiteralString, NamedTuple

from psycopg import sql

from context_engine.adapters.sources.postgres.attributes import Condition
from context_engine.adapters.sources.postgres.connection import AT_USUAL_COSTS, INGEST, Session, one_row, rows_within
from context_engine.adapters.sources.postgres.vectors import APPROXIMATE_FROM, as_vector, received, sent, version_of
from context_engine.adapters.sources.stores.options import ranked
from context_engine.adapters.sources.stores.recall import RecallWatch, SearchWay
from context_engine.errors import SourceUnavailable

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

_STORED: Final = (
    "SELECT vector_type, extversion, ARRAY(SELECT class_key FROM classes WHERE"
    " to_regclass('vectors_' || class_key || '_hnsw') IS NOT NULL)"
    " FROM state LEFT JOIN pg_extension ON extname = 'vector'"
)
_BY_INDEX: Final = (
    "SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = 400; "
    "SET LOCAL hnsw.max_scan_tuples = 100000; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; "
    "{}; SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on"
)
"""Runs the query in the place of {} by the index.

Among 750,000 vectors in clusters, 400 questions had a recall of .968 with an `ef_search` of 200, .983 with 400 and .986
with 600; 7, 1 and 0 of them lost all neighbours. The server needed 2.6, 3.0 and 5.1 ms of CPU.
"""
_ITERATIVE_FROM: Final = (0, 8)
"""The version of pgvector from which an index is read on under a filter; before it, rows would be lost."""


class VectorQuery(NamedTuple):
    """A question's vector for one store.

    Attributes:
        vector: of the question; with an adapter as `DomainAdapter.asked` folds it.
        numbers: the same as the server reads them.
        type: of the stored vectors.
        indexed: the classes with an index.
        adapter: maps the stored vectors before they are compared; None: they are compared as they are.
    """

    vector: Sequence[float]
    numbers: str
    type: str
    indexed: frozenset[int]
    adapter: DomainAdapter | None = None

    @classmethod
    def of(cls, session: Session, vector: Sequence[float], adapter: DomainAdapter | None = None) -> VectorQuery:
        """Return the query for a question's vector, under an adapter or without one.

        Raises:
            SourceUnavailable: the database has no pgvector any more.
        """
        kind, version, indexed = one_row(session, _STORED)
        if version is None:
            raise SourceUnavailable(
                "the database has lost its extension 'vector', and with it the vectors: create it again, and embed "
                f"everything again with '{INGEST} --repair'"
            )
        usable = version_of(version) >= _ITERATIVE_FROM
        asked = vector if adapter is None else adapter.asked(vector).tolist()
        return cls(asked, as_vector(asked), kind, frozenset(indexed if usable else ()), adapter)

    @property
    def distance(self) -> sql.Composed:
        """The cosine distance of a row to the vector, in SQL."""
        return sql.SQL("embedding <=> {}::{}").format(sql.Literal(self.numbers), sql.Identifier(self.type))


_SPARE: Final = 4
"""Rows read for each wanted one under an adapter: the server does not know the lengths of mapped vectors. With 4 the
mean recall of the 62 nearest was .999 on 500 questions of financial regulation, and no row of the first 10 was lost."""
_NEAREST: Final = "SELECT rid FROM {tables} WHERE class_key = {key} AND {condition} ORDER BY {order} LIMIT {limit}"
_VECTORS: Final = "SELECT rid, {sent} FROM vectors WHERE class_key = ANY(%s) AND rid = ANY(%s) ORDER BY rid, part"
_COSINES: Final = (
    "SELECT rid, 1 - min({distance}) FROM vectors WHERE class_key = ANY(%s) AND rid = ANY(%s) GROUP BY rid"
)


def nearest(
    session: Session,
    query: VectorQuery,
    classes: Sequence[int],
    condition: Condition,
    limit: int,
    watch: RecallWatch,
    *,
    selective: bool,
) -> list[int]:
    """Return the rows nearest to a question that meet a condition, at most `limit` of each class.

    Args:
        selective: whether the condition is about more than the source, so that `words` must be read too.
    """
    tables = sql.SQL("vectors JOIN words USING (class_key, rid, source_key)" if selective else "vectors")
    rids: list[int] = []
    for key in classes:
        search = _Search(session, query, key, tables, condition, limit)
        indexed = key in query.indexed and search.estimate() >= APPROXIMATE_FROM
        way = watch.next_way(key) if indexed else SearchWay.EXACT
        by_index = [] if way is SearchWay.EXACT else search.by_index()
        exact = [] if way is SearchWay.INDEX else search.exactly()
        rids += exact or by_index
        if way is SearchWay.BOTH and exact:
            watch.add(key, len({*by_index} & {*exact}) / len(exact))
    return list(dict.fromkeys(rids))


def cosines(session: Session, query: VectorQuery, classes: Sequence[int], rids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each row with vectors; the nearest part of a long text counts."""
    if query.adapter is not None:
        return _adapted_cosines(session, query, query.adapter, classes, rids)
    statement = sql.SQL(_COSINES).format(distance=query.distance)
    return {rid: float(cosine) for rid, cosine in session.execute(statement, (list(classes), list(rids)))}


def _adapted_cosines(
    session: Session, query: VectorQuery, adapter: DomainAdapter, classes: Sequence[int], rids: Sequence[int]
) -> dict[int, float]:
    statement = sql.SQL(_VECTORS).format(sent=sent(query.type))
    rows = session.cursor(binary=True).execute(statement, (list(classes), list(rids))).fetchall()
    quotients = adapter.cosines(query.vector, received([data for _, data in rows], query.type, adapter.dimension))
    cosine: dict[int, float] = {}
    for (rid, _), value in zip(rows, quotients.tolist(), strict=True):
        cosine[rid] = max(value, cosine.get(rid, value))
    return cosine


class _Search(NamedTuple):
    """A search of one access class."""

    session: Session
    query: VectorQuery
    key: int
    tables: sql.SQL
    condition: Condition
    limit: int

    def by_index(self) -> list[int]:
        """Search by the index, which is read on until enough rows meet the condition."""
        return self._rids(self.query.distance, _BY_INDEX)

    def exactly(self) -> list[int]:
        """Compare every row: no index has this order."""
        return self._rids(sql.SQL("({}) + 0").format(self.query.distance), AT_USUAL_COSTS)

    def estimate(self) -> int:
        """Return how many rows meet the condition, as the server estimates."""
        statement = sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM words WHERE class_key = {} AND {}")
        (plans,) = one_row(self.session, statement.format(sql.Literal(self.key), self.condition))
        return int(plans[0]["Plan"]["Plan Rows"])

    def _rids(self, order: sql.Composed, within: LiteralString) -> list[int]:
        """Return the best rows by an order; under an adapter more are read, and the best by their cosines are kept.

        Args:
            within: the statements of which the search is one; they are sent together.
        """
        adapted = self.query.adapter is not None
        statement = sql.SQL(_NEAREST).format(
            tables=self.tables,
            order=order,
            key=sql.Literal(self.key),
            condition=self.condition,
            limit=sql.Literal(self.limit * (_SPARE if adapted else 1)),
        )
        rids = list(dict.fromkeys(rid for (rid,) in rows_within(self.session, within, statement)))
        return ranked(cosines(self.session, self.query, [self.key], rids))[: self.limit] if adapted else rids
