"""The certificate on a copy of an operator's base: small by default, hundreds of changes where there is time."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.adapters.sources.local import LocalBase, search
from context_engine.adapters.sources.local.partitions import partitions
from context_engine.core.models import NOBODY, Chunk, Classification, Principal
from context_engine.errors import ConfigError, StoreError
from context_engine.evaluation.access_proof import prove_access
from context_engine.testing import FixedClock
from context_engine.wiring.adapters import load_source_adapter
from context_engine.wiring.build import SourceOpener
from context_engine.wiring.setup import Setup, load_setup

OPS = """
version: 1
domain: OPS
sources:
  - {id: policies, type: bank_sop}
  - {id: notices, type: external_official, classification: public}
  - {id: web_notes, type: general_web, access: {roles: [research]}}
  - {id: board_papers, type: system_of_record, classification: confidential, access: {roles: [board], groups: [audit]}}
"""
DEAL = """
version: 1
domain: DEAL
access: {roles: [board]}
sources:
  - {id: deal_files, type: system_of_record, classification: restricted}
"""
TEXTS = {
    "policies": [
        "Hotels: the limit is 200 a night. Claims above the limit need approval by the head of the desk.",
        "The daily limit of a trader is set by the committee and reviewed every quarter.",
        "Approval of a new product: the committee decides within ten business days. Minutes are kept seven years.",
        "Travel by train is booked by the desk. The hotel is paid by the traveller and claimed afterwards.",
        "A breach of a limit is reported to the head of risk on the same day.",
    ],
    "notices": [
        "Collateral is valued daily. A margin call is settled on the next business day.",
        "A bank shall hold capital against market risk; the limit is eight percent.",
        "A bank shall keep a register of outsourced services and review it every year.",
    ],
    "web_notes": ["A blog says that hotel limits go up next year."],
    "board_papers": ["The board buys the hotel. Project Falcon is not told to the desk."],
    "deal_files": ["Project Falcon: the price is forty million."],
}
CLERK = Principal(id="clerk", roles=frozenset({"clerk"}), clearance=Classification.INTERNAL)
RESEARCHER = Principal(id="researcher", roles=frozenset({"research"}), clearance=Classification.INTERNAL)
AUDITOR = Principal(id="auditor", groups=frozenset({"audit"}), clearance=Classification.CONFIDENTIAL)


def written(setup: Setup, data_dir: Path) -> None:
    adapter = load_source_adapter("local")
    for name in setup.registry.names:
        domain = setup.registry.domain(name)
        context = SourceOpener(setup, {}, FixedClock(), data_dir, lambda: None).context(domain)
        assert adapter.open_sink is not None
        with adapter.open_sink(domain.sources, context, SinkOptions()) as sink:
            for source in domain.sources:
                for number, text in enumerate(TEXTS[source.id]):
                    chunk = Chunk(content=text, title=text.split()[0], metadata={"owner": "risk"})
                    sink.put(source.id, f"{source.id}-{number}", "", "1", [chunk])
            raised = Chunk(content="The hotel limit of the board is 900.", classification=Classification.RESTRICTED)
            sink.put(domain.sources[0].id, "raised", "", "1", [raised])


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setup, Path]:
    folder = tmp_path_factory.mktemp("bank")
    for place in ("config", "manifests"):
        (folder / place).mkdir()
    (folder / "manifests/ops.yaml").write_text(OPS, "utf-8")
    (folder / "manifests/deal.yaml").write_text(DEAL, "utf-8")
    setup = load_setup(env={}, cwd=folder)
    written(setup, folder / "data")
    return setup, folder / "data"


def files(folder: Path) -> dict[str, str]:
    """Digests of all files but those that SQLite shares between readers."""
    found = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith(("-shm", "-wal")))
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}


@pytest.mark.slow
def test_another_folder_gives_the_same_digest(bank, tmp_path):
    setup, _ = bank
    elsewhere = tmp_path / "restored"
    shutil.copytree(setup.config.paths.cwd, elsewhere)
    (elsewhere / "config/rag-pipeline.json").write_text('{"stage2_top_k": 8}')
    digests = {
        certificate.digest
        for cwd in (elsewhere, tmp_path, Path("/"))
        for certificate in prove_access(
            load_setup(config_dir=str(elsewhere), env={}, cwd=cwd), elsewhere / "data", [CLERK], changes=2, questions=2
        )
    }
    assert len(digests) == 1


@pytest.mark.slow
def test_nothing_shows_of_what_may_not_be_read_and_the_base_itself_is_only_read(bank):
    setup, data_dir = bank
    before, told = files(data_dir), []
    (found,) = prove_access(
        setup, data_dir, [CLERK], changes=15, questions=8, progress=lambda who, done: told.append((who.id, done))
    )
    assert found.first is None and found.holds
    assert sum(found.changes.values()) == 15 and found.questions == 8
    assert found.answers >= 3 * found.questions and found.insider_saw
    assert set(found.outcomes) & {"answered", "no_match", "out_of_scope"}
    assert told[-1] == ("clerk", 15)
    assert files(data_dir) == before


@pytest.mark.slow
def test_a_base_that_places_nothing_is_caught(bank, monkeypatch):
    monkeypatch.setattr("context_engine.adapters.sources.local.writer.partition_key", lambda *_: 1)
    (found,) = prove_access(*bank, [NOBODY], changes=20, questions=10)
    assert not found.holds and found.first is not None
    assert found.first.before != found.first.after and found.first.since < found.first.until
    assert sum(found.differing.values()) > 0
    assert found.to_dict()["first"]["where"] == found.first.where


def test_without_rules_there_is_nothing_to_prove(bank, tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/ops.yaml").write_text(OPS.split("  - {id: web")[0], "utf-8")
    with pytest.raises(ConfigError, match="nothing to prove"):
        next(prove_access(load_setup(env={}, cwd=tmp_path), bank[1], [NOBODY]))


def test_a_base_that_is_not_there_is_said(tmp_path):
    with pytest.raises(StoreError, match="no knowledge base"):
        LocalBase(tmp_path / "none").copy_to(tmp_path / "copy")


@pytest.mark.slow
def test_a_calibration_of_everything_is_caught(bank, monkeypatch):
    in_force = search.calibration_in_force

    def of_all(connection: Any, domain: str, model_id: str, _parts: Any) -> Any:
        return in_force(connection, domain, model_id, tuple(one.key for one in partitions(connection)))

    monkeypatch.setattr(search, "calibration_in_force", of_all)
    monkeypatch.setattr("context_engine.learning.calibration._LEAST_SENTENCES", 2)
    monkeypatch.setattr("context_engine.evaluation.access_trial._CALIBRATED_EACH", 2)
    (found,) = prove_access(*bank, [CLERK], changes=60, questions=10)
    assert any("calibration" in where for where in found.differing), found.differing


@pytest.mark.slow
def test_new_rules_that_renew_every_index_are_caught(bank, monkeypatch):
    from context_engine.adapters.sources.local.index_sync import IndexSync

    monkeypatch.setattr(IndexSync, "_rearranged", IndexSync._rebuilt)
    (found,) = prove_access(*bank, [CLERK], changes=80, questions=20)
    assert found.changes["new_rule"] and found.differing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("principal", "changes"),
    [(NOBODY, 60), (CLERK, 120), (RESEARCHER, 60), (AUDITOR, 60)],
    ids=lambda given: (given.id or "nobody") if isinstance(given, Principal) else str(given),
)
def test_many_changes_change_no_answer(bank, principal, changes):
    (found,) = prove_access(*bank, [principal], changes=changes, questions=changes // 5)
    assert found.first is None and found.holds
    assert sum(found.changes.values()) == changes
    assert {"insert", "edit", "delete", "rename", "reclassify", "new_source", "new_rule"} <= set(found.changes)
