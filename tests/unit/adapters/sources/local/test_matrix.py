"""Vectors in memory: exact search, filters that lose no neighbour, and cells that agree with the exact search."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from context_engine.adapters.sources.local.cells import assigned, trained
from context_engine.adapters.sources.local.matrix import Cells, Matrix, _first
from context_engine.adapters.sources.local.vector_parts import VectorParts
from context_engine.adapters.sources.stores.options import SearchOptions

RANDOM = np.random.default_rng(3)


class Rows:
    """The rows of a scope, counting how many were asked for."""

    def __init__(self, rids: Collection[int], *, selective: bool = True, source_key: int = 1) -> None:
        self.rids, self.selective, self.source_key = set(rids), selective, source_key
        self.asked = 0

    def count(self) -> int:
        return len(self.rids)

    def all(self, count: int) -> list[int]:
        assert count == len(self.rids)
        return sorted(self.rids)

    def among(self, rids: Collection[int]) -> set[int]:
        self.asked += len(rids)
        return self.rids & set(rids)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def matrix(count: int, *, cells: int = 0, lengths: list[int] | None = None, dimension: int = 16) -> Matrix:
    """Rows 10, 20, 30 ...; odd places belong to source 1, even ones to source 2."""
    each = np.array(lengths or [1] * count, np.int64)
    centres = RANDOM.standard_normal((8, dimension))
    parts = unit(
        centres[RANDOM.integers(0, 8, int(each.sum()))] + 0.4 * RANDOM.standard_normal((int(each.sum()), dimension))
    )
    parted = None
    if cells:
        centroids = trained(parts, cells)
        parted = Cells(centroids, assigned(parts, centroids))
    return Matrix("m", np.arange(1, count + 1) * 10, 1 + np.arange(count) % 2, each, VectorParts(parts), parted)


def by_hand(of: Matrix, query: np.ndarray, rids: Collection[int], limit: int) -> list[int]:
    cosine = {rid: max(query @ part for part in parts) for rid, parts in vectors_of(of).items() if rid in rids}
    return sorted(cosine, key=lambda rid: (-cosine[rid], rid))[:limit]


def vectors_of(of: Matrix) -> dict[int, np.ndarray]:
    ends = np.cumsum(of.lengths)
    return dict(zip(of.rids.tolist(), np.split(of.in_rows().as_floats(), ends[:-1])))


ALL = SearchOptions()
BY_CELLS = SearchOptions(approximate_from=1, probe=0.1)
QUERY = unit(RANDOM.standard_normal((1, 16)))[0]


@pytest.mark.parametrize("cells", [0, 12])
def test_cosines_are_those_of_the_rows(cells: int) -> None:
    of = matrix(50, cells=cells, lengths=[1, 3] * 25)
    found = of.cosines(QUERY, [40, 20, 510, 40, 15])
    assert set(found) == {20, 40}
    assert found[40] == pytest.approx(float(max(vectors_of(of)[40] @ QUERY)), abs=1e-6)


def test_the_nearest_of_a_source() -> None:
    of = matrix(60)
    mine = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0]
    assert of.nearest(QUERY, 7, Rows(mine, selective=False), ALL) == by_hand(of, QUERY, mine, 7)


def test_a_long_text_counts_by_its_best_window() -> None:
    of = matrix(30, lengths=[1, 4, 2] * 10)
    mine = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0]
    found = of.nearest(QUERY, 30, Rows(mine, selective=False), ALL)
    assert found == by_hand(of, QUERY, mine, 30) and len(found) == 15


@pytest.mark.parametrize("share", [1, 4, 20])
def test_a_selective_filter_is_answered_exactly(share: int) -> None:
    of = matrix(400, cells=20)
    kept = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0][::share]
    found = of.nearest(QUERY, 5, Rows(kept), BY_CELLS)
    assert found == by_hand(of, QUERY, kept, 5)


@pytest.mark.parametrize("share", [2, 10, 50])
def test_a_filter_over_many_rows_loses_none(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many rows to gather: the ranking is walked until enough rows of the scope are found."""
    monkeypatch.setattr("context_engine.adapters.sources.local.matrix._FEW", 0)
    of = matrix(600)
    kept = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0][::share]
    rows = Rows(kept)
    assert of.nearest(QUERY, 5, rows, ALL) == by_hand(of, QUERY, kept, 5)
    assert rows.asked <= 600


