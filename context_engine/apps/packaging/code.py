"""Rules of the plugin's Python files, read without being run."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Final

from context_engine.apps.packaging.findings import Report

__all__ = ["check_code"]

_BASES: Final = ("Tool", "ToolProvider", "Endpoint")
_LOOPS: Final = ("asyncio", "anyio")
_DEEPEST: Final = 8


def check_code(report: Report, sources: list[tuple[str, str]]) -> None:
    """Check that each named file holds one class of its kind, and that no file prints or starts an event loop.

    Args:
        report: the files; those of vendored packages are not looked at.
        sources: (Python file, the class of the SDK it must derive from).
    """
    modules = {path: tree for path in report.files if _is_own(path) and (tree := _parsed(report, path)) is not None}
    for path, base in sources:
        if path in modules:
            names = sorted(_derived(modules, path, base))
            if len(names) != 1:
                found = f"has {', '.join(names)}" if names else "has none"
                message = f"must have one name at its top that is a subclass of {base}, {found}"
                report.add(path, "", "one-class", f"{message}; import a base class's module, not the class")
    for path, tree in modules.items():
        _check_calls(report, path, tree)


def _is_own(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return path.endswith(".py") and (len(parts) == 1 or parts[0] in ("provider", "tools", "endpoints", "group"))


def _parsed(report: Report, path: str) -> ast.Module | None:
    try:
        return ast.parse(report.files[path])
    except (SyntaxError, ValueError) as error:
        report.add(path, "", "python", f"cannot be read as Python: {error}")
        return None


def _check_calls(report: Report, path: str, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        line = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            report.add(path, line, "no-print", "standard output carries the protocol: use logging")
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if name.split(".")[0] in _LOOPS:
                report.add(path, line, "no-event-loop", f"{name} fails under load in the plugin's runtime: use threads")


def _derived(modules: dict[str, ast.Module], path: str, base: str, depth: int = 0) -> set[str]:
    """Return the names at a module's top that are subclasses of `base`, those it imports among them."""
    known: set[str] = set()
    aliases: dict[str, str] = {}
    for node in modules[path].body if depth < _DEEPEST else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            below = _module_file(modules, node.module)
            inner = _derived(modules, below, base, depth + 1) if below else set()
            for alias in node.names:
                if alias.name in inner or (alias.name == "*" and inner):
                    known |= {alias.asname or alias.name} if alias.name != "*" else inner
                elif found := _module_file(modules, f"{node.module}.{alias.name}"):
                    aliases[alias.asname or alias.name] = found
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if found := _module_file(modules, alias.name):
                    aliases[alias.asname or alias.name] = found
        elif isinstance(node, ast.ClassDef):
            parents = [ast.unparse(parent) for parent in node.bases]
            if any(_is_base(modules, parent, base, known, aliases, depth) for parent in parents):
                known.add(node.name)
    return known


def _is_base(
    modules: dict[str, ast.Module], name: str, base: str, known: set[str], aliases: dict[str, str], depth: int
) -> bool:
    if name == base or name in known:
        return True
    owner, _, last = name.rpartition(".")
    if owner in aliases:
        return last in _derived(modules, aliases[owner], base, depth + 1)
    return last == base and owner.startswith("dify_plugin")


def _module_file(modules: dict[str, ast.Module], name: str) -> str | None:
    stem = name.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in modules), None)
