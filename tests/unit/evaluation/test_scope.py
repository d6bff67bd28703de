"""The scope threshold: counting written out, and what is shipped."""

from collections import Counter

import pytest

from context_engine.core.models import SearchRequest
from context_engine.errors import InvalidRequest
from context_engine.evaluation.questions import EvalQuestion, read_questions
from context_engine.evaluation.scope import OUT_OF_SCOPE, best_signals, calibrate, scope_report
from context_engine.wiring.build import build_engine

INSIDE = [("a", 0.9), ("b", 0.5), ("c", 0.3), ("d", 0.2)]
OUTSIDE = [("w", 0.0), ("x", 0.1), ("y", 0.3), ("z", 0.6)]


def test_the_trade_off_is_counted():
    found = calibrate(INSIDE, OUTSIDE, current=0.15, keep=0.75)
    assert found.current == (0.15, 4 / 4, 2 / 4)
    assert found.chosen == (0.3, 3 / 4, 2 / 4)
    by_threshold = {one.threshold: one for one in found.table}
    assert by_threshold[0.0] == (0.0, 1.0, 0.0)
    assert by_threshold[0.35] == (0.35, 2 / 4, 3 / 4)
    assert by_threshold[1.0] == (1.0, 0.0, 1.0)


def test_separation_is_the_share_of_pairs_in_order():
    """a beats 4, b beats 3, c beats 2 and ties 1, d beats 2, of 16 pairs."""
    assert calibrate(INSIDE, OUTSIDE, current=0.15).separation == pytest.approx((4 + 3 + 2.5 + 2) / 16)


def test_to_keep_all_the_threshold_is_the_weakest_question():
    assert calibrate(INSIDE, OUTSIDE, current=0.15, keep=1.0).chosen.threshold == 0.2


@pytest.mark.parametrize(("inside", "outside", "keep"), [([], OUTSIDE, 0.9), (INSIDE, [], 0.9), (INSIDE, OUTSIDE, 0.0)])
def test_what_cannot_be_calibrated(inside, outside, keep):
    with pytest.raises(InvalidRequest):
        calibrate(inside, outside, current=0.15, keep=keep)


def test_two_hundred_questions_of_everyday_life_are_shipped():
    questions = read_questions(OUT_OF_SCOPE)
    assert len({one.text for one in questions}) == 200
    topics = Counter(one.labels["topic"] for one in questions)
    assert len(topics) >= 12
    assert min(topics.values()) >= 5


def test_the_signal_is_what_the_engine_decides_by(demo_session):
    texts = {"in": "Who calls a meeting of the cooking club?", "out": "What limit has the bread oven?"}
    asked = [(EvalQuestion(id=name, text=text), "NPA") for name, text in texts.items()]
    with build_engine(demo_session.setup, data_dir=demo_session.data_dir) as engine:
        signals = dict(best_signals(engine, asked))
        for name, signal in signals.items():
            assert 0.0 < signal < 0.999
            for limit, decision in ((signal, "answered"), (signal + 0.001, "out_of_scope")):
                overrides = {"scope_threshold": limit, "min_relevance_score": 0.0}
                found = engine.search(SearchRequest(query=texts[name], domain="NPA", overrides=overrides))
                assert found.decision == decision, (name, limit)


def test_the_report_names_the_hardest_questions():
    report = scope_report(
        calibrate(INSIDE, OUTSIDE, current=0.15), title="S", texts={"d": "weak one", "z": "strong one"}
    )
    captions = {section.title: section.blocks[0].caption for section in report.sections[:2]}
    assert "kept" in captions["Trade-off"]
    assert "kept" not in captions["Best signal of each question"]
    tables = {section.title: section.blocks[-1] for section in report.sections}
    assert tables["In scope with the weakest signal"].rows[0] == ["d", "weak one", "0.200"]
    assert tables["Out of scope with the strongest"].rows[0] == ["z", "strong one", "0.600"]
