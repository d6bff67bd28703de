"""A source of a store in a server whose chunks lead to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from context_engine.adapters.sources.stores.places import SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.store_source import ServedStore, StoreSource, within
from context_engine.core.models import Link, LinkQuery, SourceSpec
from context_engine.errors import EmbedderError


class LinkedStore(ServedStore, Protocol):
    """A store in a server that knows what its chunks lead to."""

    def linked(self, query: LinkQuery, scope: Scope, *, by_vector: bool = True) -> list[Link]:
        """Return the chunks of a source that the origins of a query lead to; see `links.links`."""
        ...


class GraphStoreSource(StoreSource):
    """Answers from one source of a store; also a `GraphStore`. Its arguments are those of `StoreSource`."""

    def __init__(self, store: LinkedStore, spec: SourceSpec, place: SourcePlace) -> None:
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
