"""The demo bank for evaluation: built once a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from context_engine import demo
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.evaluate import evaluate
from context_engine.evaluation.gold import GoldHit, Identity
from context_engine.evaluation.session import Session, open_session
from context_engine.evaluation.variant import Variant, read_variant
from context_engine.wiring import load_setup


@pytest.fixture(scope="session")
def demo_session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The demo's forty questions with their answers."""
    home = tmp_path_factory.mktemp("evaluation")
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(home)}, cwd=home)
    place = demo.ensure_base(home / "data", setup.registry)
    return open_session(setup, place, queries=demo.QUESTIONS, qrels=None, as_of=date(2026, 3, 2))


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
