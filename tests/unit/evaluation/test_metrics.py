"""The measures, with their arithmetic written out, against what ir_measures says."""

import ast
from math import log2
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from context_engine.errors import InvalidRequest, MissingExtra
from context_engine.evaluation import metrics
from context_engine.evaluation.metrics import cutoff, mean, measured, read_measures

QRELS = {"q1": {"a": 1, "b": 1, "c": 1}, "q2": {"d": 1}, "q3": {"e": 2, "f": 1}}
RANKINGS = {"q1": ["a", "x", "b", "y"], "q3": ["f", "e"], "not judged": ["z"]}


def test_recall_counts_the_gold_that_is_found():
    scores = measured(RANKINGS, QRELS, read_measures(["R@1", "R@3"]))
    assert scores["q1"] == pytest.approx({"R@1": 1 / 3, "R@3": 2 / 3})
    assert scores["q3"] == pytest.approx({"R@1": 1 / 2, "R@3": 1.0})


def test_average_precision_divides_by_all_gold():
    scores = measured(RANKINGS, QRELS, read_measures(["MAP@10"]))
    assert scores["q1"]["AP@10"] == pytest.approx((1 / 1 + 2 / 3) / 3)


def test_ndcg_discounts_by_rank_and_weighs_by_grade():
    scores = measured(RANKINGS, QRELS, read_measures(["nDCG@10"]))
    ideal = 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert scores["q1"]["nDCG@10"] == pytest.approx((1 / log2(2) + 1 / log2(4)) / ideal)
    assert scores["q3"]["nDCG@10"] == pytest.approx((1 / log2(2) + 2 / log2(3)) / (2 / log2(2) + 1 / log2(3)))


def test_reciprocal_rank_is_of_the_first_gold():
    rankings = {"q1": ["x", "y", "c"], "q2": ["d"], "q3": ["x"] * 1}
    scores = measured(rankings, QRELS, read_measures(["MRR@10"]))
    assert [scores[name]["RR@10"] for name in QRELS] == pytest.approx([1 / 3, 1.0, 0.0])


def test_a_question_without_a_ranking_counts_nothing_and_is_in_the_mean():
    scores = measured(RANKINGS, QRELS, ("R@3",))
    assert set(scores) == set(QRELS)
    assert scores["q2"]["R@3"] == 0.0
    assert mean(scores, "R@3") == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert mean(scores, "R@3", ["q3"]) == 1.0
    assert mean(scores, "R@3", []) == 0.0


def test_an_empty_ranking_counts_nothing():
    assert measured({"q2": []}, {"q2": {"d": 1}}, ("R@3", "nDCG@10")) == {"q2": {"R@3": 0.0, "nDCG@10": 0.0}}


def test_the_order_given_is_the_ranking():
    many = [f"x{number}" for number in range(300)]
    assert measured({"q2": [*many, "d"]}, {"q2": {"d": 1}}, ("RR",))["q2"]["RR"] == pytest.approx(1 / 301)


def test_measures_by_their_other_names():
    assert read_measures(["MAP@10", "mrr@5", "ndcg@3", "recall@8", "Success@1", "AP@10"]) == (
        "AP@10", "RR@5", "nDCG@3", "R@8", "Success@1",
    )  # fmt: skip
    assert [cutoff(name) for name in ("R@8", "RR", "nDCG@10")] == [8, 1, 10]


@pytest.mark.parametrize("name", ["Goodness@10", "R@", "R@ten", "", "__import__('os')"])
def test_what_is_no_measure_is_refused(name):
    with pytest.raises(InvalidRequest, match="unknown measure"):
        read_measures([name])


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match=r"context-engine\[eval\]"):
        metrics.read_measures(["R@8"])


@pytest.mark.parametrize("name", ["R@0", "nDCG@0", "Success@0"])
def test_a_measure_that_looks_at_no_place_is_refused(name):
    with pytest.raises(InvalidRequest, match="has a cutoff of 0"):
        read_measures([name])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Goodness", "cannot compute 'Goodness' on this machine: it broke"),
        ("P", "unknown measure 'P'"),
        ("NumRet", "'NumRet' is a count"),
    ],
)
def test_what_cannot_be_computed_is_refused_beforehand(name, said, monkeypatch):
    if name == "Goodness":
        library = SimpleNamespace(parse_measure=str, iter_calc=Mock(side_effect=OSError("it\nbroke")))
        monkeypatch.setattr(metrics, "_library", lambda: library)
    with pytest.raises(InvalidRequest, match=said):
        read_measures([name])


def test_letters_may_be_small():
    assert read_measures(["r@10", "p@5", "ap", "success@1"]) == ("R@10", "P@5", "AP", "Success@1")


def test_what_was_rejected_is_told_from_what_was_never_judged():
    """Of a, x, b, y the first and third are gold, x was rejected, y nobody has judged."""
    names = read_measures(["Judged@4", "R@4", "nDCG@4"])
    blind = measured(RANKINGS, {"q1": QRELS["q1"]}, names)
    scores = measured(RANKINGS, {"q1": QRELS["q1"]}, names, {"q1": {"x": -1}, "other": {"y": 0}})
    assert blind["q1"]["Judged@4"] == 2 / 4
    assert scores["q1"] == {**blind["q1"], "Judged@4": 3 / 4}


def test_ids_may_hold_blanks_and_questions_need_no_numbers():
    """gdeval, which computes ERR, reads columns and numbers; grade 2 of 4: (2^2 - 1) / 16."""
    scores = measured({"q one": ["a b", "c"]}, {"q one": {"a b": 2}}, read_measures(["ERR@5", "RR"]))
    assert scores["q one"] == pytest.approx({"ERR@5": 3 / 16, "RR": 1.0}, abs=1e-4)


def test_a_measure_is_read_where_ast_holds_no_numbers_of_its_own(monkeypatch):
    """Python 3.14 has no `ast.Num`, by which ir_measures reads what stands in brackets, and behind the @ too."""
    gone = SimpleNamespace(**{name: value for name, value in vars(ast).items() if name not in ("Num", "Str")})
    monkeypatch.setattr("ir_measures.util.ast", gone)
    assert read_measures(["R@10", "MAP@8", "SetF"]) == ("R@10", "AP@8", "SetF")
    assert measured({"q": ["a"]}, {"q": {"a": 1}}, ("R@10",)) == {"q": {"R@10": 1.0}}
    with pytest.raises(InvalidRequest, match="on this Python: leave out the brackets and their content"):
        read_measures(["nDCG(dcg='exp-log2')@10"])
