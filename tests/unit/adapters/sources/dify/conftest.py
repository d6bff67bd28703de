"""What the tests of the Dify source share: a clock that is moved by hand, a source over a server or over respx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.models import SourceAnswer, SourceQuery, SourceSpec
from context_engine.settings.connections import Connection

START = datetime(2026, 3, 2, 10, tzinfo=UTC)


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1000.0)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def make_source(clock: MovedClock) -> Iterator[Callable[..., DifySource]]:
    """(base URL, dataset ids, connection fields or a function that reads it, settings) -> a source."""
    opened: list[DifySource] = []

    def make(
        base_url: str, *datasets: str, connection: Any = None, own_clock: Any = None, spec: Any = None, **settings: Any
    ) -> DifySource:
        fields = (
            {"base_url": base_url, "api_key": f"dataset-{uuid4()}", **(connection or {})}
            if not callable(connection)
            else {}
        )
        fixed = None if callable(connection) else Connection(**fields)
        connect = connection if callable(connection) else lambda: fixed
        manifest = {
            "id": "sops", "type": "bank_sop", "adapter": "dify", "connection": "dify", **(spec or {}),
            "dataset_ids": datasets, "settings": settings,
        }  # fmt: skip
        source = DifySource(SourceSpec(**manifest), Workspace(connect, own_clock or clock), own_clock or clock)
        opened.append(source)
        return source

    yield make
    for source in opened:
        source.close()


@pytest.fixture
def ask() -> Callable[..., SourceAnswer]:
    def run(source: DifySource, text: str = "approval limit", **fields: Any) -> SourceAnswer:
        return source.search(SourceQuery(text=text, domain="NPA", **{"top_k": 10, **fields}))

    return run
