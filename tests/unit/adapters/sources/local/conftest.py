"""A base in a folder, and documents for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk

INDEXED_AT = datetime(2026, 3, 2, 10, tzinfo=UTC)

DESKS = ("treasury", "settlement", "custody", "lending", "brokerage", "trade finance")
RULES = (
    "The {0} desk reports every breach of its limit to the risk officer before noon.",
    "A new product of the {0} desk needs the approval of the committee and of compliance.",
    "Records of the {0} desk are kept for seven years in the archive of the bank.",
    "The head of {0} reviews the list of counterparties twice in a year.",
    "Staff of {0} may not accept gifts from a client above fifty crowns.",
    "An outage of the {0} system is reported to the regulator within four hours.",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "base"


@pytest.fixture
def base(folder: Path) -> Iterator[LocalBase]:
    """An empty base; everything is written at 2026-03-02 10:00 UTC."""
    with LocalBase.open(folder, create=True, now=lambda: INDEXED_AT) as opened:
        yield opened


@pytest.fixture
def fill(base: LocalBase) -> Callable[..., None]:
    """Writes {chunk_id: text or Chunk}, each as a document of its own, in one commit."""

    def write(chunks: dict[str, str | Chunk], source_id: str = "sop", **fields: Any) -> None:
        with base.writer() as writer:
            for chunk_id, given in chunks.items():
                chunk = given if isinstance(given, Chunk) else Chunk(content=given, **fields)
                chunk = chunk._replace(chunk_id=chunk_id)
                writer.put(source_id, f"doc-{chunk_id}", "", str(hash(chunk.content)), [chunk])

    return write


@pytest.fixture
def find(base: LocalBase) -> Callable[..., list[str]]:
    """Returns the ids of the chunks found, best first."""

    def search(text: str, source_id: str = "sop", top_k: int = 10, **scope: Any) -> list[str]:
        return [chunk.chunk_id for chunk in base.search(text, source_id=source_id, top_k=top_k, **scope)]

    return search
