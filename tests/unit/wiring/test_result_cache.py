"""The cache that a configuration asks for: its secrets, its room, and who shares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.result_caches import MemoryCache, TieredCache
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import ConfigError, MissingVariable
from context_engine.secrecy import hide
from context_engine.settings.environment_secrets import CACHE_KEY, CACHE_URL, read_shared_cache
from context_engine.settings.layers import environment_layer, environment_notices
from context_engine.wiring.build import open_result_cache
from context_engine.wiring.setup import Setup, load_setup

KEY = "fictitious-key-of-a-test-4711-0815"
SHARED = {CACHE_URL: "redis://:pa55-of-a-test@127.0.0.1:1/0", CACHE_KEY: KEY}


def setup_in(folder: Path, *, address: str = "https://dify.bank.example", **env: str) -> Setup:
    (folder / "config").mkdir(exist_ok=True)
    connections = {"bank": {"base_url": address, "api_key": "${KEY}"}}
    (folder / "config/connections.yaml").write_text(json.dumps(connections))
    return load_setup(
        config_dir=folder, env={"HOME": str(folder), "KEY": "fictitious-key-of-dify-1", **env}, cwd=folder
    )


def names_of(setup: Setup) -> Any:
    cache = open_result_cache(setup, SystemClock())
    assert isinstance(cache, TieredCache)
    return cache._shared._seal.name("k")


def test_without_an_address_answers_are_kept_in_the_process(tmp_path):
    cache = open_result_cache(setup_in(tmp_path, CONTEXT_ENGINE_CACHE_MEMORY_MB="3"), SystemClock())
    assert isinstance(cache, MemoryCache)
    assert cache._most_bytes == 3 * 2**20


def test_the_settings_of_the_guide_are_valid(tmp_path):
    guide = Path(__file__).parents[3].joinpath("docs/guides/cache.md").read_text(encoding="utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text(guide.partition("```json\n")[2].partition("```")[0])
    values = load_setup(config_dir=tmp_path, env={"HOME": str(tmp_path)}, cwd=tmp_path).resolver.base().values
    assert (values.cache_ttl_s, values.cache_unversioned_ttl_s, values.cache_memory_mb) == (300, 30, 128)


def test_address_and_key_come_from_variables_or_files_and_are_hidden(tmp_path):
    assert read_shared_cache({CACHE_KEY: "short"}, tmp_path) is None
    (tmp_path / "key").write_text(f"{KEY}\n")
    shared = read_shared_cache({**SHARED, CACHE_KEY: "${file:key}"}, tmp_path)
    assert shared == (SHARED[CACHE_URL], KEY.encode())
    assert "pa55" not in repr(shared) and KEY not in repr(shared)
    assert KEY not in hide(f"the key {KEY}") and "pa55" not in hide("at pa55-of-a-test")
    with pytest.raises(MissingVariable, match="cannot be read"):
        read_shared_cache({**SHARED, CACHE_KEY: "${file:missing}"}, tmp_path)


@pytest.mark.parametrize("key", ["", "kurz-und-schlecht"])
def test_a_shared_cache_without_a_good_key_is_refused(tmp_path, key):
    with pytest.raises(ConfigError, match=rf"{CACHE_KEY}: has {len(key)} characters, .* at least 32 random") as error:
        open_result_cache(setup_in(tmp_path, **{**SHARED, CACHE_KEY: key}), SystemClock())
    assert "kurz" not in str(error.value)


def test_an_unusable_address_is_refused_by_its_name(tmp_path):
    pytest.importorskip("redis", reason="the extra 'redis'")
    with pytest.raises(ConfigError, match=f"{CACHE_URL}: must begin with"):
        open_result_cache(setup_in(tmp_path, **{**SHARED, CACHE_URL: "mysql://db"}), SystemClock())


def test_only_processes_that_reach_the_same_servers_share_answers(tmp_path):
    pytest.importorskip("redis", reason="the extra 'redis'")
    here = names_of(setup_in(tmp_path, **SHARED))
    assert names_of(setup_in(tmp_path, **{**SHARED, "KEY": "fictitious-key-of-dify-2"})) == here
    assert names_of(setup_in(tmp_path, address="https://test.bank.example", **SHARED)) != here


def test_the_variables_are_no_settings_and_no_unknown_ones():
    assert environment_layer(SHARED) == {} and environment_notices(SHARED) == ()
