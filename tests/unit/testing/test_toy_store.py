"""A store of a few lines gets calibration, an adapter and the access proof by implementing their protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.core.models import (
    Chunk,
    Classification,
    Edge,
    HeldVectors,
    Link,
    LinkQuery,
    Principal,
    SearchRequest,
    SourceSpec,
)
from context_engine.errors import ConfigError
from context_engine.evaluation.access_proof import prove_access
from context_engine.evaluation.gold import identity_of
from context_engine.evaluation.learning.adapter_gate import JudgedSearch, learn_adapter
from context_engine.evaluation.learning.judged_pairs import judged_pairs
from context_engine.evaluation.questions import EvalQuestion
from context_engine.learning.contrast import lessons_of
from context_engine.testing import (
    AccessProvableContract,
    CalibratableContract,
    CopyableContract,
    FakeEmbedder,
    GraphStoreContract,
    TrainableContract,
)
from context_engine.testing.capability_conformance import CLOSED_RULES, CLOSED_SOURCE, OPEN_SOURCE
from context_engine.wiring.adapters import load_source_adapter
from context_engine.wiring.build import build_engine, source_opener
from context_engine.wiring.examine import opened_store
from context_engine.wiring.scope import calibrate_domains, use_adapter
from context_engine.wiring.setup import Setup, load_setup
from tests.toy_store import ToySink, ToySource, ToyStore, install

CLERK = Principal(id="clerk", roles=frozenset({"clerk"}), clearance=Classification.INTERNAL)
MANIFEST = """
version: 1
domain: OPS
sources:
  - {id: policies, type: bank_sop, adapter: toy}
  - {id: board_papers, type: system_of_record, adapter: toy, classification: confidential, access: {roles: [board]}}
"""
SUBJECTS = (
    "margin",
    "custody",
    "escrow",
    "dividend",
    "collateral",
    "factoring",
    "guarantee",
    "hedging",
    "leasing",
    "netting",
)
TASKS = ("is valued", "is booked", "is reviewed", "is reported", "is settled", "is approved")
TEXTS = [f"The {what} account {task} by desk {what[:3]}{task[3:6]} before noon." for what in SUBJECTS for task in TASKS]


class TestToyStore(
    CalibratableContract, CopyableContract, TrainableContract, AccessProvableContract, GraphStoreContract
):
    def make_store(self, data_dir: Path) -> ToyStore:
        return ToyStore(data_dir / "toy.pickle", FakeEmbedder(64))

    @contextmanager
    def open_sink(self, data_dir: Path) -> Iterator[ToySink]:
        specs = [SourceSpec(id=name, type="bank_sop") for name in (OPEN_SOURCE, CLOSED_SOURCE)]
        yield ToySink(self.make_store(data_dir), specs, lambda name: CLOSED_RULES if name == CLOSED_SOURCE else "")

    def open_source(self, source_id: str, data_dir: Path) -> ToySource:
        return ToySource(self.make_store(data_dir), source_id)


READABLE = ToyStore.readable


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.fixture
def bank(tmp_path: Path) -> tuple[Setup, Path]:
    """A configuration whose only sources are in the toy store, which is written."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/ops.yaml").write_text(MANIFEST, "utf-8")
    setup, data = load_setup(env={}, cwd=tmp_path), tmp_path / "data"
    domain = setup.registry.domain("OPS")
    sink_of = load_source_adapter("toy").open_sink
    assert sink_of is not None
    context = source_opener(setup, data_dir=data, embedder=lambda: None).context(domain)
    with sink_of(domain.sources, context, SinkOptions()) as sink:
        for number, text in enumerate(TEXTS):
            sink.put("policies", f"rule-{number}", "", "1", [Chunk(content=text, title=text.split()[1])])
        sink.put("board_papers", "falcon", "", "1", [Chunk(content="The board keeps project Falcon to itself.")])
    return setup, data


