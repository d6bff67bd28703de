"""The scope threshold by the kind of question."""

from __future__ import annotations

import pytest

from context_engine.core.models import EffectiveSettings, Settings
from context_engine.wiring.models import by_kind

KINDS = {"code": 0.2, "parts": 0.3}


@pytest.mark.parametrize(
    ("query", "threshold"),
    [
        ("What does NPA-001 say?", 0.2),
        ("What does section 4.2.1(b) say?", 0.2),
        ("Who signs a product and when must Compliance be told?", 0.3),
        ("Who signs a product?", "auto"),
    ],
)
def test_a_kind_has_its_threshold_where_that_is_automatic(query, threshold):
    settings = by_kind(EffectiveSettings(values=Settings(scope_by_kind=KINDS)), query)
    assert settings.values.scope_threshold == threshold
    assert settings.origins.get("scope_threshold") == (None if threshold == "auto" else "scope_by_kind")


@pytest.mark.parametrize("value", [0.5, None])
def test_a_threshold_that_is_set_stays(value):
    given = EffectiveSettings(values=Settings(scope_by_kind=KINDS, scope_threshold=value))
    assert by_kind(given, "What does NPA-001 say?") is given


def test_without_thresholds_nothing_changes():
    given = EffectiveSettings()
    assert by_kind(given, "What does NPA-001 say?") is given
