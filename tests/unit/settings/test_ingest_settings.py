"""`ingest.json` and the variables that go over it."""

import json

import pytest

from context_engine.core.models import IngestSettings
from context_engine.errors import ConfigError
from context_engine.settings import find_config
from context_engine.wiring.check import check
from context_engine.wiring.report import show
from context_engine.wiring.setup import load_setup


@pytest.fixture
def setup(tmp_path):
    """Write `ingest.json` and load it."""

    def load(content, env=None):
        (tmp_path / "config").mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "config/ingest.json").write_text(text)
        return load_setup(env=env or {}, cwd=tmp_path)

    return load


def test_without_a_file_the_defaults_hold(tmp_path):
    assert load_setup(env={}, cwd=tmp_path).config.ingest == IngestSettings()


def test_values_come_from_the_file_its_variables_and_the_environment_over_it(setup):
    written = {"file_timeout_s": "${SECONDS:-90}", "file_memory_mb": 256, "hidden_cells": "read", "// why": "slow disk"}
    env = {"CONTEXT_ENGINE_FILE_MEMORY_MB": "1024"}
    loaded = setup(written, env)
    assert loaded.config.ingest == IngestSettings(file_timeout_s=90.0, file_memory_mb=1024, hidden_cells="read")
    assert loaded.config.notices == ()
    shown = {one.key: (one.value, one.origin) for one in show(loaded)}
    assert shown["file_timeout_s"] == (90.0, "config/ingest.json")
    assert shown["file_memory_mb"] == (1024, "CONTEXT_ENGINE_FILE_MEMORY_MB")
    assert shown["file_max_chars"] == (100_000_000, "default")


def test_a_choice_may_come_from_a_variable(setup):
    loaded = setup({"hidden_cells": "${CELLS}"}, env={"CELLS": "read"})
    assert loaded.config.ingest.hidden_cells == "read"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"file_timeout": 3}, "config/ingest.json: file_timeout: unknown key. Did you mean 'file_timeout_s'?"),
        ({"file_timeout_s": 0}, "file_timeout_s: must be a number"),
        ({"file_memory_mb": True}, "file_memory_mb: must be"),
        ({"hidden_cells": "show"}, "hidden_cells: must be one of"),
        ({"stage1_top_k": 40}, "stage1_top_k: is a setting of the pipeline: set it in rag-pipeline.json"),
        ("[1]", "must hold keys"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(setup, tmp_path, content, said):
    with pytest.raises(ConfigError) as error:
        setup(content)
    assert said in str(error.value)
    report = check(find_config(env={}, cwd=tmp_path), env={})
    assert [str(one) for one in report.problems] == [str(error.value)]


def test_a_misspelt_variable_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="CONTEXT_ENGINE_FILE_TIMEOUT_S"):
        load_setup(env={"CONTEXT_ENGINE_FILE_TIMOUT_S": "3"}, cwd=tmp_path)
