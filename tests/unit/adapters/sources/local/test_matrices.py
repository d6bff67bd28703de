"""The matrices of several partitions answer as one matrix of all their rows would."""

from __future__ import annotations

from collections.abc import Collection

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

import numpy as np

from context_engine.adapters.sources.local.cells import assigned, trained
from context_engine.adapters.sources.local.matrix import Cells, Matrices, Matrix
from context_engine.adapters.sources.local.vector_parts import VectorParts
from context_engine.adapters.sources.stores.options import SearchOptions

DIMENSION = 8
ROWS = 90
RANDOM = np.random.default_rng(5)
QUERY = RANDOM.standard_normal(DIMENSION).astype(np.float32)
PARTS = RANDOM.standard_normal((ROWS, DIMENSION)).astype(np.float32)
PARTS /= np.linalg.norm(PARTS, axis=1, keepdims=True)
PARTS[40] = PARTS[10]
RIDS = np.arange(1, ROWS + 1)
SOURCES = 1 + RIDS % 2
EXACT = SearchOptions()


class Rows:
    """The rows of a scope."""

    def __init__(self, rids: Collection[int], source_key: int | None, *, selective: bool) -> None:
        self.rids, self.source_key, self.selective = set(rids), source_key, selective

    def count(self) -> int:
        return len(self.rids)

    def all(self, count: int) -> list[int]:
        return sorted(self.rids)

    def among(self, rids: Collection[int]) -> set[int]:
        return self.rids & set(rids)


def matrix(kept: np.ndarray, *, cells: int = 0) -> Matrix:
    parts = PARTS[kept]
    parted = None
    if cells:
        centroids = trained(parts, cells)
        parted = Cells(centroids, assigned(parts, centroids))
    return Matrix("m", RIDS[kept], SOURCES[kept], np.ones(int(kept.sum()), np.int64), VectorParts(parts), parted)


def parted(of: int) -> Matrices:
    """Every row in one of `of` partitions; the fourth row of the first has its twin in another."""
    return Matrices([matrix((RIDS * 7 // 3) % of == number) for number in range(of)])


WHOLE = Matrices([matrix(RIDS > 0)])


def of_source(source_key: int | None) -> list[int]:
    return [int(rid) for rid in RIDS if source_key is None or rid % 2 == source_key - 1]


@pytest.mark.parametrize("source_key", [1, 2, None])
@pytest.mark.parametrize("selective", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 200])
def test_the_nearest_of_several_partitions_are_those_of_one(source_key: int | None, selective: bool, limit: int):
    rows = Rows(of_source(source_key), source_key, selective=selective)
    assert parted(4).nearest(QUERY, limit, rows, EXACT) == WHOLE.nearest(QUERY, limit, rows, EXACT)


def test_cosines_are_of_every_row_that_some_partition_holds():
    found, expected = parted(5).cosines(QUERY, [3, 41, 17, 900]), WHOLE.cosines(QUERY, [3, 41, 17, 900])
    assert found.keys() == expected.keys() == {3, 17, 41}
    assert all(found[rid] == pytest.approx(expected[rid], abs=1e-6) for rid in found)


def test_of_equal_rows_in_two_partitions_the_older_comes_first():
    twins = Matrices([matrix(RIDS == 41), matrix(RIDS == 11)])
    rows = Rows([11, 41], None, selective=False)
    assert twins.nearest(PARTS[10], 2, rows, EXACT) == [11, 41]


def test_a_partition_without_rows_of_the_source_is_not_looked_at():
    odd, even = matrix(RIDS % 2 == 1), matrix(RIDS % 2 == 0)
    even.nearest = None  # type: ignore[method-assign, assignment]
    rows = Rows(of_source(2), 2, selective=False)
    assert Matrices([even, odd]).nearest(QUERY, 5, rows, EXACT) == WHOLE.nearest(QUERY, 5, rows, EXACT)


def test_cells_of_one_partition_are_used_though_another_has_none():
    kept = RIDS % 3 > 0
    some = Matrices([matrix(kept, cells=6), matrix(~kept)])
    rows = Rows(of_source(None), None, selective=False)
    whole = SearchOptions(approximate_from=1, probe=1.0)
    assert some.nearest(QUERY, 9, rows, whole) == WHOLE.nearest(QUERY, 9, rows, EXACT)


def test_it_is_as_long_as_its_parts():
    assert len(parted(3)) == len(WHOLE) == ROWS


def test_the_products_of_one_question_are_shared_by_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another question has its own, and what is asked for in places is not kept."""
    parts = VectorParts(np.eye(3, dtype=np.float32))
    counted: list[int] = []
    real = VectorParts.dots

    def dots(self: VectorParts, query: np.ndarray, places: object = None) -> np.ndarray:
        counted.append(1)
        return real(self, query, places)

    monkeypatch.setattr(VectorParts, "dots", dots)
    rids, ones = np.arange(1, 4), np.ones(3, np.int64)
    of = Matrices([Matrix("m", rids, ones, ones, parts)])
    shared, scope = of.for_one_question(), Everything()
    for _ in range(3):
        assert shared.nearest([1.0, 0.0, 0.0], 1, scope, SearchOptions()) == [1]
    assert len(counted) == 1
    assert shared.nearest([0.0, 1.0, 0.0], 1, scope, SearchOptions()) == [2]
    assert len(counted) == 2
    assert shared.cosines([0.0, 1.0, 0.0], [2]) == {2: 1.0}
    assert len(counted) == 3
    for _ in range(2):
        of.nearest([1.0, 0.0, 0.0], 1, scope, SearchOptions())
    assert len(counted) == 5


class Everything:
    """A scope of all rows."""

    source_key, selective = None, False

    def count(self) -> int:
        return 3

    def all(self, count: int) -> list[int]:
        return [1, 2, 3][:count]

    def among(self, rids: object) -> range:
        return range(1, 4)
