from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import GROUPS, SearchSettings, Settings
from context_engine.settings import Layer, Setting, effective_settings
from context_engine.settings.files import Interpolator
from context_engine.settings.layers import call_layer, config_layer, environment_layer

NAMES = ("call", "pipeline", "persona", "domain", "environment", "seeds", "files")
KEYS = ("stage1_top_k", "stage2_top_k", "min_chunks")
ROWS = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 1000))


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, ROWS)))
def test_each_key_comes_from_the_highest_layer_that_has_it(rows: dict[str, dict[str, int]]) -> None:
    layers: dict[str, Layer] = {
        name: {key: Setting(value, name) for key, value in row.items()} for name, row in rows.items()
    }
    effective = effective_settings(**layers)
    for key in KEYS:
        highest = next((name for name in NAMES if key in rows[name]), None)
        if highest is None:
            assert key not in effective.origins and getattr(effective.values, key) == getattr(Settings(), key)
        else:
            assert (effective.origins[key], getattr(effective.values, key)) == (highest, rows[highest][key])


@given(
    st.sampled_from(list(SearchSettings.model_fields)), st.text(max_size=20) | st.integers() | st.floats() | st.none()
)
def test_a_value_is_refused_with_its_key_or_is_one_that_settings_take(key: str, value: object) -> None:
    from context_engine.errors import InvalidRequest

    try:
        layer = call_layer({key: value})
    except InvalidRequest as error:
        assert repr(key) in str(error)
    else:
        weights = {"relevance_weight": 0.0, "authority_weight": 0.0}  # together at most 1
        assert getattr(Settings.model_validate({**weights, key: value}), key) == layer[key].value


@given(st.sets(st.sampled_from(list(Settings.model_fields))), st.data())
def test_a_file_says_the_same_flat_in_groups_and_mixed(keys: set[str], data: st.DataObject) -> None:
    values = Settings(relevance_weight=0.1, authority_weight=0.2).model_dump()
    flat = {key: values[key] for key in keys}
    nested = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()
    mixed = {key: value for key, value in flat.items() if key not in nested}
    for name, group in GROUPS.items():
        mixed[name] = {key: flat[key] for key in nested & group.model_fields.keys()}
    assert config_layer(mixed, "f", file="f") == config_layer(flat, "f", file="f")


@given(st.integers(1, 1000))
def test_a_number_in_the_environment_is_the_number_in_a_call(value: int) -> None:
    env = environment_layer({"CONTEXT_ENGINE_STAGE1_TOP_K": str(value)})
    assert env["stage1_top_k"].value == call_layer({"stage1_top_k": value})["stage1_top_k"].value


@given(st.recursive(st.text(max_size=8) | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_escaped_text_comes_back_as_it_was(value: object) -> None:
    from pathlib import Path

    def escaped(one: object) -> object:
        if isinstance(one, list):
            return [escaped(child) for child in one]
        return one.replace("${", "$${") if isinstance(one, str) else one

    assert Interpolator({}, Path(), "f").fill(escaped(value)) == value
