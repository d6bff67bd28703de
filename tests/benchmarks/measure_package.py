"""What it takes to read, import, run and ship the package, beside the same figures of another checkout.

    python tests/benchmarks/measure_package.py [--baseline CHECKOUT]

Lines, files and classes are counted in the source. A room is a folder or module directly in the package, an arrow one
room that imports another. The preamble of a file is its docstring, its imports and its `__all__`. A circle is a set of
modules that import one another, imports inside functions and for type checking included. A file runs if one of its
functions is called between the start of a process and its end: for a search of the demo, a recorded one, `--help`, one
request over HTTP, and one call of the Dify tool (with a stand-in for Dify's SDK).

Times are the least CPU seconds of several runs of a fresh process (import, `--help`, a demo search) and the median of
the demo's questions asked three times (search). Packages are built for real, the wheel with `build`. A checkout with an
environment of its own, `.venv`, is run with that.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_DICTS = ("dict", "Mapping", "MutableMapping")
_IMPORT = "import resource, context_engine; print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
_SEARCH = """
import json, statistics, sys, time
from pathlib import Path
from context_engine import SearchRequest, demo
from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import load_setup
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


_PROFILED = """
import os, runpy, sys, threading
out, arguments = sys.argv[1], sys.argv[2:]
ran = set()
def called(frame, event, _argument):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_name[0] != "<":  # 1: a function, no body of a class
        ran.add(frame.f_code.co_filename)
def written():
    with open(out, "w") as file:
        print(*sorted(name for name in list(ran) if "context_engine" in name), sep="\\n", file=file)
        print(sum(name.startswith("context_engine") for name in list(sys.modules)), file=file)
leave = os._exit
def ended(code):
    written()
    leave(code)
os._exit = ended
threading.setprofile(called)
sys.setprofile(called)
if arguments[0] == "--tool":
    exec(arguments[1])
    sys.setprofile(None)
    ended(0)
sys.argv = ["context-engine", *arguments]
try:
    runpy.run_module("context_engine", run_name="__main__")
finally:
    sys.setprofile(None)
    written()
"""

_TOOL = """
import types
from importlib.machinery import ModuleSpec
class Anything:
    def __init__(self, *_positional, **_named): pass
    def __getattr__(self, name): return lambda *positional, **named: (positional, named)
class Stand:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "dify_plugin" else None
    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (Anything,), {})
        return module
    def exec_module(self, module): pass
import logging
sys.meta_path.insert(0, Stand())
stand = __import__("dify_plugin.config.logger_format", fromlist=["logger_format"])
stand.plugin_logger_handler = logging.NullHandler()
sys.path[:0] = [os.path.join(os.environ["PYTHONPATH"], "dify_plugin")]
from tools.search import SearchTool
tool = SearchTool()
tool.session = types.SimpleNamespace(app_id="app", conversation_id=None, message_id=None)
tool.runtime = types.SimpleNamespace(user_id="user", credentials=CREDENTIALS)
print(list(tool._invoke({"query": "NPA classification criteria", "domain": "NPA"})))
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
    return {**counted(modules), **shape(modules), **executed(root), **timed(root), **built(root)}


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


def shape(modules: list[Module]) -> dict[str, str]:
    """Return how long the files are, how much of them is preamble, and which import one another."""
    lines = [len(module.text.splitlines()) for module in modules]
    preamble = sum(_preamble(module.tree) for module in modules)
    circles = _circles(modules)
    return {
        "lines of a file, median": f"{statistics.median(lines):.0f}",
        "lines of the longest file": str(max(lines)),
        "files over 400 lines": str(sum(count > 400 for count in lines)),
        "preamble, share of all lines": f"{preamble / sum(lines):.1%}",
        "circles of imports": str(len(circles)),
        "modules in them": "; ".join(" ".join(sorted(circle)) for circle in circles).replace("context_engine.", ""),
    }


def _preamble(tree: ast.Module) -> int:
    """Return the lines of a module's docstring, imports and `__all__`."""
    count = 0
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        names = isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "__all__" for name in node.targets)
        if docstring or names or isinstance(node, ast.Import | ast.ImportFrom):
            count += (node.end_lineno or node.lineno) - node.lineno + 1
    return count


