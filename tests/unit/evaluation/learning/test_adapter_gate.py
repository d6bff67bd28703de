"""The gate: questions held out are not learnt from, what is judged names passages, what is refused says why."""

from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")
import numpy as np

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
from context_engine.errors import InvalidRequest
from context_engine.evaluation.gold import identity_of
from context_engine.evaluation.learning.adapter_gate import (
    AdapterTrial,
    JudgedSearch,
    Searches,
    check_learnable,
    chosen,
    evidence,
    measures_with,
)
from context_engine.evaluation.learning.folds import Fold, Folds, best_rounds, dense_rankings, learn_by_folds
from context_engine.evaluation.learning.judged_pairs import JudgedPairs, judged_pairs
from context_engine.evaluation.questions import EvalQuestion
from context_engine.learning.contrast import Maps, lessons_of
from context_engine.learning.pairs import TrainingPairs
from context_engine.learning.parts import QuestionParts
from context_engine.testing.fakes import FakeEmbedder

TEXTS = {
    "a": "Margin calls are met within a day.",
    "b": "Custody accounts are reconciled at noon.",
    "c": "Loans above the limit need approval.",
    "d": "Margin calls are met within a day.",
}
QUESTIONS = [
    EvalQuestion(id="q1", text="When are margin calls met?"),
    EvalQuestion(id="q2", text="Loans above which limit need approval?"),
    EvalQuestion(id="q3", text="What is not here?"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    with LocalBase.open(Path(tmp_path_factory.mktemp("base")), create=True, embedder=FakeEmbedder(16)) as opened:
        with opened.writer() as writer:
            for name, text in TEXTS.items():
                writer.put("s", f"doc-{name}", "", "1", [Chunk(chunk_id=name, content=text, document_id=f"doc-{name}")])
        yield opened


@pytest.fixture(scope="module")
def held(base):
    return base.held_vectors(["s"])


def names(held, rows):
    return sorted(held.chunk_ids[row] for row in rows)


def test_gold_ids_name_chunks_by_document_by_chunk_and_by_hash(held):
    sha256 = identity_of("s", "b", held.chunks[held.chunk_ids.index("b")]).sha256
    qrels = {"q1": {"doc-a": 1, "=b": 2}, "q2": {sha256: 1}, "q3": {"gone": 1}}
    found = judged_pairs(QUESTIONS, qrels, held)
    rows = dict(zip(found.ids, found.pairs.passages))
    assert names(held, rows["q1"]) == ["a", "b"]
    assert names(held, rows["q2"]) == ["b"]
    assert found.untaught == ["q3"]


def test_the_same_questions_in_any_order_are_the_same_pairs(held):
    qrels = {"q1": {"a": 1}, "q2": {"c": 1}}
    assert judged_pairs(QUESTIONS, qrels, held) == judged_pairs(QUESTIONS[::-1], qrels, held)


def lessons(held, qrels):
    return lessons_of(judged_pairs(QUESTIONS, qrels, held).pairs, held, FakeEmbedder(16))


def test_what_answers_a_question_held_out_is_left_out_with_every_copy_of_its_text(held):
    found = lessons(held, {"q1": {"a": 1}, "q2": {"d": 1, "c": 1}})
    one, two = (found.texts.index(question.text) for question in QUESTIONS[:2])
    learnt, held_out = np.arange(2) == two, np.arange(2) == one
    assert names(held, found.owners[found.of(learnt)[:, 1]]) == ["c", "d"]
    assert names(held, found.owners[found.of(learnt, apart_from=held_out)[:, 1]]) == ["c"]


def test_a_copy_of_an_answer_is_no_hard_negative(held):
    found = lessons(held, {"q1": {"a": 1}})
    rows = [row for row in found.examples.negatives[0].tolist() if row >= 0]
    assert names(held, found.owners[rows]) == ["b", "c"]


def test_cosines_rank_chunks(held):
    found = lessons(held, {"q2": {"c": 1}})
    ranking = dense_rankings(found, [0], None)[0]
    assert held.chunk_ids[ranking[0]] == "c"
    assert sorted(ranking) == [0, 1, 2, 3]


def test_rounds_are_chosen_by_the_questions_given_the_least_of_equals():
    values = [
        {0: {"R@10": 0.0}, 1: {"R@10": 1.0}},
        {0: {"R@10": 1.0}, 1: {"R@10": 0.0}},
        {0: {"R@10": 1.0}, 1: {"R@10": 0.0}},
    ]
    assert [best_rounds(values, places, "R@10") for places in ([0], [1], [0, 1])] == [1, 0, 0]


def test_a_fold_learns_nothing_where_nothing_else_is_taught(held):
    found = lessons(held, {"q1": {"a": 1}, "q2": {"d": 1}})
    result = learn_by_folds(found, [[0], [1]], measures=("R@10",), seed=1, apart=True)
    assert [(fold.rounds, fold.maps) for fold in result.folds] == [(0, None), (0, None)]


def test_rounds_that_are_given_are_not_chosen(held):
    found = lessons(held, {"q1": {"a": 1}, "q2": {"c": 1}})
    result = learn_by_folds(found, [[0], [1]], measures=("R@10",), seed=1, rounds=2)
    assert (result.rounds, [fold.rounds for fold in result.folds], len(result.dense)) == (2, [2, 2], 3)
    assert all(fold.maps is not None for fold in result.folds)


def test_passages_of_one_text_are_one_answer(held):
    found = lessons(held, {"q1": {"a": 1}, "q2": {"d": 1, "c": 1}})
    one, two = (found.answers[found.texts.index(question.text)] for question in QUESTIONS[:2])
    assert (len(one), len(two), one < two) == (1, 2, True)


def test_the_base_is_searched_with_the_maps_of_the_fold(base, held):
    """Maps that turn every question round put what is like it last."""
    qrels = {"q1": {"a": 1}, "q2": {"c": 1}}
    judged = judged_pairs(QUESTIONS, qrels, held)
    known = {chunk.chunk_id: identity_of("s", chunk.chunk_id, chunk) for chunk in held.chunks}
    asked = JudgedSearch(base=base, domain="D", source_ids=["s"], qrels=qrels, known=known)
    round_ = Maps(-np.eye(16, dtype=np.float32), np.eye(16, dtype=np.float32))
    told = []
    searches = Searches(asked, judged.ids, lessons(held, qrels), 4, lambda *now: told.append(now))
    alone = searches.scores([Fold((0, 1), 0, None)], ("RR@10",))
    turned = searches.scores([Fold((0,), 1, round_), Fold((1,), 1, round_)], ("RR@10",))
    assert alone["q2"]["RR@10"] == 1.0
    assert turned["q1"]["RR@10"] <= alone["q1"]["RR@10"]
    assert [done for done, _, _ in told] == [1, 2, 3, 4]


def test_no_question_is_embedded_again_to_be_searched_for(base, held, monkeypatch):
    qrels = {"q1": {"a": 1}, "q2": {"c": 1}}
    known = {chunk.chunk_id: identity_of("s", chunk.chunk_id, chunk) for chunk in held.chunks}
    asked = JudgedSearch(base=base, domain="D", source_ids=["s"], qrels=qrels, known=known)
    searches = Searches(asked, ["q1", "q2"], lessons(held, qrels))
    monkeypatch.setattr(FakeEmbedder, "embed_query", lambda *_: pytest.fail("embedded again"))
    assert searches.scores([Fold((0, 1), 0, None)], ("RR@10",))["q2"]["RR@10"] == 1.0


def trial(known, after=None, recall=None, adapter=True):
    """Forty questions, all .5 with the model alone; each list is laid over the first of them."""
    measures = measures_with("nDCG@10")

    def scores(ndcg, r10=()):
        laid = [dict(zip(measures, (0.5, 0.5, 0.5))) for _ in range(40)]
        for place, value in enumerate(ndcg):
            laid[place]["nDCG@10"] = value
        for place, value in enumerate(r10):
            laid[place]["R@10"] = value
        return {f"q{place}": one for place, one in enumerate(laid)}

    maps = np.eye(4, dtype=np.float32)
    flat = {place: dict.fromkeys(measures, 0.5) for place in range(40)}
    return AdapterTrial(
        ids=(),
        adapter=DomainAdapter("model", maps, maps) if adapter else None,
        measures=measures,
        before=scores([]),
        after=scores(after or []),
        known=scores(known, recall or []),
        parts=QuestionParts([list(range(20)), list(range(20, 40))], 30, 11),
        passages=(90, 45),
        folds=Folds([Fold(tuple(range(40)), 1, None)], 1, [flat, flat]),
        questions=40,
        pairs=50,
        untaught=[],
        seed=1,
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (trial([1.0] * 20), None),
        (trial([1.0] * 20, after=[0.0] * 3), None),
        (trial([], after=[1.0] * 20), None),
        (trial([1.0] * 20, adapter=False), "the model alone is best"),
        (trial([]), "it is not better beyond noise: nDCG@10 +0.0000"),
        (trial([1.0] * 5), "it is not better beyond noise: nDCG@10 +0.0625"),
        (trial([0.0] * 20), "on held-out questions it is worse: nDCG@10 -0.2500"),
        (trial([1.0] * 20, recall=[0.0] * 20), "on held-out questions it is worse: R@10 -0.2500"),
        (trial([1.0] * 20, after=[0.0] * 20), "on held-out questions with new answers it is worse: nDCG@10 -0.2500"),
    ],
)
def test_better_beyond_noise_and_nothing_lost_beyond_noise(made, said):
    assert made.refusal is None if said is None else said in (made.refusal or "")


def test_less_of_what_was_learnt_is_tried_only_where_something_is_lost():
    loses, gains, nothing = trial([1.0] * 20, after=[0.0] * 20), trial([1.0] * 20), trial([])
    assert chosen(iter([loses, nothing, gains])) is gains
    assert chosen(iter([loses, nothing])) is loses
    tries = iter([nothing, gains])
    assert (chosen(tries), next(tries)) == (nothing, gains)


def test_shortened_folds_are_ranked_by_their_own_maps(held):
    """All the way the question is turned round and its answer last; a third of the way it still points forward."""
    found = lessons(held, {"q2": {"c": 1}})
    turned = Maps(-np.eye(16, dtype=np.float32), np.eye(16, dtype=np.float32))
    folds = Folds([Fold((0,), 1, turned), Fold((), 0, None)], 1, [{0: {"RR@10": 1.0}}, {0: {"RR@10": 0.25}}])
    third = folds.shortened(0.3, None, found, ("RR@10",))
    assert third.dense == [{0: {"RR@10": 1.0}}, {0: {"RR@10": 1.0}}]
    assert third.folds[0].maps.query == pytest.approx(0.4 * np.eye(16), abs=1e-6)  # 1 + .3 * (-1 - 1)
    assert third.folds[1] == folds.folds[1]
    assert folds.shortened(1.0, None, found, ("RR@10",)).dense[1] == {0: {"RR@10": 0.25}}


def test_the_evidence_of_a_trial():
    found = evidence(trial([1.0] * 20, after=[1.0] * 10))
    assert (found["measure"], found["before"], found["after"]) == ("nDCG@10", 0.5, 0.625)
    assert found["interval"][0] < 0.125 < found["interval"][1]
    assert found["search"]["nDCG@10"]["after"] == 0.625
    assert (found["known"]["nDCG@10"]["after"], found["known"]["R@10"]["mean"]) == (0.75, 0.0)
    assert found["parts"] == {"questions": [20, 20], "groups": 30, "largest_group": 11, "cut": False}
    assert found["passages"] == {"held": 90, "judged": 45}
    assert found["dense"]["AP@10"] == {"before": 0.5, "after": 0.5}
    assert found["folds"] == [{"questions": 40, "rounds": 1}]


def test_of_a_few_questions_nothing_is_learnt():
    with pytest.raises(InvalidRequest, match="49 judged questions of this domain name passages"):
        check_learnable(asked(49), 5)
    check_learnable(asked(50), 5)


def test_more_folds_than_questions_are_refused():
    with pytest.raises(InvalidRequest, match=r"number of judged questions \(100\), got 101"):
        check_learnable(asked(100), 101)
    check_learnable(asked(100), 100)


def asked(count: int) -> JudgedPairs:
    """Judged questions, each of its own passage."""
    places = range(count)
    pairs = TrainingPairs([f"question {place}" for place in places], [[place] for place in places])
    return JudgedPairs([str(place) for place in places], pairs, [])
