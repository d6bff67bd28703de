"""Vectors under an adapter: what is told from stored vectors is what mapping each of them would give."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.domain_adapter import DomainAdapter  # noqa: E402
from context_engine.adapters.sources.local.cells import assigned, trained  # noqa: E402
from context_engine.adapters.sources.local.matrix import (  # noqa: E402
    Cells,
    Matrices,
    Matrix,
)
from context_engine.adapters.sources.local.vector_parts import AdaptedParts, VectorParts, mapped_lengths  # noqa: E402
from context_engine.adapters.sources.stores.options import SearchOptions  # noqa: E402
from context_engine.errors import StoreVersionMismatch  # noqa: E402

ALL = SearchOptions()
BY_CELLS = SearchOptions(approximate_from=1, probe=0.1)


class Everything:
    """A scope of all rows of one source."""

    source_key = 1
    selective = False

    def count(self):
        raise AssertionError("only a selective scope is counted")

    def all(self, count):
        raise AssertionError("only a selective scope is listed")

    def among(self, rids):
        return set(rids)


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def adapter(dimension: int, seed: int = 5, strength: float = 0.3) -> DomainAdapter:
    random = np.random.default_rng(seed)
    query, passage = (np.eye(dimension) + strength * random.standard_normal((dimension, dimension)) for _ in range(2))
    return DomainAdapter("m", query, passage)


def matrix(parts, *, lengths=None, cells: int = 0, first: int = 1) -> Matrix:
    each = np.array(lengths or [1] * len(parts), np.int64)
    rids = np.arange(first, first + len(each)) * 10
    parted = None
    if cells:
        centroids = trained(parts, cells)
        parted = Cells(centroids, assigned(parts, centroids))
    return Matrix("m", rids, np.ones(len(each), np.int64), each, VectorParts(parts), parted)


def test_a_cosine_by_hand() -> None:
    """(1, 0) @ query = (2, 0), (0, 1) @ passage = (3, 4): their cosine is 3/5; (1, 0) @ passage = (0, 2): 0."""
    learnt = DomainAdapter("m", np.array([[2, 0], [0, 1]]), np.array([[0, 2], [3, 4]]))
    found = Matrices([matrix(np.eye(2, dtype=np.float32))], learnt)
    assert found.cosines([1.0, 0.0], [10, 20]) == pytest.approx({10: 0.0, 20: 0.6})
    assert found.nearest([1.0, 0.0], 2, Everything(), ALL) == [20, 10]
    assert found.scorer_id == f"m+{learnt.adapter_id}"


def test_a_vector_that_is_mapped_to_nothing_is_like_no_question() -> None:
    learnt = DomainAdapter("m", np.eye(2), np.array([[1, 0], [0, 0]]))
    assert Matrices([matrix(np.eye(2, dtype=np.float32))], learnt).cosines([0.6, 0.8], [10, 20]) == pytest.approx(
        {10: 0.6, 20: 0.0}
    )


@pytest.mark.parametrize("cells", [0, 6])
def test_the_best_window_of_a_chunk_speaks_for_it(cells: int) -> None:
    random = np.random.default_rng(2)
    parts, query, learnt = unit(random.standard_normal((40, 8))), unit(random.standard_normal((1, 8)))[0], adapter(8)
    found = Matrices([matrix(parts, lengths=[1, 3] * 10, cells=cells)], learnt)
    mapped, asked = unit(parts @ learnt.passage), unit((query @ learnt.query)[None])[0]
    by_hand = {10: mapped[0] @ asked, 20: max(mapped[1:4] @ asked)}
    assert found.cosines(query, [10, 20]) == pytest.approx(by_hand, abs=1e-6)


def test_many_blocks_are_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, learnt = unit(np.random.default_rng(3).standard_normal((50, 8))), adapter(8)
    whole = mapped_lengths(learnt, VectorParts(parts))
    monkeypatch.setattr("context_engine.adapters.sources.local.vector_parts._BLOCK", 7)
    assert mapped_lengths(learnt, VectorParts(parts)) == pytest.approx(whole, rel=1e-6)
    assert len(mapped_lengths(learnt, VectorParts(parts[:0]))) == 0


def test_an_adapter_of_the_identity_changes_nothing() -> None:
    parts = unit(np.random.default_rng(4).standard_normal((30, 8)))
    plain = Matrices([matrix(parts)])
    same = plain.adapted(DomainAdapter("m", np.eye(8), np.eye(8)))
    rids = list(range(10, 310, 10))
    assert same.cosines(parts[0], rids) == pytest.approx(plain.cosines(parts[0], rids), abs=1e-6)
    assert same.nearest(parts[0], 5, Everything(), ALL) == plain.nearest(parts[0], 5, Everything(), ALL)


def test_several_partitions_are_ranked_by_one_measure() -> None:
    parts, learnt = unit(np.random.default_rng(6).standard_normal((60, 8))), adapter(8)
    whole = Matrices([matrix(parts)], learnt)
    parted = Matrices([matrix(parts[:20]), matrix(parts[20:], first=21)], learnt)
    assert parted.nearest(parts[3], 12, Everything(), ALL) == whole.nearest(parts[3], 12, Everything(), ALL)


def test_lengths_are_computed_once_for_an_adapter_and_for_few_adapters() -> None:
    of = matrix(unit(np.random.default_rng(7).standard_normal((30, 8))))
    first = of.adapted(adapter(8, seed=0))
    assert of.adapted(adapter(8, seed=0)) is first
    second = of.adapted(adapter(8, seed=1))
    for seed in range(2, 17):
        of.adapted(adapter(8, seed=seed))
        assert of.adapted(adapter(8, seed=0)) is first, "one that is used stays"
    assert of.adapted(adapter(8, seed=1)) is not second


def test_stored_vectors_stay_as_they_are() -> None:
    parts, learnt = unit(np.random.default_rng(8).standard_normal((30, 8))), adapter(8)
    of = matrix(parts)
    found = of.adapted(learnt)
    assert isinstance(found.parts, AdaptedParts)
    assert np.array_equal(found.parts.as_floats(), parts) and np.array_equal(of.parts.as_floats(), parts)
    assert np.array_equal(found.in_rows().take(np.array([3, 1])).as_floats(), parts[[3, 1]])


def test_vectors_in_bytes_are_mapped_as_the_floats_that_they_stand_for() -> None:
    parts, learnt = unit(np.random.default_rng(10).standard_normal((40, 8))), adapter(8)
    largest = np.abs(parts).max(axis=1, keepdims=True)
    bytes_ = Matrix(
        "m",
        np.arange(40),
        np.ones(40, int),
        np.ones(40, int),
        VectorParts(np.rint(parts / largest * 127).astype(np.int8)),
    )
    floats = Matrix("m", np.arange(40), np.ones(40, int), np.ones(40, int), VectorParts(parts))
    found, expected = (Matrices([one], learnt).cosines(parts[7], range(40)) for one in (bytes_, floats))
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    "learnt", [DomainAdapter("other", np.eye(8), np.eye(8)), DomainAdapter("m", np.eye(4), np.eye(4))]
)
def test_an_adapter_of_other_vectors_is_refused(learnt: DomainAdapter) -> None:
    with pytest.raises(StoreVersionMismatch, match=learnt.adapter_id):
        Matrices([matrix(np.eye(8, dtype=np.float32))]).adapted(learnt)


def test_near_cells_hold_most_neighbours_under_an_adapter_too() -> None:
    """Cells are those of the stored vectors; they are ranked by what their centroids are once mapped."""
    random = np.random.default_rng(9)
    centres = random.standard_normal((60, 16))
    parts = unit(centres[random.integers(0, 60, 4000)] + 0.4 * random.standard_normal((4000, 16)))
    found, kept = Matrices([matrix(parts, cells=40)], adapter(16, strength=0.1)), 0
    for query in parts[::200]:
        wanted = found.nearest(query, 10, Everything(), ALL)
        kept += len(set(wanted) & set(found.nearest(query, 10, Everything(), BY_CELLS)))
    assert kept >= 190, f"{kept} of 200"