def _imports(modules: list[Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    known = {module.name for module in modules}
    imports: dict[str, set[str]] = {}
    for module in modules:
        targets: set[str] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module in known:
                names = [f"{node.module}.{name.name}" for name in node.names]
                targets |= {name if name in known else node.module for name in names}
        imports[module.name] = targets - {module.name}
    return imports


def _circles(modules: list[Module]) -> list[set[str]]:
    """Return the sets of two or more modules that import one another; a package that gathers its own is none."""
    imports = _imports(modules)
    packages = {module for module in imports if any(other.startswith(f"{module}.") for other in imports)}
    graph = {module: targets - packages for module, targets in imports.items() if module not in packages}
    reached = {module: _reachable(graph, module) for module in graph}
    circles: list[set[str]] = []
    for module in sorted(graph):
        circle = {other for other in reached[module] if module in reached[other]}
        if len(circle) > 1 and circle not in circles:
            circles.append(circle)
    return circles


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph.get(waiting.pop(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def executed(root: Path) -> dict[str, str]:
    """Return how many files of the package run, and how many modules are imported, for what its users do."""
    question = ("search", "NPA classification criteria", "--domain", "NPA")
    with tempfile.TemporaryDirectory() as home:
        _profiled(root, home, *question)  # writes the demo's base
        searched, _ = _profiled(root, home, *question)
        recorded, _ = _profiled(root, home, *question, CONTEXT_ENGINE_AUDIT_MODE="required")
        helped, imported = _profiled(root, home, "--help")
        credentials = "{'demo_bank': True}"
        called, _ = _profiled(root, home, "--tool", _TOOL.replace("CREDENTIALS", credentials))
        return {
            "files run by a CLI search": str(searched),
            "files run by a recorded CLI search": str(recorded),
            "files run by a search over HTTP": str(_served(root, home)),
            "files run by a call of the Dify tool": str(called),
            "files run by --help": str(helped),
            "modules imported by --help": str(imported),
        }


def _profiled(root: Path, home: str, *arguments: str, **env: str) -> tuple[int, int]:
    """Run a command; return the files of the package whose functions were called, and the modules imported."""
    out = Path(home) / "ran"
    _run(root, home, env, "-c", _PROFILED, str(out), *arguments).communicate()
    *ran, imported = out.read_text().splitlines()
    return len(ran), int(imported)


def _served(root: Path, home: str) -> int:
    """Return the files that run from the start of a service to its first answer to a search."""
    out, token = Path(home) / "ran", "fictitious-token-of-a-measurement-01"
    env = {"CONTEXT_ENGINE_API_TOKEN": token}
    service = _run(root, home, env, "-c", _PROFILED, str(out), "serve", "--port", "0", "--demo")
    assert service.stderr
    try:
        port = next(match[1] for line in service.stderr if (match := re.search(r"listening on .*:(\d+)", line)))
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/rag/query",
            b'{"query": "NPA classification criteria", "domain": "NPA"}',
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
    finally:
        service.terminate()
        service.communicate(timeout=60)
    return len(out.read_text().splitlines()) - 1


def _run(root: Path, home: str, env: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Start Python over a checkout in an empty home; without the caller's own configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    return subprocess.Popen(
        [_interpreter(root), *arguments],
        cwd=home,
        env={**kept, "HOME": home, "PYTHONPATH": str(root), **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def timed(root: Path) -> dict[str, str]:
    """Return what importing and searching take."""
    imports = min(float(_python(root, "-c", _IMPORT)) for _ in range(7))
    with tempfile.TemporaryDirectory() as empty:
        _python(root, "-c", _SEARCH, empty)
        search = min(float(_python(root, "-c", _SEARCH, empty)) for _ in range(3))
        question = ("search", "NPA classification criteria", "--domain", "NPA")
        commands = {
            name: min(_cpu(root, empty, *words) for _ in range(5))
            for name, words in (("help", ("--help",)), ("search", question))
        }
    return {
        "import context_engine, CPU ms": f"{imports * 1000:.0f}",
        "--help as a process, CPU ms": f"{commands['help'] * 1000:.0f}",
        "search of the demo as a process, CPU ms": f"{commands['search'] * 1000:.0f}",
        "search of the demo, CPU ms": f"{search * 1000:.2f}",
    }


def _cpu(root: Path, home: str, *arguments: str) -> float:
    """Return the CPU seconds of one command of the command line."""
    before = os.times()
    _run(root, home, {}, "-m", "context_engine", *arguments).communicate()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def built(root: Path) -> dict[str, str]:
    """Return the sizes of what is shipped."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        _python(root, "-m", "context_engine", "plugin", "pack", "--out", str(out / "plugin"))
        _python(root, "-m", "build", "-q", "--wheel", "--outdir", str(out / "wheel"), str(root))
        plugin = next((out / "plugin").rglob("*.difypkg"), None) or out / "plugin"
        wheel = next((out / "wheel").glob("*.whl"))
        return {"plugin package, bytes": f"{plugin.stat().st_size:,}", "wheel, bytes": f"{wheel.stat().st_size:,}"}


def _interpreter(root: Path) -> str:
    own = root / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _python(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [_interpreter(root), *arguments],
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
