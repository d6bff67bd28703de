"""The adapter `neo4j`: a manifest's source over a store in a Neo4j server, for searching and writing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.adapters.sources.stores.copies import StoreName
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.served_store import embedder_of, settings_of
from context_engine.adapters.sources.stores.sinks import DrySink
from context_engine.adapters.sources.stores.store_source import StoreSource
from context_engine.core.models import SourceSpec
from context_engine.core.protocols import Sink
from context_engine.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from context_engine.adapters.sources.neo4j.server import GraphServer
    from context_engine.adapters.sources.neo4j.store import Neo4jStore


_OWN_LABEL: Final = re.compile(r"_(?:\d+|term|field)$")
"""How the labels of a store's classes, terms and fields end; another store of that name would share its nodes."""


def _free(name: str) -> str:
    if ending := _OWN_LABEL.search(name):
        raise ValueError(f"a name that ends in {ending[0]!r} can be a label inside another store: end it otherwise")
    return name


class Neo4jSettings(BaseModel):
    """The settings of a source in Neo4j, with their defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store_name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$"), AfterValidator(_free)] = Field(
        "context_engine",
        description="The label of the store's nodes; begins the names of its indexes. Sources with the same name are "
        "ranked together.",
    )
    database: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="The database of the server; null: the user's own, which is neo4j if none was chosen."
    )
    bulk_rows: Annotated[int, Field(ge=1, le=5000)] = Field(200, description="Chunks written in one transaction.")


def check_neo4j(spec: SourceSpec) -> Neo4jSettings:
    """Return the settings of a source.

    Raises:
        ConfigError: no connection, dataset ids, or an unusable setting.
    """
    return settings_of(spec, Neo4jSettings)


@contextmanager
def open_neo4j_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[Sink]:
    """Open the store of some sources for writing; it is made if it is not there.

    Raises:
        ConfigError: the sources name several stores, or a connection is unusable.
        MissingExtra: the driver is not installed.
        StoreError: another process writes to the store.
        SourceError: the server cannot be reached, or refuses.
    """
    settings = [check_neo4j(spec) for spec in specs]
    if len({(spec.connection, own.store_name, own.database) for spec, own in zip(specs, settings, strict=True)}) > 1:
        raise ConfigError("sources in several stores or databases: write them one by one with --source")
    server, own = _server(specs[0], context), settings[0]
    from context_engine.adapters.sources.neo4j.rows import hashes_of
    from context_engine.adapters.sources.neo4j.sink import Neo4jSink

    try:
        name = _name(specs[0], context).name
        if options.dry_run:
            yield DrySink(partial(hashes_of, server, name))
            return
        embedder, place = embedder_of(context), places(specs, context.rules_of)
        with Neo4jSink(
            server, name, own.bulk_rows,
            now=context.clock.now, embedder=embedder, place=place, repair=options.repair,
        ) as sink:  # fmt: skip
            yield sink
    finally:
        server.close()


@source_adapter(check=check_neo4j, open_sink=open_neo4j_sink, repairs=True)
def open_neo4j(spec: SourceSpec, context: SourceContext) -> StoreSource:
    """Return one source of a store, which need not exist yet; sources of one store share it.

    Raises:
        ConfigError: the specification or the connection is unusable.
        MissingExtra: the driver is not installed.
    """
    settings = check_neo4j(spec)
    _require_driver()
    from context_engine.adapters.sources.neo4j.store import Neo4jStore

    def make() -> Neo4jStore:
        server, options = _server(spec, context), SearchOptions.of(context.settings)
        return Neo4jStore(server, _name(spec, context), options, embedder_of(context), context.clock)

    store: Neo4jStore = context.shared(("neo4j", spec.connection, settings), make)
    return StoreSource(store, spec, SourcePlace(context.rules_of(spec.id), spec.classification))


def _name(spec: SourceSpec, context: SourceContext) -> StoreName:
    own = check_neo4j(spec)
    place = f"neo4j {spec.connection}" + (f" ({own.database})" if own.database else "")
    return StoreName(place, own.store_name).within(context.data_dir())


def _server(spec: SourceSpec, context: SourceContext) -> GraphServer:
    _require_driver()
    from context_engine.adapters.sources.neo4j.server import GraphServer

    return GraphServer(partial(context.connection, spec.connection or ""), check_neo4j(spec).database)


def _require_driver() -> None:
    if find_spec("neo4j") is None:
        raise MissingExtra("adapter 'neo4j'", "neo4j")
