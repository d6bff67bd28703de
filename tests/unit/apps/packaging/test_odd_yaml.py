"""Whatever stands in a YAML file, the check answers with findings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.apps.packaging import check_files
from context_engine.apps.packaging.findings import PluginReport, open_yaml

FILES = (
    "manifest.yaml",
    "provider/context_engine.yaml",
    "tools/search.yaml",
    "group/retrieval.yaml",
    "endpoints/retrieval.yaml",
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in steps:
        yield from places(child, (*way, step))


def replaced(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    copy = value.copy()
    copy[way[0]] = replaced(value[way[0]], way[1:], new)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_any_value_at_any_place_is_answered_with_findings(staged: dict[str, bytes], file: str) -> None:
    top = open_yaml(PluginReport(staged), file)
    assert top is not None
    whole = top.value
    ways = list(places(whole))

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(way=st.sampled_from(ways), new=VALUES)
    def holds(way: tuple[Any, ...], new: Any) -> None:
        text = json.dumps(replaced(whole, way, new))
        for one in check_files({**staged, file: text.encode()}):
            assert one.rule and one.message

    holds()
