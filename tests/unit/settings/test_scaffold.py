from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from context_engine.apps.cli.config import scaffold_files, write_scaffold
from context_engine.errors import ConfigError
from context_engine.settings import find_config
from context_engine.wiring.check import check
from context_engine.wiring.setup import load_setup


def test_what_is_written_can_be_used_at_once(tmp_path: Path) -> None:
    written = write_scaffold(tmp_path / "new" / "folder")
    root = tmp_path / "new" / "folder"
    assert sorted(path.relative_to(root).as_posix() for path in written) == list(scaffold_files())
    setup = load_setup(config_dir=root, env={}, cwd=tmp_path)
    assert setup.registry.names == ("HANDBOOK",)
    report = check(find_config(root, env={}, cwd=tmp_path), env={})
    assert (report.problems, report.notices) == ((), ())


def test_every_file_says_what_its_keys_mean(tmp_path: Path) -> None:
    for path in write_scaffold(tmp_path):
        text = path.read_text()
        if path.suffix == ".yaml":
            assert text.count("#") >= 3 and (path.name == "connections.example.yaml" or yaml.safe_load(text))
        elif path.suffix == ".json":
            assert len(re.findall(r'"// ', text)) >= 5 and json.loads(text)
        else:
            assert "Meridian Harbour Bank" in text or "not the policy of any bank" in text


def test_the_sources_include_the_documents(tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    setup = load_setup(env={}, cwd=tmp_path)
    for source in setup.registry.domain("HANDBOOK").sources:
        for rule in source.documents:
            assert list((tmp_path / "documents").glob(rule.include)), rule.include


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text("mine")
    with pytest.raises(ConfigError, match=r"already holds config/rag-pipeline\.json: move them away"):
        write_scaffold(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "config/rag-pipeline.json"]
    assert (tmp_path / "config/rag-pipeline.json").read_text() == "mine"


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written to"):
        write_scaffold(tmp_path)
