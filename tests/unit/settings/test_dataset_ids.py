"""Dataset ids written into a manifest or a stage file: everything else stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from context_engine.errors import ConfigError
from context_engine.settings.dataset_ids import with_dataset_ids

A, B = "73021369-ad4a-5dc3-9f0c-322026b7fb04", "54f68660-3fb6-5316-b30a-5a97cf90cd3c"
MANIFEST = f"""\
version: 1
domain: NPA   # approvals
sources:
  - id: sops  # the procedures
    type: bank_sop
    adapter: dify
    documents: [{{include: "sops/**", doc_type: sop_document}}]
  - type: system_of_record
    id: "register"
    adapter: dify
  - id: web
    type: general_web
    dataset_ids: [{A}]
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "npa.yaml"
    path.write_text(MANIFEST)
    return path


def test_each_source_gets_its_id_on_a_line_below_its_own(manifest: Path) -> None:
    text = with_dataset_ids(manifest, {"sops": A, "register": B})
    assert text == MANIFEST.replace("# the procedures\n", f"# the procedures\n    dataset_ids: [{A}]\n").replace(
        'id: "register"\n', f'id: "register"\n    dataset_ids: [{B}]\n'
    )


def test_an_id_that_is_there_stays_and_a_source_of_another_file_is_left_out(manifest: Path) -> None:
    assert with_dataset_ids(manifest, {"web": B, "elsewhere": B}) == MANIFEST


def test_a_list_without_an_indent(tmp_path: Path) -> None:
    path = tmp_path / "npa.yaml"
    path.write_text("domain: NPA\nsources:\n- id: sops\n  adapter: dify")
    assert with_dataset_ids(path, {"sops": A}) == (
        f"domain: NPA\nsources:\n- id: sops\n  dataset_ids: [{A}]\n  adapter: dify\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "sources: [{id: sops, adapter: dify}]\n",
        '{"sources": [{"id": "sops"}]}',
        "sources:\n  - id: sops\n    dataset_ids: []\n",
    ],
)
def test_a_file_with_no_line_for_it_is_refused_with_the_id(tmp_path: Path, text: str) -> None:
    path = tmp_path / "npa.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"by hand \\(sops: {A}\\)"):
        with_dataset_ids(path, {"sops": A})


def test_a_new_stage_file(tmp_path: Path) -> None:
    assert with_dataset_ids(tmp_path / "test.yaml", {"sops": A}) == f'dataset_ids:\n  sops: ["{A}"]\n'


def test_a_stage_file_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(
        f'dataset_ids:  # of the test workspace\n    web: ["{A}"]\nconnections:\n  dify: {{timeout_s: 5}}\n'
    )
    text = with_dataset_ids(path, {"sops": B, "web": B})
    assert yaml.safe_load(text) == {
        "dataset_ids": {"sops": [B], "web": [A]},
        "connections": {"dify": {"timeout_s": 5}},
    }
    assert text.startswith(f'dataset_ids:  # of the test workspace\n    sops: ["{B}"]\n    web:')


def test_the_file_of_connections_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "connections.yaml"
    path.write_text("dify:\n  base_url: http://127.0.0.1:5001/v1\n")
    with pytest.raises(ConfigError, match="neither a manifest nor a stage file"):
        with_dataset_ids(path, {})


def test_what_is_no_mapping_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("- a\n")
    with pytest.raises(ConfigError, match="neither a manifest nor a stage file"):
        with_dataset_ids(path, {"sops": A})
    path.write_text("a: [\n")
    with pytest.raises(ConfigError, match="cannot be added to"):
        with_dataset_ids(path, {"sops": A})
