"""A set-up under test: what is typed is read by its key, and shown where it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.errors import ConfigError, EmbedderError
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import Variant, open_with_models, read_variant, with_variant
from context_engine.wiring.models import Models


def test_a_value_is_read_by_its_key(demo_session: Session) -> None:
    variant = read_variant(["stage2_top_k=3", "exact_first=off"], demo_session.setup)
    values = with_variant(demo_session.setup, variant).resolver.base().values
    assert (values.stage2_top_k, values.exact_first) == (3, False)


@pytest.mark.parametrize("typed", ["stage2_top_k=many", "min_relevance_score=1.5", "dedup_method=sometimes"])
def test_a_value_that_cannot_be_used_is_shown_as_it_was_typed(demo_session: Session, typed: str) -> None:
    key, _, value = typed.partition("=")
    with pytest.raises(ConfigError, match=f"{key}.*got '?{value}'?$") as told:
        read_variant([typed], demo_session.setup)
    assert "${" not in str(told.value)


class SlowModel:
    """An embedder whose model is loaded when its dimension is read, and that may be missing."""

    model_id = "slow"

    def __init__(self, *, missing: bool = False) -> None:
        self.missing = missing
        self.loaded = False

    @property
    def dimension(self) -> int:
        self.loaded = True
        if self.missing:
            raise EmbedderError("no such model")
        return 2

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]


@pytest.mark.parametrize("missing", [False, True])
def test_the_embedding_model_is_loaded_before_the_first_question(
    demo_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, missing: bool
) -> None:
    model = SlowModel(missing=missing)
    monkeypatch.setattr(Models, "embedder", lambda _: model)
    engine, _ = open_with_models(demo_session.setup, Variant(), tmp_path)
    with engine:
        assert model.loaded
