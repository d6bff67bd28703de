"""Search for settings: disjoint folds, recomputation equal to searching, nothing chosen by noise."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.embedders.cache import CachedEmbedder
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation import tune as tuning
from context_engine.evaluation.account import Trouble
from context_engine.evaluation.metrics import Paired
from context_engine.evaluation.run import Depth
from context_engine.evaluation.score import score_run
from context_engine.evaluation.tune import Tuned, TunedFold, candidates, chosen_by_folds, folds_of, tune
from context_engine.evaluation.tuned_report import evidence, merged_config, tuned_report
from context_engine.evaluation.variant import Variant, read_variant
from context_engine.testing.fakes import FakeEmbedder
from context_engine.wiring import models

NAMES = [f"q{number}" for number in range(10)]


@given(st.integers(2, 30), st.data())
def test_folds_are_disjoint_of_one_size_and_cover_all(size, data):
    names = [f"q{number}" for number in range(size)]
    count = data.draw(st.integers(2, size))
    folds = folds_of(names, count)
    assert len(folds) == count
    assert sorted(name for fold in folds for name in fold) == sorted(names)
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    assert folds == folds_of(names[::-1], count)


@pytest.mark.parametrize("count", [0, 1, 11])
def test_a_number_of_folds_that_cannot_be(count):
    with pytest.raises(InvalidRequest, match=r"folds must be from 2 to the number of judged questions \(10\)"):
        folds_of(NAMES, count)


def test_each_fold_is_measured_with_what_is_best_on_the_others():
    """The first candidate is even; the second is better on q0 alone, by so much that folds without q0 choose it."""
    even = dict.fromkeys(NAMES, 0.5)
    lucky = {**dict.fromkeys(NAMES, 0.45), "q0": 1.0}
    folds = chosen_by_folds([even, lucky], [["q0", "q1"], NAMES[2:]])
    assert folds[0] == TunedFold(("q0", "q1"), 0, 0.5, 0.5, 0.5)
    assert folds[1] == TunedFold(tuple(NAMES[2:]), 1, pytest.approx((1.0 + 0.45) / 2), pytest.approx(0.45), 0.5)


def test_of_equal_candidates_the_first_is_chosen():
    same = dict.fromkeys(NAMES, 0.5)
    assert {fold.chosen for fold in chosen_by_folds([same, dict(same), dict(same)], folds_of(NAMES, 5))} == {0}


# -- on the demo ------------------------------------------------------------------------------------------------------

GRID = {
    "authority_weight": ["0", "0.3"],
    "min_relevance_score": ["0.6"],
    "dedup_method": ["off", "near"],
    "stage1_top_k": ["3", "40"],
}


@pytest.fixture(scope="module")
def small(demo_session):

    kept = {name: demo_session.qrels[name] for name in sorted(demo_session.qrels)[:8]}
    return replace(
        demo_session, qrels=kept, questions=tuple(one for one in demo_session.questions if one[0].id in kept)
    )


@pytest.fixture(scope="module")
def found(small):
    return tune(small, candidates(GRID, small), measure="nDCG@10", folds=4)


@pytest.mark.slow
def test_what_is_computed_again_is_what_a_search_returns(small, found):
    for place in (0, 1, 4, 6, 7):
        run = small.run(found.candidates[place], Depth(top_k=8, ranked=10))
        scores = score_run(run, small.qrels, ("nDCG@10",)).scores
        assert found.values[place] == {name: held["nDCG@10"] for name, held in scores.items()}, found.candidates[
            place
        ].name


def test_a_question_is_embedded_once_for_all_candidates(small, monkeypatch):
    """Two candidates differ in stage 1, so two engines are opened; they share what the embedder remembers."""
    embedded = []

    class Counting(FakeEmbedder):
        def embed_query(self, text):
            embedded.append(text)
            return super().embed_query(text)

    monkeypatch.setattr(models, "open_embedder", lambda *_args, **_kwargs: CachedEmbedder(Counting(8), queries=100))
    two = dict(list(small.qrels.items())[:2])
    asked = tuple(one for one in small.questions if one[0].id in two)
    session = replace(small, setup=small.setup.with_pipeline({"embedder": "any"}), qrels=two, questions=asked)
    tried = candidates({"stage1_top_k": ["3", "20"]}, session)
    assert len(tried) == 3
    tune(session, tried, measure="R@8", folds=2)
    assert sorted(embedded) == sorted(question.text for question, _ in asked)


@pytest.mark.slow
def test_a_limit_that_makes_a_search_look_deeper_is_measured_by_that_search(small):
    """Of two candidates a source one a document leaves fewer than eight, and the sources are asked for more."""
    tried = candidates({"stage1_top_k": ["2"], "max_per_document": ["1"]}, small)
    searched = tune(small, tried, measure="R@8", folds=2)
    run = small.run(tried[1], Depth(top_k=8, ranked=40))
    assert any(stage.name == "recall" and stage.left > 2 * 5 for answer in run.answers for stage in answer.stages)
    scores = score_run(run, small.qrels, ("R@8",)).scores
    assert searched.values[1] == {name: held["R@8"] for name, held in scores.items()}


@pytest.mark.slow
def test_how_much_is_read_can_be_searched_by_a_measure_of_what_is_read(small):
    tried = candidates({"stage2_top_k": ["1", "3"]}, small)
    of_sets = tune(small, tried, measure="SetF", folds=2)
    for place, top_k in enumerate((8, 1, 3)):
        run = small.run(Variant(), Depth(top_k=top_k, ranked=40))
        scores = score_run(run, small.qrels, ("SetF",)).scores
        assert of_sets.values[place] == {name: held["SetF"] for name, held in scores.items()}
    assert len({tuple(one.values()) for one in of_sets.values}) == 3


def test_a_measure_that_how_much_is_read_cannot_change_is_refused(small):
    tried = candidates({"stage2_top_k": ["1", "3"]}, small)
    with pytest.raises(InvalidRequest, match=r"nDCG@10 is the same for every stage2_top_k"):
        tune(small, tried, measure="nDCG@10", folds=2)
    with pytest.raises(InvalidRequest, match="are the same setting"):
        tune(small, tried, measure="SetF", folds=2, top_k=5)


@pytest.mark.slow
def test_the_configuration_itself_is_the_first_candidate(found):
    assert len(found.candidates) == 1 + 2 * 1 * 2 * 2
    assert found.candidates[0].name == "as configured"
    assert found.candidates[1].name == "authority_weight=0 min_relevance_score=0.6 dedup_method=off stage1_top_k=3"


@pytest.mark.slow
def test_a_search_is_the_same_each_time_also_where_every_candidate_is_reranked(small, found, monkeypatch):
    """With a reranker the sources are asked under settings that let every candidate through to it."""
    assert not tuning._reranks(small, Variant())
    monkeypatch.setattr(tuning, "_reranks", lambda *_: True)
    assert tune(small, found.candidates, measure="nDCG@10", folds=4) == found


@pytest.mark.slow
def test_the_report_and_the_evidence_say_the_same(found):
    proof = evidence(found)
    assert json.loads(json.dumps(proof)) == proof
    assert len(proof["folds"]) == 4
    assert proof["means_on_all_questions"]["as configured"] == pytest.approx(sum(found.values[0].values()) / 8)
    report = tuned_report(found, title="T")
    assert [section.title for section in report.sections] == [
        "The best set-ups on all questions",
        "Held out, fold by fold",
        "Folds",
        "Set-ups",
    ]
    assert "9 set-ups on 8 judged questions, 4 folds" in report.lead


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({}, "nothing to search"),
        ({"authority_weight": []}, "nothing to search"),
        ({"authority_wight": ["1"]}, "Did you mean 'authority_weight'?"),
        ({"authority_weight": ["2"]}, "authority_weight: must be"),
        ({"authority_weight": ["0.5"], "relevance_weight": ["0.6"]}, "add up to more than 1"),
        (
            {"stage1_top_k": [str(n) for n in range(1, 100)], "min_chunks": [str(n) for n in range(100)]},
            "9900 combinations",
        ),
    ],
)
def test_a_grid_that_cannot_be_used(small, grid, said):
    with pytest.raises((InvalidRequest, ConfigError)) as error:
        candidates(grid, small)
    assert said in str(error.value)


def test_what_only_a_new_ingest_would_change_is_not_varied(small):
    with pytest.raises(InvalidRequest) as error:
        candidates({"max_chunk_tokens": ["128"]}, small)
    assert str(error.value) == (
        "setting max_chunk_tokens takes effect when documents are ingested, not at a search, and nothing is ingested "
        "here: ingest with it into another folder (--data-dir), and run this on that folder"
    )


# -- what is written --------------------------------------------------------------------------------------------------


def tuned(session, low, *given):
    variants = (Variant(), read_variant(given, session.setup))
    values = (dict.fromkeys(NAMES, 0.5), dict.fromkeys(NAMES, 0.6))
    folds = tuple(TunedFold((name,), 1, 0.6, 0.6, 0.5) for name in NAMES)
    difference = Paired(0.1, low, 0.2, 0.0, 10, 0, 0)
    return Tuned(measure="R@8", candidates=variants, values=values, best=1, folds=folds, difference=difference)


def test_better_is_beyond_noise_only(demo_session):
    assert tuned(demo_session, 0.05, "authority_weight=0.2").better
    assert not tuned(demo_session, 0.0, "authority_weight=0.2").better
    assert not tuned(demo_session, -0.1, "authority_weight=0.2").better


def test_a_configuration_keeps_its_other_keys_and_can_be_loaded(demo_session, written, tmp_path):
    from context_engine.wiring.setup import load_setup

    path = written("rag-pipeline.json", '{"// mine": "x", "stage1_top_k": 30, "authority_weight": 0.4}')
    found = tuned(demo_session, 0.05, "authority_weight=0.2", 'authority_boosts={"tier_1": 0.5}', "local.a=1")
    path.write_text(merged_config(path, found), "utf-8")
    held = json.loads(path.read_text("utf-8"))
    assert (held["// mine"], held["stage1_top_k"], held["authority_weight"]) == ("x", 30, 0.2)
    assert held["authority_boosts"]["tier_1"] == 0.5
    assert held["// tuned"].startswith("R@8 on 10 questions, held out: 0.600, +0.1000 (+0.0500 to +0.2000)")
    assert "not better beyond noise" not in held["// tuned"]
    forced = tuned(demo_session, 0.0, "authority_weight=0.2")
    assert json.loads(merged_config(path, forced))["// tuned"].endswith("; not better beyond noise")
    down = replace(found, troubles=(Trouble("web", 2, "nobody there"),))
    assert json.loads(merged_config(path, down))["// tuned"].endswith("web failed in 2 search(es): nobody there")
    assert '{"local": {"a": 1}}' in held["// sources"]
    values = load_setup(config_dir=tmp_path, env={}, cwd=tmp_path).resolver.base().values
    assert (values.stage1_top_k, values.authority_weight, values.authority_boosts.tier_1) == (30, 0.2, 0.5)


def test_a_file_that_is_no_configuration_is_not_written_over(demo_session, written):
    with pytest.raises(ConfigError, match="cannot be added to"):
        merged_config(written("c.json", "[1]"), tuned(demo_session, 0.05, "authority_weight=0.2"))


def test_what_is_chosen_replaces_the_same_key_of_a_group(demo_session, written, tmp_path):
    from context_engine.wiring.setup import load_setup

    path = written(
        "rag-pipeline.json", '{"search": {"authority_weight": 0.4, "min_chunks": 1}, "models": {"rrf_k": 9}}'
    )
    found = tuned(demo_session, 0.05, "authority_weight=0.2", "merge_method=rrf")
    path.write_text(merged_config(path, found), "utf-8")
    held = json.loads(path.read_text("utf-8"))
    assert (held["search"], held["models"]) == ({"min_chunks": 1}, {"rrf_k": 9})
    values = load_setup(config_dir=tmp_path, env={}, cwd=tmp_path).resolver.base().values
    assert (values.authority_weight, values.min_chunks, values.merge_method, values.rrf_k) == (0.2, 1, "rrf", 9)