def test_it_is_calibrated_and_a_search_uses_the_threshold(bank):
    setup, data = bank
    (calibrated,) = calibrate_domains(setup, ToyStore(data / "toy.pickle"), adapter="toy", anew=True)
    assert calibrated.problem is None and calibrated.found
    with build_engine(setup, data_dir=data) as engine:
        result = engine.search(SearchRequest(query="Who reviews the custody account?", domain="OPS"))
    assert result.scope is not None and result.scope.origin == "calibrated"
    assert result.scope.value == calibrated.found[0].threshold


def learnt(data, **options):
    """Return the store, its vectors, and what `learn_adapter` gives for a question about each passage."""
    embedder = FakeEmbedder(64)
    store = ToyStore(data / "toy.pickle", embedder)
    held = store.held_vectors(["policies"])
    questions, qrels = judged(held)
    pairs = judged_pairs(questions, qrels, held)
    search = JudgedSearch(
        base=store,
        domain="OPS",
        source_ids=["policies"],
        qrels=qrels,
        known={chunk.chunk_id: identity_of("policies", chunk.chunk_id, chunk) for chunk in held.chunks},
    )
    lessons = lessons_of(pairs.pairs, held, embedder)
    return store, held, learn_adapter(search, pairs, lessons, measure="AP@10", folds=3, **options)


@pytest.mark.slow
def test_an_adapter_is_learnt_from_judged_questions_and_put_in_force(bank):
    setup, data = bank
    store, held, trial = learnt(data)
    assert trial.questions == len(TEXTS) and trial.passages[0] == len(TEXTS)
    assert trial.before.keys() == trial.known.keys() == {f"q{number}" for number in range(len(TEXTS))}
    assert trial.adapter is not None and trial.difference("AP@10", known=True).mean > 0.0
    kept = store.keep_adapter("OPS", trial.adapter, {"questions": trial.questions}, held.origin)
    use_adapter(setup, store, setup.registry.domain("OPS"), kept.adapter_id, adapter="toy")
    assert [adapter.in_force for adapter in ToyStore(data / "toy.pickle").adapters("OPS")] == [True]


@pytest.mark.slow
def test_smaller_shares_of_an_adapter_are_tried_unless_it_is_wanted_whole(bank, monkeypatch):
    monkeypatch.setattr("context_engine.evaluation.learning.adapter_gate.chosen", list)
    tried = learnt(bank[1])[2]
    assert [trial.kept for trial in tried] == [1.0, 0.65, 0.3]
    assert len({trial.adapter.adapter_id for trial in tried}) == 3
    assert [trial.kept for trial in learnt(bank[1], whole=True)[2]] == [1.0]


def judged(held: HeldVectors) -> tuple[list[EvalQuestion], dict[str, dict[str, int]]]:
    """Return a question for each passage in the words of customers, which the passages do not use."""
    plain = {what: f"customers{number}" for number, what in enumerate(SUBJECTS)}
    questions, qrels = [], {}
    for number, text in enumerate(held.contents):
        what, desk = text.split()[1], text.split()[-3]
        questions.append(EvalQuestion(id=f"q{number}", text=f"Who handles {plain[what]} at {desk}?"))
        qrels[f"q{number}"] = {held.chunk_ids[number]: 1}
    return questions, qrels


def test_its_answers_are_proved_not_to_depend_on_what_a_caller_may_not_read(bank):
    (certificate,) = prove_access(*bank, [CLERK], changes=12, questions=6, adapter="toy")
    assert certificate.holds and certificate.first is None
    assert sum(certificate.changes.values()) == 12 and certificate.insider_saw


@pytest.mark.slow
def test_a_toy_store_that_ignores_access_is_caught(bank, monkeypatch):
    monkeypatch.setattr(ToyStore, "readable", lambda self, source_ids, _access: READABLE(self, source_ids, None))
    monkeypatch.setattr(ToyStore, "calibration", lambda self, domain, **_: widest(self))
    (certificate,) = prove_access(*bank, [CLERK], changes=12, questions=6, adapter="toy")
    assert not certificate.holds


def widest(store: ToyStore) -> object:
    """Return a calibration that tells how many chunks the store holds, readable or not."""
    from context_engine.core.models import ScopeCalibration
    from context_engine.core.ranking.scope import SIGNAL_VERSION

    count = sum(len(document.chunks) for document in store.documents.values())
    return ScopeCalibration(threshold=0.1, strong=0.5, signal=SIGNAL_VERSION, chunks=count)


