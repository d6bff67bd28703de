"""A source of a store in PostgreSQL, as seen by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from context_engine.adapters.sources.postgres.store import PostgresStore
from context_engine.adapters.sources.stores.places import SourcePlace
from context_engine.adapters.sources.stores.store_source import StoreSource, within
from context_engine.core.models import Link, LinkQuery, SourceSpec
from context_engine.errors import EmbedderError


class PostgresSource(StoreSource):
    """Answers from one source of a store; also a `GraphStore`. Its arguments are those of `StoreSource`."""

    def __init__(self, store: PostgresStore, spec: SourceSpec, place: SourcePlace) -> None:
        super().__init__(store, spec, place)
        self._graph = store

    def linked(self, query: LinkQuery) -> Sequence[Link]:
        """Return what chunks lead to (`GraphStore`), scored by words alone if the embedder fails.

        Raises:
            SourceError, RepartitionRequired: as in `search`.
        """
        scope, asked = self._scope(query.query), replace(query, query=within(query.query))
        with self._named():
            try:
                return self._graph.linked(asked, scope)
            except EmbedderError:
                return self._graph.linked(asked, scope, by_vector=False)
