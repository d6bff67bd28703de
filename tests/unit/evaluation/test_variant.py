"""A set-up under test: what is typed is read by its key, and shown where it cannot be used."""

from __future__ import annotations

import pytest

from context_engine.errors import ConfigError
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import read_variant, with_variant


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
