from __future__ import annotations

import os
from pathlib import Path

import pytest

from context_engine.ingest.files import IngestedFolders, shown_name


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    return tmp_path / "base"


def written(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    return file


def test_a_document_is_found_below_the_folder_it_was_ingested_from(base: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "docs/it/passwords.md")
    IngestedFolders(base).add(["sops"], tmp_path / "docs")
    assert IngestedFolders(base).file("sops", "it/passwords.md") == file
    assert IngestedFolders(base).file("web", "it/passwords.md") is None


def test_the_folder_ingested_last_is_asked_first(base: Path, tmp_path: Path) -> None:
    old, new = written(tmp_path / "old/a.md"), written(tmp_path / "new/a.md")
    for folder in (old.parent, new.parent):
        IngestedFolders(base).add(["sops"], folder)
    assert IngestedFolders(base).file("sops", "a.md") == new
    IngestedFolders(base).add(["sops"], old.parent)
    assert IngestedFolders(base).file("sops", "a.md") == old
    old.unlink()
    assert IngestedFolders(base).file("sops", "a.md") == new


def test_a_file_ingested_alone_is_found_by_the_end_of_its_path(base: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "docs/sops/a.md")
    IngestedFolders(base).add(["sops"], file)
    assert IngestedFolders(base).file("sops", "sops/a.md") == file
    assert IngestedFolders(base).file("sops", "a.md") == file
    assert IngestedFolders(base).file("sops", "ops/a.md") is None


def test_nothing_outside_the_folder_is_found(base: Path, tmp_path: Path) -> None:
    written(tmp_path / "secret.md")
    written(tmp_path / "docs/a.md")
    IngestedFolders(base).add(["sops"], tmp_path / "docs")
    for path in ("../secret.md", str(tmp_path / "secret.md"), "gone.md"):
        assert IngestedFolders(base).file("sops", path) is None


@pytest.mark.skipif(os.name != "posix", reason="names that are no UTF-8 are POSIX's")
def test_a_name_that_is_no_utf_8_is_found_by_what_is_shown_of_it(base: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "docs" / os.fsdecode(b"Gesch\xe4ft.md"))
    IngestedFolders(base).add(["sops"], tmp_path / "docs")
    assert IngestedFolders(base).file("sops", shown_name(file.name)) == file


@pytest.mark.parametrize("content", ["", "{", "[]", '{"form": 9, "sources": {}}', '{"form": 1}'])
def test_a_record_that_cannot_be_read_holds_nothing_and_is_written_anew(
    base: Path, tmp_path: Path, content: str
) -> None:
    (base / "folders.json").write_text(content)
    assert IngestedFolders(base).of("sops") == []
    IngestedFolders(base).add(["sops"], tmp_path)
    assert IngestedFolders(base).of("sops") == [tmp_path]
