"""The demo bank for evaluation: built once a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from context_engine import demo
from context_engine.core.context import ApproxTokenCounter
from context_engine.evaluation.evaluate import Compared, evaluate
from context_engine.evaluation.gold import Corpus, GoldHit, Identity
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.score import Scored
from context_engine.evaluation.session import Session, open_session
from context_engine.evaluation.variant import Variant, read_variant
from context_engine.wiring.setup import load_setup


@pytest.fixture(scope="session")
def demo_session(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The demo's forty questions with their answers."""
    home = tmp_path_factory.mktemp("evaluation")
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(home)}, cwd=home)
    return open_session(setup, demo.data_dir(demo_data), queries=demo.QUESTIONS, qrels=None, as_of=date(2026, 3, 2))


@pytest.fixture(scope="session")
def few_questions(demo_session: Session) -> Session:
    """Every third question of the demo; all domains are asked."""
    asked = demo_session.questions[::3]
    names = {question.id for question, _ in asked}
    kept = {name: gold for name, gold in demo_session.qrels.items() if name in names}
    return replace(demo_session, questions=asked, qrels=kept)


@pytest.fixture(scope="session")
def demo_compared(demo_session: Session) -> Compared:
    """The demo as configured, beside the same without authority."""
    baseline = read_variant(["authority_weight=0"], demo_session.setup)
    return evaluate(demo_session, Variant(), baseline=baseline, measures=("R@8", "AP@10", "nDCG@10"))


@pytest.fixture
def compared() -> Callable[..., Compared]:
    """Makes a comparison of scores: by question those of ours and of the baseline; None for no baseline."""

    def make(scores: Mapping[str, tuple[float, float | None]], measure: str = "nDCG@10") -> Compared:
        session = Session(
            setup=cast(Any, None),
            data_dir=Path(),
            questions=tuple((EvalQuestion(id=name, text=f"text of {name}"), "NPA") for name in scores),
            qrels={name: {"gold": 1} for name in scores},
            corpus=Corpus(),
            counter=ApproxTokenCounter(),
        )

        def scored(name: str, place: int) -> Scored:
            held = {question: {measure: cast(float, pair[place])} for question, pair in scores.items()}
            rankings = {question: ["gold"] for question in scores}
            places = {question: [("gold", 1.0)] for question in scores}
            return Scored(name=name, measures=(measure,), rankings=rankings, places=places, scores=held)

        alone = any(pair[1] is None for pair in scores.values())
        baseline = None if alone else scored("before", 1)
        return Compared(session=session, ours=scored("ours", 0), baseline=baseline, groups={}, primary=measure)

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a text to a file of that name and returns the path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def hit() -> Callable[..., GoldHit]:
    """A hit with a chunk id, further names and copies."""

    def make(chunk_id: str, *names: str, copies: tuple[Any, ...] = (), score: float = 1.0, tier: int = 2) -> GoldHit:
        own = Identity("s", chunk_id, frozenset({chunk_id, *names}), tier=tier)
        return GoldHit(own, score, tuple(one.identity for one in copies))

    return make
