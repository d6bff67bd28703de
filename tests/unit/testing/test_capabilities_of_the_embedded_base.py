"""The embedded base keeps what each capability promises; a store that does not is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.core.models import SourceSpec, SourceType
from context_engine.testing import (
    AccessProvableContract,
    CalibratableContract,
    CopyableContract,
    FakeEmbedder,
    GraphStoreContract,
    TrainableContract,
)
from context_engine.testing.capability_conformance import CLOSED_RULES, CLOSED_SOURCE, OPEN_SOURCE

SPECS = tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in (OPEN_SOURCE, CLOSED_SOURCE))


def rules_of(source_id: str) -> str:
    return CLOSED_RULES if source_id == CLOSED_SOURCE else ""


class TestEmbeddedBase(
    CalibratableContract, CopyableContract, TrainableContract, AccessProvableContract, GraphStoreContract
):
    def make_store(self, data_dir: Path) -> LocalBase:
        place = places(SPECS, rules_of)
        return LocalBase(data_dir / "base", embedder=FakeEmbedder(64), place=place)

    @contextmanager
    def open_sink(self, data_dir: Path) -> Iterator[object]:
        with self.make_store(data_dir) as base, base.writer() as writer:
            yield writer

    def open_source(self, source_id: str, data_dir: Path) -> LocalSource:
        spec = next(spec for spec in SPECS if spec.id == source_id)
        return LocalSource(
            self.make_store(data_dir), source_id, spec=spec, place=SourcePlace(rules_of(source_id), spec.classification)
        )
