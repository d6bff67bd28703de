"""A blend is learnt from judged questions, and believed only on those it was not learnt on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.engine import Engine
from context_engine.core.models import BlendTerm, Chunk, LearntBlend, Score, ScoreKind
from context_engine.errors import InvalidRequest
from context_engine.evaluation.account import Trouble
from context_engine.evaluation.blocks import to_markdown
from context_engine.evaluation.gold import Corpus
from context_engine.evaluation.learning.blend_tune import BlendTrial, blend_report, learn_blend
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.session import Session
from context_engine.learning.parts import QuestionParts

pytest.importorskip("numpy", reason="the extra 'vectors'")
pytest.importorskip("ir_measures", reason="the extra 'eval'")

ASKED = 50
Made = tuple[Session, Engine]


def candidates(query: str) -> list[Chunk]:
    """Five chunks, whose merged score and cosine are drawn from the question; the first two are of one document."""
    random = Random(query)
    found = []
    for place in range(5):
        cosine = random.random()
        scores = (
            Score(ScoreKind.WEIGHTED, 0.5 + random.random() / 2, "base"),
            Score(ScoreKind.COSINE, cosine, "mini"),
        )
        text = f"Clause {query.split()[-1]}.{place} of Harbour Bank says " + "much " * place + "of limits."
        found.append(Chunk(content=text, chunk_id=f"{query.split()[-1]}-{place}", document_id="SOP-1", scores=scores))
    return found


def nearest(chunks: Sequence[Chunk], _random: Random) -> str:
    return max(chunks, key=lambda one: one.score(ScoreKind.COSINE) or 0.0).chunk_id or ""


def anyone(chunks: Sequence[Chunk], random: Random) -> str:
    return random.choice(chunks).chunk_id or ""


@pytest.fixture(scope="module")
def bank(make_deployment: Callable[..., Any]) -> Callable[..., Made]:
    """A bank of one source, whose questions are answered by what `gold` picks of the candidates."""

    def make(gold: Callable[[Sequence[Chunk], Random], str], count: int = ASKED, domain: str = "NPA") -> Made:
        source = CallableSource(lambda query, _domain, _top_k: candidates(query), "sops")
        fields = {"settings": {"min_relevance_score": 0.0, "scope_threshold": 0.0, "dedup_method": "off"}}
        rows = {"NPA": [({"id": "sops", "type": "bank_sop"}, source)]}
        deployment = make_deployment(rows, domain_fields={"NPA": fields})
        random = Random(1)
        asked = [EvalQuestion(id=f"q{number:03}", text=f"What is limit {number}") for number in range(count)]
        session = Session(
            setup=deployment.setup,
            data_dir=deployment.data_dir,
            questions=tuple((one, domain) for one in asked),
            qrels={one.id: {gold(candidates(one.text), random): 1} for one in asked},
            corpus=Corpus(),
            counter=ApproxTokenCounter(),
        )
        return session, deployment.engine

    return make


@pytest.fixture(scope="module")
def near(bank: Callable[..., Made]) -> tuple[Session, Engine, BlendTrial, list[int]]:
    """A bank whose answers are the nearest chunks, the blend learnt of it, and the questions done."""
    session, engine = bank(nearest)
    seen: list[int] = []
    found = learn_blend(session, engine, measure="AP@10", progress=lambda done, _all, _name: seen.append(done))
    return session, engine, found, seen


def test_what_tells_answers_from_the_rest_is_learnt_and_its_evidence_stands_in_it(near: Any) -> None:
    found, seen = near[2:]
    assert found.refusal is None
    blend = found.blend
    assert (blend.measured_by, blend.cosine, blend.reranker) == ("weighted", "mini", None)
    assert max(blend.terms, key=lambda name: blend.terms[name].weight) in ("cosine", "cosine_rank")
    evidence = blend.evidence
    assert (evidence["questions"], evidence["learnt_on"], evidence["folds"]) == (ASKED, ASKED, 5)
    assert evidence["better_beyond_noise"] is True
    held_out = evidence["held_out"]["AP@10"]
    assert held_out["after"] > 0.9 > held_out["before"]
    assert list(evidence["held_out"]) == ["AP@10", "nDCG@10", "R@10"]
    assert seen == list(range(1, ASKED + 1))
    report = to_markdown(blend_report(found, title="A blend"))
    assert "better beyond noise" in report
    assert "| cosine |" in report


@pytest.mark.slow
def test_judgements_without_sense_teach_nothing_that_is_believed(bank: Callable[..., Made]) -> None:
    found = learn_blend(*bank(anyone), measure="nDCG@10")
    assert found.refusal is not None
    assert found.refusal.startswith("on held-out questions it is not better beyond noise (nDCG@10 ")
    assert found.blend.evidence["better_beyond_noise"] is False
    assert "not to be used" in to_markdown(blend_report(found, title="A blend"))


@pytest.mark.slow
def test_neither_the_order_of_the_questions_matters_nor_a_blend_that_is_in_force(near: Any) -> None:
    session, _, found, _ = near
    setup = session.setup.with_pipeline({"learnt_blend": found.blend.model_dump(mode="json")})
    turned = replace(
        session, setup=setup, questions=session.questions[::-1], qrels=dict(reversed(session.qrels.items()))
    )
    with Engine(setup.registry, lambda _domain, _spec: _source(), resolve=setup.resolver.resolve) as again:
        assert learn_blend(turned, again, measure="AP@10").blend == found.blend


def _source() -> CallableSource:
    return CallableSource(lambda query, _domain, _top_k: candidates(query), "sops")


def test_too_few_questions_are_refused(bank: Callable[..., Made]) -> None:
    with pytest.raises(InvalidRequest, match="a blend needs at least 50: judge more"):
        learn_blend(*bank(nearest, count=49), measure="nDCG@10")


def test_a_blend_is_of_one_domain(bank: Callable[..., Made]) -> None:
    session, engine = bank(nearest)
    two = (session.questions[0], (session.questions[1][0], "ORM"), *session.questions[2:])
    with pytest.raises(InvalidRequest, match="for one domain, but the judged questions are of NPA, ORM"):
        learn_blend(replace(session, questions=two), engine, measure="nDCG@10")


# -- what is believed --------------------------------------------------------------------------------------------------

BLEND = LearntBlend(measured_by="weighted", terms={"stage1": BlendTerm(weight=1.0, mean=0.5, deviation=0.25)})


def trial(gain: float, recall: float, *, troubles: tuple[Trouble, ...] = ()) -> BlendTrial:
    names = [f"q{number}" for number in range(40)]
    before = {name: {"nDCG@10": 0.5, "R@10": 0.5} for name in names}
    after = {name: {"nDCG@10": 0.5 + gain, "R@10": 0.5 + recall} for name in names}
    return BlendTrial(
        domain="NPA",
        blend=BLEND,
        measures=("nDCG@10", "R@10"),
        before=before,
        after=after,
        taught=40,
        parts=QuestionParts([list(range(20)), list(range(20, 40))], 40, 1),
        troubles=troubles,
    )


@pytest.mark.parametrize(
    ("gain", "recall", "problem"),
    [
        (0.1, 0.0, None),
        (0.1, 0.1, None),
        (0.0, 0.1, "it is not better beyond noise (nDCG@10 +0.0000"),
        (-0.1, 0.1, "it is not better beyond noise (nDCG@10 -0.1000"),
        (0.1, -0.1, "it finds less (R@10 -0.1000"),
    ],
)
def test_a_gain_beyond_noise_that_costs_no_recall_is_believed(gain: float, recall: float, problem: str | None) -> None:
    refusal = trial(gain, recall).refusal
    assert refusal is None if problem is None else problem in (refusal or "")


def test_nothing_is_believed_of_searches_that_failed() -> None:
    trouble = Trouble("sops", 3, "no answer")
    assert str(trouble) in str(trial(0.1, 0.0, troubles=(trouble,)).refusal)