def test_a_store_without_a_capability_says_which_one_it_lacks(tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/ops.yaml").write_text(MANIFEST.replace("toy", "notes"), "utf-8")
    setup = load_setup(env={}, cwd=tmp_path)
    with pytest.raises(ConfigError, match="adapter 'notes' does not offer the access proof"):
        next(prove_access(setup, tmp_path / "data", [CLERK], adapter="notes"))


def test_a_store_is_opened_for_a_capability_and_closed(bank, monkeypatch):
    setup, data = bank
    closed: list[str] = []
    monkeypatch.setattr(ToySource, "close", lambda self: closed.append(self.source_id))
    domain = setup.registry.domain("OPS")
    with opened_store(source_opener(setup, data_dir=data), domain, domain.sources[0], ToyStore) as store:
        assert store.documents and not closed
    assert closed == ["policies"]


def in_the_same_file(store: ToyStore, data_dir: Path) -> None:
    (data_dir / "toy.pickle").symlink_to(store.path)


@pytest.mark.parametrize(
    ("broken", "by", "law"),
    [
        ("keep_calibrations", lambda *_: None, "test_a_kept_calibration_is_in_force_for_its_domain"),
        (
            "readable",
            lambda self, ids, _: READABLE(self, ids, None),
            "test_vectors_of_unreadable_chunks_are_not_given",
        ),
        ("undo_adapter", lambda *_: True, "test_a_switch_is_undone_and_restored"),
        ("forget_adapters", lambda *_: None, "test_an_adapter_that_was_never_in_force_is_forgotten"),
        ("copy_to", in_the_same_file, "test_writing_to_a_copy_leaves_the_original_unchanged"),
    ],
)
def test_a_broken_store_fails_the_contract(monkeypatch, broken, by, law):
    monkeypatch.setattr(ToyStore, broken, by)
    with pytest.raises(AssertionError):
        getattr(TestToyStore(), law)()


LINKED = ToySource.linked


def asked_otherwise(**changes: object) -> Callable[[ToySource, LinkQuery], Sequence[Link]]:
    """Return `linked` of a source that passes over a part of the request."""
    return lambda self, query: LINKED(self, replace(query, query=replace(query.query, **changes)))


def every_edge(self: ToySource, query: LinkQuery) -> Sequence[Link]:
    return LINKED(self, replace(query, edges=frozenset(Edge)))


def worst_first(self: ToySource, query: LinkQuery) -> Sequence[Link]:
    return LINKED(self, replace(query, origins=query.origins[::-1]))


def without_scores(self: ToySource, query: LinkQuery) -> Sequence[Link]:
    return [link._replace(chunk=link.chunk._replace(scores=())) for link in LINKED(self, query)]


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (lambda *_: [], "test_a_chunk_leads_to_the_clause_that_it_cites"),
        (every_edge, "test_a_chunk_leads_to_the_clause_that_it_cites"),
        (worst_first, "test_the_best_origin_comes_first_and_each_chunk_once"),
        (lambda *asked: [*LINKED(*asked), *LINKED(*asked)], "test_the_best_origin_comes_first_and_each_chunk_once"),
        (asked_otherwise(top_k=100), "test_at_most_top_k_chunks_are_returned"),
        (without_scores, "test_each_chunk_has_the_scores_of_a_search"),
        (asked_otherwise(filters=None), "test_filter_and_day_hold_for_what_is_reached"),
        (asked_otherwise(as_of=None), "test_filter_and_day_hold_for_what_is_reached"),
        (asked_otherwise(access=None), "test_a_chunk_that_the_caller_may_not_read_is_not_reached"),
        (asked_otherwise(access=None), "test_a_chunk_that_the_caller_may_not_read_is_no_origin"),
    ],
)
def test_a_broken_graph_fails_the_contract(monkeypatch, broken, law):
    monkeypatch.setattr(ToySource, "linked", broken)
    with pytest.raises(AssertionError):
        getattr(TestToyStore(), law)()
