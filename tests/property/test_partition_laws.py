"""Law of partitions: whatever is written where a caller may not read, what it gets stays the same, bit by bit.

With vectors, cells and calibrations: the parts of an answer that are made from many rows together.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    Condition,
    DomainSpec,
    SourceSpec,
    SourceType,
)
from context_engine.learning.calibration import calibrate
from context_engine.testing.fakes import FakeEmbedder

WORDS = ("limit", "desk", "product", "approval", "haircut", "bond", "committee", "hotel", "seven", "years")
QUESTIONS = (
    "hotel limit of the desk",
    "who approves a new product of the bond desk",
    "committee for seven years",
    "hotl",
)
BY_CELLS = SearchOptions(approximate_from=20, probe=0.2)
DOMAIN = DomainSpec(
    version=1,
    domain="D",
    sources=tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in ("open", "hidden")),
)
OPEN_TO_ALL = AccessScope(clearance=Classification.INTERNAL)
MEMBER = AccessScope(rules=frozenset({"members"}), clearance=Classification.CONFIDENTIAL)

written = st.tuples(
    st.sampled_from(("hidden", "open", "elsewhere")),
    st.integers(0, 30),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
)
"""Source, number of a document and its text, "" to delete it; what is written to the open source is restricted."""


def place(source_id: str) -> SourcePlace:
    return SourcePlace(rules={"hidden": "directors", "elsewhere": "members and directors"}.get(source_id, ""))


def writer(folder: Path) -> BaseWriter:
    return BaseWriter(
        folder,
        now=lambda: datetime(2026, 3, 2, tzinfo=UTC),
        embedder=FakeEmbedder(12),
        approximate_from=BY_CELLS.approximate_from,
        place=place,
    )


def opened(folder: Path) -> LocalBase:
    return LocalBase(folder, embedder=FakeEmbedder(12), options=BY_CELLS)


def seen(base: LocalBase, access: AccessScope) -> str:
    """Return all that a caller may get, as text."""
    scopes = [
        Scope(source_id="open", constants={"domain": "D"}, access=access, filters=filters)
        for filters in (None, Condition("doc_type", "eq", "rule"))
    ]
    answers = [base.answer(question, top_k=6, scope=scope) for question in QUESTIONS for scope in scopes]
    return repr((answers, base.calibration("D", access=access), base.calibration("D", access=access, by_vector=False)))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBase]:
    folder = tmp_path_factory.mktemp("base")
    with writer(folder) as put:
        for number in range(50):
            text = " ".join(WORDS[(number * step + step) % 7] for step in range(1, 9)) + f" {number}"
            put.put("open", f"o{number}", "", "1", [Chunk(content=text, doc_type="rule" if number % 3 else "note")])
    with opened(folder) as base:
        calibrate(base, DOMAIN)
        yield base


@pytest.mark.slow
@given(commits=st.lists(st.lists(written, min_size=1, max_size=12), min_size=1, max_size=2))
@settings(max_examples=25, deadline=None)
def test_hidden_rows_change_nothing_of_an_open_answer(base: LocalBase, commits: list[list[tuple[str, int, str]]]):
    before = [seen(base, access) for access in (OPEN_TO_ALL, MEMBER)]
    for commit in commits:
        with writer(base.path) as put:
            for source_id, number, text in commit:
                document = f"{source_id[0]}-hidden-{number}"
                if text:
                    chunk = Chunk(content=text, doc_type="rule", classification=Classification.RESTRICTED)
                    put.put(source_id, document, "", text, [chunk])
                else:
                    put.delete(source_id, document, "")
        calibrate(base, DOMAIN)
    assert [seen(base, access) for access in (OPEN_TO_ALL, MEMBER)] == before
    with opened(base.path) as another:
        assert [seen(another, access) for access in (OPEN_TO_ALL, MEMBER)] == before
