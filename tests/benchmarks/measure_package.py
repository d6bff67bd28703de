"""What it takes to read, import, run and ship the package, beside the same figures of another checkout.

    python tests/benchmarks/measure_package.py [--baseline CHECKOUT]

Lines, files and classes are counted in the source; a room is a folder or module directly in the package, an
arrow one room that imports another. Times are the least CPU seconds of several runs of a fresh
process (import) and the median of the demo's questions asked three times (search). Packages are built for real, the
wheel with `build`. A checkout with an environment of its own, `.venv`, is run with that.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_DICTS = ("dict", "Mapping", "MutableMapping")
_IMPORT = "import resource, context_engine; print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
_SEARCH = """
import json, statistics, sys, time
from pathlib import Path
from context_engine import SearchRequest, demo
from context_engine.wiring import build_engine, load_setup
home = Path(sys.argv[1])
setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(home)}, cwd=home)
place = demo.ensure_base(home / "data", setup.registry)
questions = [json.loads(line) for line in demo.QUESTIONS.read_text("utf-8").splitlines()]
taken = []
with build_engine(setup=setup, data_dir=place) as engine:
    for number in range(4):
        for one in questions:
            request = SearchRequest(query=one["query"], domain=one["domain"])
            began = time.process_time()
            engine.search(request)
            if number:
                taken.append(time.process_time() - began)
print(statistics.median(taken))
"""


class Module(NamedTuple):
    """One source file: its dotted name, its text and its tree."""

    name: str
    text: str
    tree: ast.Module


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--baseline", type=Path, help="another checkout to measure beside this one")
    baseline = options.parse_args().baseline
    here = Path(__file__).resolve().parents[2]
    columns = [measured(root) for root in ([baseline.resolve()] if baseline else []) + [here]]
    heads = (["Before"] if baseline else []) + ["Now"]
    print("| Figure | " + " | ".join(heads) + " |\n|---" + "|---:" * len(heads) + "|")
    for name in columns[-1]:
        print(f"| {name} | " + " | ".join(column.get(name, "") for column in columns) + " |")


def measured(root: Path) -> dict[str, str]:
    """Return every figure of one checkout as text."""
    modules = list(_modules(root))
    return {**counted(modules), **timed(root), **built(root)}


def _modules(root: Path) -> Iterator[Module]:
    for file in sorted((root / "context_engine").rglob("*.py")):
        text = file.read_text("utf-8")
        name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        yield Module(name, text, ast.parse(text))


def counted(modules: list[Module]) -> dict[str, str]:
    """Return what counting the source gives."""
    lines = [len(module.text.splitlines()) for module in modules]
    classes = Counter(
        node.name for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    )
    functions = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef)]
    arrows = _arrows(modules)
    rooms = {_room(module.name) for module in modules} - {""}
    return {
        "lines of the package": f"{sum(lines):,}",
        "files": str(len(modules)),
        "files under 50 lines": str(sum(count < 50 for count in lines)),
        "files over 300 lines": str(sum(count > 300 for count in lines)),
        "class names used twice or more": str(sum(count > 1 for count in classes.values())),
        "parameters typed Any": str(sum(_is_any(arg.annotation) for one in functions for arg in _arguments(one))),
        "functions that return a dict or Mapping": str(sum(_is_dict(one.returns) for one in functions)),
        "rooms": str(len(rooms)),
        "arrows between rooms": str(len(arrows)),
    }


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _is_any(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def _is_dict(annotation: ast.expr | None) -> bool:
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(head, ast.Name) and head.id in _DICTS


def _room(module: str) -> str:
    return module.partition(".")[2].split(".")[0]


def _arrows(modules: list[Module]) -> set[tuple[str, str]]:
    known = {module.name for module in modules}
    found = set()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("context_engine"):
                imported = [f"{node.module}.{name.name}" for name in node.names]
                targets = [one if one in known else node.module for one in imported]
                found |= {(_room(module.name), _room(target)) for target in targets}
    return {(one, other) for one, other in found if one and other and one != other}


def timed(root: Path) -> dict[str, str]:
    """Return what importing and searching take."""
    imports = min(float(_python(root, "-c", _IMPORT)) for _ in range(7))
    with tempfile.TemporaryDirectory() as empty:
        _python(root, "-c", _SEARCH, empty)
        search = min(float(_python(root, "-c", _SEARCH, empty)) for _ in range(3))
    return {
        "import context_engine, CPU ms": f"{imports * 1000:.0f}",
        "search of the demo, CPU ms": f"{search * 1000:.2f}",
    }


def built(root: Path) -> dict[str, str]:
    """Return the sizes of what is shipped."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        _python(root, "-m", "context_engine", "plugin", "pack", "--out", str(out / "plugin"))
        _python(root, "-m", "build", "-q", "--wheel", "--outdir", str(out / "wheel"), str(root))
        plugin = next((out / "plugin").rglob("*.difypkg"), None) or out / "plugin"
        wheel = next((out / "wheel").glob("*.whl"))
        return {"plugin package, bytes": f"{plugin.stat().st_size:,}", "wheel, bytes": f"{wheel.stat().st_size:,}"}


def _python(root: Path, *arguments: str) -> str:
    own = root / ".venv" / "bin" / "python"
    done = subprocess.run(
        [str(own) if own.exists() else sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{root}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
