"""The key of pseudonyms: a variable that holds it or names its file, and is hidden everywhere."""

from __future__ import annotations

import pytest

from context_engine.errors import ConfigError, MissingVariable
from context_engine.secrecy import MASK, hide
from context_engine.settings.environment_secrets import PRIVACY_KEY, read_privacy_key
from context_engine.settings.layers import environment_layer, environment_notices


def test_the_key_is_the_variable_or_the_file_it_names(tmp_path):
    assert read_privacy_key({}, tmp_path) is None
    assert read_privacy_key({PRIVACY_KEY: "kHt5-2wQz-81Lm-x0Pv"}, tmp_path) == b"kHt5-2wQz-81Lm-x0Pv"
    (tmp_path / "key").write_text("aB3dE5fG7hJ9kL1mN3\n")
    assert read_privacy_key({PRIVACY_KEY: "${file:key}"}, tmp_path) == b"aB3dE5fG7hJ9kL1mN3"
    assert hide("the key aB3dE5fG7hJ9kL1mN3") == f"the key {MASK}"


def test_a_key_that_cannot_be_used_is_said_without_it(tmp_path):
    with pytest.raises(ConfigError, match=r"CONTEXT_ENGINE_PRIVACY_KEY: has 6 characters") as error:
        read_privacy_key({PRIVACY_KEY: "kurzes"}, tmp_path)
    assert "kurzes" not in str(error.value)
    with pytest.raises(MissingVariable, match="cannot be read"):
        read_privacy_key({PRIVACY_KEY: "${file:missing}"}, tmp_path)


def test_the_variable_is_no_setting_and_no_unknown_one():
    env = {PRIVACY_KEY: "0123456789abcdef"}
    assert environment_layer(env) == {} and environment_notices(env) == ()
    with pytest.raises(ConfigError, match="Did you mean 'CONTEXT_ENGINE_PRIVACY_KEY'"):
        environment_layer({"CONTEXT_ENGINE_PRIVACY_KEYS": "x"})