def test_fewer_rows_than_wanted() -> None:
    of = matrix(9)
    assert of.nearest(QUERY, 50, Rows([10, 30], selective=False), ALL) == by_hand(of, QUERY, [10, 30], 50)
    assert of.nearest(QUERY, 50, Rows([], selective=False), ALL) == []


def test_all_cells_are_the_exact_search() -> None:
    of = matrix(300, cells=16, lengths=[1, 2, 1] * 100)
    mine = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0]
    whole = SearchOptions(approximate_from=1, probe=1.0)
    for limit in (1, 10, 200):
        rows = Rows(mine, selective=False)
        assert of.nearest(QUERY, limit, rows, whole) == of.nearest(QUERY, limit, rows, ALL)


def test_near_cells_hold_most_neighbours() -> None:
    of = matrix(4000, cells=40)
    mine = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0]
    rows, kept = Rows(mine, selective=False), 0
    for query in of.parts.as_floats(slice(None, None, 400)):
        wanted = of.nearest(query, 10, rows, ALL)
        kept += len(set(wanted) & set(of.nearest(query, 10, rows, BY_CELLS)))
    assert kept >= 90, f"{kept} of 100"


def test_few_vectors_are_searched_exactly_though_there_are_cells() -> None:
    of = matrix(100, cells=10)
    mine = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0]
    assert of.nearest(QUERY, 8, Rows(mine, selective=False), ALL) == by_hand(of, QUERY, mine, 8)


def test_training_says_the_same_each_time() -> None:
    sample = unit(RANDOM.standard_normal((200, 8)))
    assert np.array_equal(trained(sample, 10), trained(sample, 10))
    assert np.allclose(np.linalg.norm(trained(sample, 10), axis=1), 1.0, atol=1e-5)
    assert trained(sample[:3], 10).shape == (3, 8)


def test_cells_are_looked_at_from_so_many_vectors_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    probed = Matrix._probed

    def counted(of: Matrix, query: np.ndarray, source_key: int | None, wanted: int, probe: float) -> object:
        asked.append(probe)
        return probed(of, query, source_key, wanted, probe)

    monkeypatch.setattr(Matrix, "_probed", counted)
    of, rows = matrix(100, cells=10), Rows(range(10, 1010, 20), selective=False)
    for approximate_from, calls in ((101, 0), (100, 1)):
        of.nearest(QUERY, 3, rows, SearchOptions(approximate_from=approximate_from, probe=0.5))
        assert len(asked) == calls


