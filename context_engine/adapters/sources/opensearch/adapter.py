"""The adapter `opensearch`: a manifest's source over a store in an OpenSearch server, for searching and writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.opensearch.documents import ShapedStore
from context_engine.adapters.sources.opensearch.server import OpenSearchServer
from context_engine.adapters.sources.opensearch.sink import OpenSearchSink, hashes_of
from context_engine.adapters.sources.opensearch.state import IndexShape
from context_engine.adapters.sources.opensearch.store import OpenSearchStore
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.served_store import embedder_of, settings_of
from context_engine.adapters.sources.stores.sinks import DrySink
from context_engine.adapters.sources.stores.store_source import StoreSource
from context_engine.core.models import SourceSpec
from context_engine.core.protocols import Sink
from context_engine.errors import ConfigError


class OpenSearchSettings(BaseModel):
    """The settings of a source in OpenSearch, with their defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index_prefix: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] = Field(
        "context_engine",
        description="Begins the names of the indices; sources with the same prefix are ranked together.",
    )
    shards: Annotated[int, Field(ge=1, le=64)] = Field(2, description="Primary shards of a new index.")
    replicas: Annotated[int, Field(ge=0, le=8)] = Field(1, description="Copies of each shard of a new index.")
    vector_engine: Literal["lucene", "faiss"] = Field("lucene", description="Engine of the vectors of a new index.")
    m: Annotated[int, Field(ge=2, le=100)] = Field(16, description="Neighbours of a vector in the graph.")
    ef_construction: Annotated[int, Field(ge=8, le=2048)] = Field(
        512, description="Candidates looked at when a vector is added to the graph."
    )
    bulk_rows: Annotated[int, Field(ge=1, le=5000)] = Field(100, description="Rows sent in one call.")


def check_opensearch(spec: SourceSpec) -> OpenSearchSettings:
    """Return the settings of a source.

    Raises:
        ConfigError: no connection, dataset ids, or an unusable setting.
    """
    return settings_of(spec, OpenSearchSettings)


@contextmanager
def open_opensearch_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[Sink]:
    """Open the store of some sources for writing; it is made if it is not there.

    Raises:
        ConfigError: the sources name several stores, or a connection is unusable.
        StoreError: another process writes to the store.
        SourceError: the server cannot be reached, or refuses.
    """
    if len({(spec.connection, check_opensearch(spec).index_prefix) for spec in specs}) > 1:
        raise ConfigError("sources with several index prefixes or connections: write them one by one with --source")
    server, store = _server(specs[0], context), _store_of(specs[0], context)
    try:
        if options.dry_run:
            yield DrySink(partial(hashes_of, server, store.prefix))
            return
        embedder, place = embedder_of(context), places(specs, context.rules_of)
        with OpenSearchSink(
            server, store, now=context.clock.now, embedder=embedder, place=place, repair=options.repair
        ) as sink:
            yield sink
    finally:
        server.close()


@source_adapter(check=check_opensearch, open_sink=open_opensearch_sink, repairs=True)
def open_opensearch(spec: SourceSpec, context: SourceContext) -> StoreSource:
    """Return one source of a store, which need not exist yet; sources of one prefix share a store.

    Raises:
        ConfigError: the specification or the connection is unusable.
    """
    prefix = check_opensearch(spec).index_prefix

    def make() -> OpenSearchStore:
        server, options = _server(spec, context), SearchOptions.of(context.settings)
        return OpenSearchStore(server, _store_of(spec, context), options, embedder_of(context), context.clock)

    store: OpenSearchStore = context.shared(("opensearch", spec.connection, prefix), make)
    return StoreSource(store, spec, SourcePlace(context.rules_of(spec.id), spec.classification))


def _store_of(spec: SourceSpec, context: SourceContext) -> ShapedStore:
    own, connection = check_opensearch(spec), spec.connection or ""
    shape = IndexShape(own.shards, own.replicas, own.vector_engine, own.m, own.ef_construction)
    store = ShapedStore(connection, own.index_prefix, shape, own.bulk_rows)
    return store._replace(prefix=store.named.within(context.data_dir()).name)


def _server(spec: SourceSpec, context: SourceContext) -> OpenSearchServer:
    return OpenSearchServer(partial(context.connection, spec.connection or ""), context.clock)
