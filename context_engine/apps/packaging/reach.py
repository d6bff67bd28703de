"""Which files of a package some code can reach: what it imports, at the top of a file or later, and what that imports.

Names that are imported as text (entry points) are not seen: they are given. An import for type checkers alone does not
count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from context_engine.apps.packaging.files import Files


def reachable(package: Files, sources: Iterable[bytes], modules: Iterable[str]) -> dict[str, bytes]:
    """Return the files of a package that some code needs: Python files it reaches, and the data beside them.

    Args:
        package: path -> content; paths begin with the package's name.
        sources: Python files that use it.
        modules: of the package, by dotted name, that are used besides.
    """
    waiting = [*modules, *(name for source in sources for name in _imported(source))]
    reached: set[str] = set()
    while waiting:
        for path in _paths(package, waiting.pop()):
            if path not in reached:
                reached.add(path)
                waiting += _imported(package[path])
    return {path: content for path, content in package.items() if path in reached or _beside(path, package, reached)}


def _module_path(package: Files, module: str) -> str | None:
    """Return the file of a module, None where the package has none of that name."""
    stem = module.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in package), None)


def _paths(package: Files, module: str) -> Iterator[str]:
    """Yield the file of a module and of every package it lies in; a name that is no module is one of its package's."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return (path for name in names if (path := _module_path(package, name)) is not None)


def _beside(path: str, package: Files, reached: set[str]) -> bool:
    """Whether a file is the data of a package that is reached."""
    if path.endswith(".py"):
        return False
    owners = (f"{folder}/__init__.py" for folder in PurePosixPath(path).parents)
    return next((owner for owner in owners if owner in package), "") in reached


def _imported(source: bytes) -> list[str]:
    try:
        found = _Imports()
        found.visit(ast.parse(source))
    except (SyntaxError, ValueError):  # the check of the plugin's own files names it
        return []
    return found.names


class _Imports(ast.NodeVisitor):
    """Collects the dotted names that a file imports."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def visit_Import(self, node: ast.Import) -> None:
        self.names += [alias.name for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and not node.level:
            self.names += [f"{node.module}.{alias.name}" for alias in node.names]

    def visit_If(self, node: ast.If) -> None:
        checked_only = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for child in node.orelse if checked_only else (*node.body, *node.orelse):
            self.visit(child)
