"""A file that is not read because of its name is named, with the name that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.settings.paths import find_config, misnamed_notices

MANIFEST = "version: 1\ndomain: NPA\nsources: []\n"


def written(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(MANIFEST if name.startswith("manifests") else "{}")


def misnamed(root: Path) -> dict[str, str]:
    found = misnamed_notices(find_config(env={"HOME": str(root / "nobody")}, cwd=root))
    return {notice.subject: notice.detail["name"] for notice in found}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("config/rag_pipeline.json", "rag-pipeline.json"),
        ("config/connection.yaml", "connections.yaml"),
        ("config/acess.yaml", "access.yaml"),
        ("config/connections.yml", "connections.yaml"),
        ("config/personas.yaml", "personas.json"),
        ("config/Ingest.json.txt", "ingest.json"),
        ("manifests/orm.yaml.txt", "orm.yaml"),
        ("manifests/orm.YAML", "orm.yaml"),
        ("manifests/orm.yalm", "orm.yaml"),
    ],
)
def test_a_misnamed_file_is_named_with_the_name_that_was_meant(tmp_path: Path, name: str, meant: str) -> None:
    written(tmp_path, "manifests/npa.yaml", name)
    assert misnamed(tmp_path) == {name: meant}


def test_a_manifest_is_looked_for_where_there_is_no_other(tmp_path: Path) -> None:
    written(tmp_path, "config/rag-pipeline.json", "manifests/npa.yaml.txt")
    assert misnamed(tmp_path) == {"manifests/npa.yaml.txt": "npa.yaml"}


def test_files_of_other_uses_and_those_set_aside_are_not_named(tmp_path: Path) -> None:
    written(tmp_path, "manifests/npa.yaml", "manifests/orm.yml", "manifests/old.yaml.bak", "manifests/README.md")
    written(tmp_path, "manifests/dify.example.yaml", "manifests/.orm.yalm", "manifests/package.json")
    written(tmp_path, "config/access.yaml", "config/access.old.yaml", "config/access.example.yaml")
    written(tmp_path, "config/collections.yaml", "config/gate.yaml", "config/judgements.jsonl", "config/notes.txt")
    assert misnamed(tmp_path) == {}