def test_cells_are_widened_until_enough_rows_pass_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept rows are those farthest from the question: the nearest cells hold none of them."""
    monkeypatch.setattr("context_engine.adapters.sources.local.matrix._FEW", 0)
    of = matrix(3000, cells=40)
    mine = [rid for place, rid in enumerate(of.rids.tolist()) if place % 2 == 0]
    farthest = by_hand(of, QUERY, mine, len(mine))[-200:]
    found = of.nearest(QUERY, 5, Rows(farthest), SearchOptions(approximate_from=1, probe=0.01))
    assert len(found) == 5 and set(found) <= set(farthest)


def in_four_cells(each: int = 30) -> Matrix:
    """Four cells of `each` vectors along the axes, row by row in turn."""
    centroids = np.eye(4, dtype=np.float32)
    of_part = np.arange(4 * each, dtype=np.int32) % 4
    rids = np.arange(1, 4 * each + 1)
    return Matrix(
        "m",
        rids,
        1 + np.arange(4 * each) // (2 * each),
        np.ones(4 * each, np.int64),
        VectorParts(centroids[of_part]),
        Cells(centroids, of_part),
    )


@pytest.mark.parametrize(
    ("wanted", "probe", "cells"),
    [
        (1, 0.1, [0]),  # 20 for one row; cell 0 has 30
        (2, 0.1, [0, 1]),  # 40
        (3, 0.1, [0, 1]),  # 60
        (4, 0.1, [0, 1, 2]),  # 80
        (9, 0.1, [0, 1, 2, 3]),  # 180, of the 120 that there are
        (1, 0.25, [0]),  # 30
        (1, 0.26, [0, 1]),  # 31.2
    ],
)
def test_the_nearest_cells_are_read_until_they_hold_the_share_and_20_vectors_a_row(
    wanted: int, probe: float, cells: list[int]
) -> None:
    of, query = in_four_cells(), np.array([0.9, 0.3, 0.2, 0.1], np.float32)
    dots, owner = of._probed(query, None, wanted, probe)
    assert sorted(owner.tolist()) == [row for row in range(120) if row % 4 in cells]
    assert dots.tolist() == pytest.approx([float(query[row % 4]) for row in owner.tolist()])


def test_vectors_of_other_sources_in_a_cell_do_not_count() -> None:
    """Source 1 has 15 vectors in each cell: two cells hold the 20 of one row."""
    of, query = in_four_cells(), np.array([0.9, 0.3, 0.2, 0.1], np.float32)
    assert len(of._probed(query, 1, 1, 0.1)[1]) == 60
    assert len(of._probed(query, None, 1, 0.1)[1]) == 30
    assert of._held_by_cells(of.cells, 1).tolist() == [15, 15, 15, 15]


@pytest.mark.parametrize(
    ("wanted", "probe", "source_key", "complete"),
    [
        (120, None, None, True),
        (119, None, None, False),
        (60, None, 1, True),
        (59, None, 1, False),
        (120, 1.0, None, True),
        (120, 0.1, None, False),
    ],
)
def test_a_ranking_is_complete_if_all_rows_were_read_and_are_in_it(
    wanted: int, probe: float | None, source_key: int | None, complete: bool
) -> None:
    of = in_four_cells()
    ranking, everything = of._ranking(np.array([1, 0, 0, 0], np.float32), source_key, wanted, probe)
    assert everything is complete
    assert len(ranking) == min(wanted, 60 if source_key else 120)


def test_rows_without_vectors_and_beyond_the_last_have_no_cosine() -> None:
    of = in_four_cells(1)
    assert of.cosines([1.0, 0.0, 0.0, 0.0], [4, 0, 1, 5, 2]) == {1: 1.0, 2: 0.0, 4: 0.0}
    assert of.cosines([1.0, 0.0, 0.0, 0.0], []) == of.cosines([1.0, 0.0, 0.0, 0.0], [9]) == {}


def test_of_equal_rows_the_older_come_first_also_at_the_limit() -> None:
    of = in_four_cells(3)
    assert of.nearest([1.0, 0.0, 0.0, 0.0], 2, Rows(of.rids.tolist()), ALL) == [1, 5]
    assert of.nearest([1.0, 0.0, 0.0, 0.0], 4, Rows(of.rids.tolist()), ALL) == [1, 5, 9, 2]


def test_a_batch_is_20_rows_more_than_wanted_and_four_times_as_large_each_time() -> None:
    asked: list[int] = []

    class Sized(Rows):
        def among(self, rids: Collection[int]) -> set[int]:
            asked.append(len(rids))
            return super().among(rids)

    assert _first(list(range(1000)), Sized([900]), 1) == [900]
    assert asked == [21, 84, 336, 559]
    assert _first(list(range(10)), Sized([3, 5, 7]), 2) == [3, 5]


def test_a_cell_whose_vectors_cancel_out_keeps_its_centroid() -> None:
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32)
    assert trained(opposite, 1).tolist() == [[1.0, 0.0]]
    assert trained(opposite, 5).tolist() == opposite.tolist()
