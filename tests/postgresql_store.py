"""A store of the adapter `postgres` in a schema of its own, opened as the adapter opens it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext
from context_engine.adapters.sources.postgres import open_postgres
from context_engine.core.models import Settings, SourceSpec
from context_engine.core.protocols import Embedder, Sink, Source
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

_NUMBERS = count(1)


class Store:
    """A schema of a database, opened as the adapter opens it."""

    def __init__(self, dsn: str, embedder: Embedder | None = None, **settings: Any) -> None:
        self.dsn, self.schema, self.embedder = dsn, f"store_{next(_NUMBERS)}", embedder
        self.settings = Settings(**settings)
        self.own = {"schema_name": self.schema}
        self.repair = False
        self.data_dir = Path()
        parts = urlsplit(dsn)
        self.connection = Connection(
            base_url=f"postgresql://{parts.hostname}:{parts.port}{parts.path}",
            user=parts.username,
            api_key=parts.password,
        )
        self.shared: dict[Any, Any] = {}

    def spec(self, source_id: str = "notes", **fields: Any) -> SourceSpec:
        return SourceSpec(
            **{"type": "bank_sop", **fields}, id=source_id, adapter="postgres", connection="pg", settings=self.own
        )

    def context(self, rules_of: Callable[[str], str] = lambda _id: "") -> SourceContext:
        return SourceContext(
            domain="NPA",
            data_dir=lambda: self.data_dir,
            connection=lambda _name: self.connection,
            clock=FixedClock(),
            shared=lambda key, make: make(),
            settings=self.settings,
            embedder=lambda: self.embedder,
            rules_of=rules_of,
        )

    def sink(
        self, *specs: SourceSpec, rules_of: Callable[[str], str] = lambda _id: "", dry_run: bool = False
    ) -> AbstractContextManager[Sink]:
        assert open_postgres.open_sink is not None
        return open_postgres.open_sink(
            specs or [self.spec()], self.context(rules_of), SinkOptions(dry_run=dry_run, repair=self.repair)
        )

    def source(self, spec: SourceSpec | None = None, rules_of: Callable[[str], str] = lambda _id: "") -> Source:
        return open_postgres(spec or self.spec(), self.context(rules_of))
