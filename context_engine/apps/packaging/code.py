"""Rules of the plugin's Python files, read without being run."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Final

from context_engine.apps.packaging.findings import PluginReport

_LOOPS: Final = ("asyncio", "anyio")


def check_code(report: PluginReport) -> None:
    """Check that no file of the plugin's own prints or starts an event loop."""
    for path in filter(_is_own, report.files):
        tree = _parsed(report, path)
        if tree is not None:
            _check_calls(report, path, tree)


def _is_own(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return path.endswith(".py") and (len(parts) == 1 or parts[0] in ("provider", "tools", "endpoints", "group"))


def _parsed(report: PluginReport, path: str) -> ast.Module | None:
    try:
        return ast.parse(report.files[path])
    except (SyntaxError, ValueError) as error:
        report.add(path, "", "python", f"cannot be read as Python: {error}")
        return None


def _check_calls(report: PluginReport, path: str, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        line = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            report.add(path, line, "no-print", "standard output carries the protocol: use logging")
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if name.split(".")[0] in _LOOPS:
                report.add(path, line, "no-event-loop", f"{name} fails under load in the plugin's runtime: use threads")
