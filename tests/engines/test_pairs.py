"""`kb copy` between every two stores: documents, vectors, calibrations and adapters go along."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import places
from context_engine.core.models import Chunk, ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.testing import FakeEmbedder
from context_engine.wiring.copying import CopyOrder, copy_domain
from context_engine.wiring.setup import load_setup
from tests.neo4j_server import PASSWORD, Neo4jServer
from tests.opensearch_server import OpenSearchNode

pytestmark = pytest.mark.slow
STORES: dict[str, dict[str, Any]] = {
    "opensearch": {"index_prefix": "pairs", "replicas": 0},
    "neo4j": {"store_name": "pairs"},
}
"""The settings of a source; other tests have stores of other names on the same servers."""
MANIFEST = """
version: 1
domain: DESK
sources:
  - {id: policies, type: bank_sop, adapter: ADAPTER, connection: CONNECTION, settings: SETTINGS}
  - {id: papers, type: system_of_record, adapter: ADAPTER, connection: CONNECTION, classification: confidential,
     access: {roles: [board]}, settings: SETTINGS}
"""
EVERY_PAIR = (
    "local", "postgres", "local", "opensearch", "local", "neo4j", "postgres", "opensearch", "postgres", "neo4j",
    "opensearch", "neo4j", "local",
)  # fmt: skip


@pytest.fixture
def connections(vector_server: Any, node: OpenSearchNode, server: Neo4jServer) -> dict[str, Any]:
    """Connections to a server of each kind, by the names of the adapters."""
    database = urlsplit(vector_server.new_database())
    return {
        "postgres": {
            "base_url": f"postgresql://{database.hostname}:{database.port}{database.path}",
            "user": database.username,
            "api_key": database.password,
        },
        "opensearch": {"base_url": node.url},
        "neo4j": {"base_url": server.url, "user": "neo4j", "api_key": PASSWORD},
    }


def setup_of(folder: Path, adapter: str) -> Any:
    connection = "null" if adapter == "local" else adapter
    settings = json.dumps(STORES.get(adapter, {}))
    manifest = MANIFEST.replace("ADAPTER", adapter).replace("CONNECTION", connection).replace("SETTINGS", settings)
    (folder / "manifests/desk.yaml").write_text(manifest, "utf-8")
    return load_setup(env={}, cwd=folder)


def base(setup: Any, data_dir: Path) -> LocalBase:
    place = places(setup.registry.domain("DESK").sources, setup.access.rules_of)
    return LocalBase(data_dir / "base", embedder=FakeEmbedder(64), place=place)


def taught(setup: Any, data_dir: Path) -> tuple[list[str], int]:
    """Fill a base, calibrate it, and let it learn an adapter from each source; return their ids, and how many parts
    were calibrated.
    """
    with base(setup, data_dir) as own:
        with own.writer() as sink:
            for number in range(40):
                source_id = "papers" if number % 10 == 9 else "policies"
                texts = [f"Part {part} of rule {number} is kept by desk {number * part}." for part in range(2)]
                sink.put(source_id, f"d{number}", "", f"hash {number}", [Chunk(content=text) for text in texts])
        plan = own.calibration_plan("DESK", ["policies", "papers"], anew=True)
        calibration = ScopeCalibration(threshold=0.25, strong=0.75, signal=SIGNAL_VERSION, own=9, outside=9, chunks=80)
        found = [(part, replace(calibration, model_id=part.scorer_id)) for part in plan.parts]
        own.keep_calibrations("DESK", plan, found)
        kept = []
        for seed, source_id in enumerate(("policies", "papers")):
            maps = np.random.default_rng(seed).standard_normal((2, 64, 64))
            origin = own.held_vectors([source_id]).origin
            adapter = own.keep_adapter("DESK", DomainAdapter("fake-64", *maps), {"questions": 60}, origin)
            own.use_adapter("DESK", adapter.adapter_id)
            kept.append(adapter.adapter_id)
        return sorted(kept), len(found)


def test_every_store_gives_every_other_all_it_has(connections: dict[str, Any], tmp_path: Path) -> None:
    for name in ("config", "manifests"):
        (tmp_path / name).mkdir()
    (tmp_path / "config/connections.yaml").write_text(json.dumps(connections), "utf-8")
    learnt, calibrated = taught(setup_of(tmp_path, "local"), tmp_path / "first")
    copies = list(pairwise(EVERY_PAIR))
    assert len({*copies}) == 4 * 3
    for number, (origin, target) in enumerate(copies, 1):
        setup = setup_of(tmp_path, origin)
        order = CopyOrder(origin, target, connection=target, settings=STORES.get(target, {}))
        data_dir = tmp_path / ("first" if number < len(copies) else "second")
        report = copy_domain(setup, setup.registry.domain("DESK"), order, data_dir=data_dir, progress=lambda *_: None)
        assert report.same and not report.vectors_refused, (origin, target)
        assert sum(source.vectors for source in report.sources) == 80, (origin, target)
        assert (list(report.adapters_kept), list(report.adapters_left)) == (learnt, []), (origin, target)
        assert report.calibrations == calibrated, (origin, target)
    with base(setup, tmp_path / "second") as last:
        assert {adapter.adapter_id: adapter.in_force for adapter in last.adapters("DESK")} == dict.fromkeys(
            learnt, True
        )
