"""`config check`: what would refuse a search is said before there is one, in the file where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.settings.paths import find_config
from context_engine.wiring.check import CheckReport, check

MANIFEST = """\
version: {version}
domain: {domain}
sources:
  - {{id: {source}, type: bank_sop, adapter: dify, connection: dify, dataset_ids: [d]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/npa.yaml").write_text(MANIFEST.format(version=1, domain="NPA", source="sops"))
    (tmp_path / "config/connections.yaml").write_text("dify: {base_url: 'http://127.0.0.1:9/v1', api_key: '${KEY}'}\n")
    return tmp_path


def checked(folder: Path, **variables: str) -> CheckReport:
    env = {"HOME": str(folder), "KEY": "dataset-of-nobody", **variables}
    return check(find_config(env=env, cwd=folder), env=env)


def problems(folder: Path, **variables: str) -> list[str]:
    return [str(one) for one in checked(folder, **variables).problems]


def test_a_setting_of_sources_names_those_of_each_domain(folder: Path) -> None:
    (folder / "config/rag-pipeline.json").write_text('{"sources": ["sop"]}')
    found = problems(folder)
    assert "config/rag-pipeline.json: sources: domain 'NPA' has no source 'sop'. Did you mean 'sops'?" in found


def test_a_connection_that_cannot_be_read_is_no_unknown_one(folder: Path) -> None:
    (folder / "config/connections.yaml").write_text("dify: {base_url: 'http://127.0.0.1:9/v1', tiemout_s: 3}\n")
    found = problems(folder)
    assert any("tiemout_s" in one for one in found)
    assert not any("unknown connection" in one for one in found)


def test_a_choice_in_quotes_is_to_be_written_without(folder: Path) -> None:
    (folder / "manifests/npa.yaml").write_text(MANIFEST.format(version="'1'", domain="NPA", source="sops"))
    (found,) = problems(folder)
    assert found.endswith("must be one of 1, got '1'. Write it without quotes.")


def test_a_pattern_of_a_mask_is_tried_where_nothing_is_masked_yet(folder: Path) -> None:
    (folder / "config/rag-pipeline.json").write_text('{"privacy": {"mask_patterns": {"staff": "[a-", "desk": "DSK"}}}')
    found = problems(folder)
    assert any(one.startswith("config/rag-pipeline.json: mask_patterns.staff: is not a regular") for one in found)


def test_a_list_for_a_text_is_not_to_be_put_in_quotes(folder: Path) -> None:
    manifest = MANIFEST.format(version=1, domain="NPA", source="sops")
    (folder / "manifests/npa.yaml").write_text(manifest.replace("dify,", "local, documents: [{include: ['*.md']}],", 1))
    assert any(one.endswith("documents.0.include: must be text, got a list") for one in problems(folder))


def with_jobs_in(folder: Path, base_url: str) -> None:
    (folder / "config/rag-pipeline.json").write_text('{"jobs_connection": "jobs"}')
    with (folder / "config/connections.yaml").open("a") as file:
        file.write(f"jobs: {{base_url: {base_url!r}}}\n")


def test_the_connection_of_the_jobs_counts_as_used(folder: Path) -> None:
    with_jobs_in(folder, "postgresql://db.bank.example/jobs")
    assert not any("jobs" in each for each in problems(folder))
    assert "connections.jobs" not in [notice.subject for notice in checked(folder).notices]


def test_the_jobs_are_not_kept_by_a_server_that_is_no_database(folder: Path) -> None:
    with_jobs_in(folder, "https://dify.bank.example/v1")
    assert any("must have base_url postgresql://HOST:PORT/DATABASE to keep jobs" in each for each in problems(folder))


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"URL": "redis://127.0.0.1/0"}, "CONTEXT_ENGINE_CACHE_KEY: has 0 characters"),
        ({"URL": "http://127.0.0.1", "KEY": 32 * "k"}, "CONTEXT_ENGINE_CACHE_URL: must begin with"),
    ],
)
def test_a_cache_that_no_process_could_use_is_named(folder: Path, variables: dict[str, str], problem: str) -> None:
    pytest.importorskip("redis")
    found = problems(folder, **{f"CONTEXT_ENGINE_CACHE_{name}": value for name, value in variables.items()})
    assert [one for one in found if one.startswith(problem)]


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:5O335/bank", "bolt://127.0.0.1:768x", "neo4j://127.0.0.1:0"])
def test_a_port_is_a_number(folder: Path, url: str) -> None:
    (folder / "config/connections.yaml").write_text(f"kept: {{base_url: '{url}'}}\n")
    assert any("connections.yaml: kept.base_url" in one for one in problems(folder))


def test_an_unknown_connection_of_the_jobs_is_named_with_its_file_and_key(folder: Path) -> None:
    (folder / "config/rag-pipeline.json").write_text('{"jobs": {"jobs_connection": "dfy"}}')
    assert "config/rag-pipeline.json: jobs_connection: unknown connection 'dfy'. Did you mean 'dify'?" in problems(
        folder
    )
