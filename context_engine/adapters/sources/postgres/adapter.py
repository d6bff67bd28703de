"""The adapter `postgres`: a manifest's source over a store in a PostgreSQL server, for searching and writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.served_store import embedder_of, settings_of
from context_engine.adapters.sources.stores.sinks import DrySink
from context_engine.adapters.sources.stores.store_source import StoreSource
from context_engine.core.models import SourceSpec
from context_engine.core.protocols import Sink
from context_engine.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from context_engine.adapters.sources.postgres.connection import Servers
    from context_engine.adapters.sources.postgres.store import PostgresStore


class PostgresSettings(BaseModel):
    """The settings of a source in PostgreSQL, with their defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] = Field(
        "context_engine", description="The schema of the tables; sources with the same schema are ranked together."
    )
    read_from: Literal["primary", "standby"] = Field(
        "primary", description="Which of the hosts in base_url searches ask first; a standby may lag behind."
    )
    search_role: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] | None = Field(
        None,
        description="A role of the server that only searches: row level security shows it the classes that a search "
        "names. The next ingestion grants it the tables.",
    )


def check_postgres(spec: SourceSpec) -> PostgresSettings:
    """Return the settings of a source.

    Raises:
        ConfigError: no connection, dataset ids, or an unusable setting.
    """
    return settings_of(spec, PostgresSettings)


@contextmanager
def open_postgres_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[Sink]:
    """Open the store of some sources for writing; its tables are created or migrated.

    Raises:
        ConfigError: the sources name several stores, or a connection is unusable.
        StoreError: another process writes to the store.
        SourceError: the server cannot be reached, or refuses.
    """
    settings = [check_postgres(spec) for spec in specs]
    stores = {(spec.connection, own.schema_name) for spec, own in zip(specs, settings, strict=True)}
    if len(stores) > 1:
        raise ConfigError("sources in several schemas or databases: write them one by one with --source")
    servers = _servers(specs[0], context)
    try:
        if options.dry_run:
            from context_engine.adapters.sources.postgres.store import hashes_of

            yield DrySink(partial(hashes_of, servers))
            return
        from context_engine.adapters.sources.postgres.sink import PostgresSink

        embedder, place = embedder_of(context), places(specs, context.rules_of)
        role = next((own.search_role for own in settings if own.search_role), None)
        with PostgresSink(
            servers, now=context.clock.now, embedder=embedder, place=place, repair=options.repair, search_role=role
        ) as sink:
            yield sink
    finally:
        servers.close()


@source_adapter(check=check_postgres, open_sink=open_postgres_sink, repairs=True)
def open_postgres(spec: SourceSpec, context: SourceContext) -> StoreSource:
    """Return one source of a store, which need not exist yet; sources of one schema share a store.

    Raises:
        ConfigError: the specification or the connection is unusable.
        MissingExtra: psycopg is not installed.
    """
    settings = check_postgres(spec)
    _require_psycopg()
    from context_engine.adapters.sources.postgres.store import PostgresStore

    def make() -> PostgresStore:
        return PostgresStore(
            _servers(spec, context), SearchOptions.of(context.settings), embedder_of(context), context.clock
        )

    store: PostgresStore = context.shared(("postgres", spec.connection, settings), make)
    return StoreSource(store, spec, SourcePlace(context.rules_of(spec.id), spec.classification))


def _servers(spec: SourceSpec, context: SourceContext) -> Servers:
    _require_psycopg()
    from context_engine.adapters.sources.postgres.connection import Address, Servers, store_name

    settings, connection = check_postgres(spec), spec.connection or ""
    address = Address(connection, settings.schema_name, settings.read_from)
    name = store_name(address).within(context.data_dir()).name
    address = address if name == address.schema else Address(connection, name, "primary")
    return Servers(partial(context.connection, connection), address)


def _require_psycopg() -> None:
    if find_spec("psycopg") is None:
        raise MissingExtra("adapter 'postgres'", "postgres")
