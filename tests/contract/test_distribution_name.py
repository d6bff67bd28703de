"""The distribution is `dify-context-engine`; `context-engine` on the package index is somebody else's."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
READ = (".py", ".md", ".yaml", ".yml", ".json", ".toml", ".txt", ".sh")
INSTALL = re.compile(r"pip install (?P<arguments>[^\n`\"]*)")
REQUIREMENT = re.compile(r"(?<![\w./-])(?P<name>[A-Za-z][\w.-]*)(?:\[(?P<extras>[\w,{} -]*)\])?")
OTHERS_WITH_VALUE = ("--find-links", "-r", "--index-url", "--target")


def texts() -> Iterator[tuple[str, str]]:
    """Every file that a user reads or that writes what one reads, but for this one."""
    for folder in ("context_engine", "dify_plugin", "docs", "config", "manifests", "tests", "."):
        files = (ROOT / folder).rglob("*") if folder != "." else ROOT.glob("*")
        for path in files:
            if path.suffix in READ and path != Path(__file__).resolve() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8", "replace")


def requirements() -> Iterator[tuple[str, str, str]]:
    """(file, distribution, extras) of each `pip install NAME` or `pip install 'NAME[extras]'`."""
    for file, text in texts():
        for found in INSTALL.finditer(text):
            words = (
                found["arguments"]
                .split("#")[0]
                .split("&&")[0]
                .replace("'", " ")
                .replace("\\[", "[")
                .replace("\\]", "]")
            )
            before = ""
            for word in words.split():
                named = REQUIREMENT.fullmatch(word)
                if named and before not in OTHERS_WITH_VALUE:
                    yield file, named["name"], named["extras"] or ""
                before = word


def test_the_distribution_is_called_what_the_messages_say():
    assert PROJECT["name"] == "dify-context-engine"


def test_every_install_of_ours_names_the_distribution_and_an_extra_that_exists():
    ours = [one for one in requirements() if "context" in one[1] and "engine" in one[1]]
    assert {name for _, name, _ in ours} == {PROJECT["name"]}
    extras = {extra.strip() for _, _, several in ours for extra in several.split(",")} - {"", "{extra}"}
    assert {"documents", "eval", "vectors"} <= extras <= set(PROJECT["optional-dependencies"])


@pytest.mark.slow
def test_nothing_names_the_other_project_s_distribution():
    wrong = [file for file, text in texts() if re.search(r"(?<!dify-)context-engine(\[|==|>=|~=)", text)]
    assert wrong == []


@pytest.mark.slow
def test_every_extra_that_an_error_names_exists():
    named = set()
    for path in (ROOT / "context_engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtra" and len(node.args) == 2:
                named.update(one.value for one in ast.walk(node.args[1]) if isinstance(one, ast.Constant))
    assert {"documents", "vectors"} <= named <= set(PROJECT["optional-dependencies"])
