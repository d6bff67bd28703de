"""Tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.apps.packaging.files import negations, read_folder, read_ignore


@pytest.mark.parametrize(
    ("line", "path", "folder", "left_out"),
    [
        ("*.log", "a.log", False, True),
        ("*.log", "deep/er/a.log", False, True),
        ("*.log", "a.logs", False, False),
        ("drafts/", "drafts", True, True),
        ("drafts/", "drafts", False, False),
        ("drafts/", "a/drafts", True, True),
        ("/notes.md", "notes.md", False, True),
        ("/notes.md", "a/notes.md", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
        ("a/*/c", "a/b/c", False, True),
        ("a/*/c", "a/b/b/c", False, False),
        ("**/c", "c", False, True),
        ("**/c", "a/b/c", False, True),
        ("a/**/c", "a/c", False, True),
        ("a/**/c", "a/b/b/c", False, True),
        ("a/**", "a/b", False, True),
        ("a/**", "a", True, False),
        ("?.py", "a.py", False, True),
        ("?.py", "ab.py", False, False),
        ("[ab].py", "b.py", False, True),
        ("[!ab].py", "b.py", False, False),
        ("[!ab].py", "c.py", False, True),
        ("\\*.py", "*.py", False, True),
        ("\\*.py", "a.py", False, False),
        ("a.py", "axpy", False, False),
        ("  # comment", "comment", False, False),
    ],
)
def test_a_pattern(line: str, path: str, folder: bool, left_out: bool) -> None:
    assert read_ignore(line).matches(path, folder=folder) is left_out


def test_a_negation_has_no_effect() -> None:
    text = "*.log\n!keep.log\n"
    assert read_ignore(text).matches("keep.log", folder=False)
    assert negations(text) == ["!keep.log"]


def test_difyignore_wins_over_gitignore_and_without_either_all_is_there(tmp_path: Path) -> None:
    for name in ("a.log", "b.tmp", "c.py", "sub/a.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert set(read_folder(tmp_path)) == {"a.log", "b.tmp", "c.py", "sub/a.log"}
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert set(read_folder(tmp_path)) == {".gitignore", "b.tmp", "c.py"}
    (tmp_path / ".difyignore").write_text("*.tmp\nsub/\n")
    assert set(read_folder(tmp_path)) == {".difyignore", ".gitignore", "a.log", "c.py"}


def test_caches_of_tools_are_never_read(tmp_path: Path) -> None:
    for name in ("__pycache__/a.pyc", ".ruff_cache/x", ".venv/lib/x.py", ".git/HEAD", "a.pyc", ".DS_Store", "main.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert set(read_folder(tmp_path)) == {"main.py"}
