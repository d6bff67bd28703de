"""The cosines under an adapter are others, so the scope threshold is calibrated under it by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

import sqlite3  # noqa: E402

from context_engine.adapters.sources.domain_adapter import DomainAdapter  # noqa: E402
from context_engine.adapters.sources.local import LocalBase, SearchOptions  # noqa: E402
from context_engine.adapters.sources.local.partitions import forget_derived, read_all  # noqa: E402
from context_engine.adapters.sources.stores.scope import Scope  # noqa: E402
from context_engine.core.models import Chunk, DomainSpec, ScopeCalibration, SourceSpec, SourceType  # noqa: E402
from context_engine.learning.calibration import calibrate  # noqa: E402
from context_engine.testing.fakes import FakeEmbedder  # noqa: E402
from tests.unit.adapters.sources.local.conftest import DESKS, RULES  # noqa: E402

HOUSE = DomainSpec(version=1, domain="HOUSE", sources=(SourceSpec(id="sop", type=SourceType.BANK_SOP),))
MODEL = FakeEmbedder(16).model_id
LEARNT = DomainAdapter(MODEL, *(np.eye(16) + 0.4 * np.random.default_rng(3).standard_normal((2, 16, 16))))


@pytest.fixture
def house(folder: Path) -> Iterator[LocalBase]:
    with LocalBase.open(folder, create=True, embedder=FakeEmbedder(16)) as base:
        with base.writer() as writer:
            for number, text in enumerate(rule.format(desk) for desk in DESKS[:4] for rule in RULES):
                writer.put("sop", str(number), "", "1", [Chunk(content=text)])
        yield base


def keep(base: LocalBase) -> str:
    return base.keep_adapter("HOUSE", LEARNT, {}, base.held_vectors(["sop"]).origin).adapter_id


def scorers(base: LocalBase) -> set[str]:
    with closing(sqlite3.connect(base.path / "base.sqlite3")) as connection:
        return {one.calibration.model_id for one in read_all(connection)}


def of_search(base: LocalBase) -> ScopeCalibration | None:
    return base.answer("the desk", top_k=1, scope=Scope(source_id="sop", constants={"domain": "HOUSE"})).calibration


def test_what_is_kept_only_is_not_calibrated(house: LocalBase) -> None:
    keep(house)
    calibrate(house, HOUSE)
    assert scorers(house) == {"", MODEL}


@pytest.mark.slow
def test_each_search_has_the_threshold_of_its_own_cosines(house: LocalBase) -> None:
    words, plain = calibrate(house, HOUSE)
    name = keep(house)
    assert calibrate(house, HOUSE, adapter_id=name) == (words, plain), "it is not in force yet"
    house.use_adapter("HOUSE", name)
    (same, learnt) = calibrate(house, HOUSE)
    assert (same, learnt.model_id) == (words, LEARNT.scorer_id) and learnt.threshold != plain.threshold
    assert of_search(house) == house.calibration("HOUSE") == learnt
    with LocalBase(house.path, embedder=FakeEmbedder(16), options=SearchOptions(adapter="off")) as without:
        assert of_search(without) == without.calibration("HOUSE") == plain
    house.undo_adapter("HOUSE")
    assert of_search(house) == plain


def test_it_goes_with_its_adapter(house: LocalBase) -> None:
    house.use_adapter("HOUSE", keep(house))
    calibrate(house, HOUSE)
    assert scorers(house) == {"", MODEL, LEARNT.scorer_id}
    with closing(sqlite3.connect(house.path / "base.sqlite3")) as connection, connection:
        forget_derived(connection, [1])
    assert scorers(house) == set()
