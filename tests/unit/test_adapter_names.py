"""What a source can do is asked of its adapter: no code outside the factories decides by an adapter's name or class."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import context_engine

PACKAGE = Path(context_engine.__file__).parent
FACTORIES = {"wiring/embedded_base.py", "adapters/sources/dify/adapter.py"}
"""Where an adapter knows its own name."""
NAMED = frozenset({"local", "dify"})
CLASSES = frozenset({"DifySource", "LocalSource", "DifySink", "DifyExamination"})


def decisions(tree: ast.AST, *, own_classes: bool) -> list[str]:
    """Return the comparisons with an adapter's name, and outside its own folder the tests for its classes."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            constants = {one.value for side in (node.left, *node.comparators) for one in constants_of(side)}
            if constants & NAMED:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Match):
            found += [
                f"line {case.pattern.lineno}: {ast.unparse(case.pattern)}"
                for case in node.cases
                if {one.value for one in constants_of(case.pattern)} & NAMED
            ]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            if names & CLASSES and not own_classes:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def constants_of(node: ast.AST) -> list[ast.Constant]:
    return [one for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


@pytest.mark.slow
def test_no_code_decides_by_the_name_of_an_adapter() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place not in FACTORIES:
            own = place.startswith("adapters/sources/")
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{place}, {one}" for one in decisions(tree, own_classes=own)]
    assert found == [f"apps/packaging/manifest.py, {one}" for one in _author(PACKAGE)], "ask for a capability instead"


def _author(package: Path) -> list[str]:
    """The plugin's author must not be Dify's makers: another meaning of the word."""
    tree = ast.parse((package / "apps/packaging/manifest.py").read_text(encoding="utf-8"))
    return [one for one in decisions(tree, own_classes=False) if "author" in one]


@pytest.mark.parametrize(
    "code",
    [
        'spec.adapter == "dify"',
        '"local" != source.adapter',
        'spec.adapter in ("dify", "local")',
        "isinstance(source, DifySource)",
        "isinstance(source, (LocalSource, int))",
        'match spec.adapter:\n    case "dify": pass',
    ],
)
def test_each_way_to_decide_by_it_is_seen(code: str) -> None:
    assert decisions(ast.parse(code), own_classes=False)
