"""From manifests to the registry: what knowledge exists, one domain a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, Field, ValidationError

from context_engine.core.models import DomainSettings, DomainSpec, Registry, SourceSpec
from context_engine.errors import ConfigError, MissingVariable, nearest
from context_engine.settings.files import Location, dotted, read_yaml
from context_engine.settings.interpolate import FromVariable, Interpolator
from context_engine.settings.layers import config_layer
from context_engine.settings.messages import config_error
from context_engine.settings.paths import ConfigPaths
from context_engine.settings.stage_overlay import NO_OVERLAY, StageOverlay

__all__ = ["LITERAL_KEYS", "LoadedRegistry", "load_registry", "read_registry"]

_NUMBERS: Final = ("tier", "ttl_seconds", "timeout_s")
LITERAL_KEYS: Final = frozenset(
    ("domain", "title", "description", "glossary", "adapter", "include", "doc_type", "profile", "url")
)
"""Keys whose values are text or names that everybody is shown: they take no variable."""
_SHORTEST_HIDDEN: Final = 4


class LoadedRegistry(Registry):
    """The registered domains, those among them that lack a variable, and the file each comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    broken: Mapping[str, MissingVariable] = Field(default_factory=dict)
    files: Mapping[str, str] = Field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The domain names, sorted; a domain that lacks a variable is registered all the same."""
        return tuple(sorted({*self.domains, *self.broken}))

    def domain(self, name: str) -> DomainSpec:
        """Return a domain's specification.

        Raises:
            UnknownDomain: it is not registered; the error lists those that are.
            MissingVariable: its manifest needs a variable that is not set.
        """
        if name in self.broken:
            missing = self.broken[name]
            raise MissingVariable(missing.problem, file=missing.file, key=missing.key)
        return super().domain(name)


@dataclass(slots=True)
class _Reading:
    """What was read so far, and what must hold between files."""

    doc_types: Iterable[str]
    connections: Iterable[str]
    stage: StageOverlay
    domains: dict[str, DomainSpec] = field(default_factory=dict)
    broken: dict[str, MissingVariable] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, tuple[SourceSpec, str]] = field(default_factory=dict)
    source_ids: set[str] = field(default_factory=set)


def load_registry(
    paths: ConfigPaths,
    *,
    env: Mapping[str, str],
    stage: StageOverlay = NO_OVERLAY,
    connections: Iterable[str] = (),
    doc_types: Iterable[str] = (),
) -> LoadedRegistry:
    """Return the registry of all manifests. See `read_registry`.

    Raises:
        ConfigError: the first thing in them that cannot be used, with file, key and the nearest valid choice.
    """
    registry, problems = read_registry(paths, env=env, stage=stage, connections=connections, doc_types=doc_types)
    for problem in problems:
        raise problem
    return registry


def read_registry(
    paths: ConfigPaths,
    *,
    env: Mapping[str, str],
    stage: StageOverlay = NO_OVERLAY,
    connections: Iterable[str] = (),
    doc_types: Iterable[str] = (),
) -> tuple[LoadedRegistry, list[ConfigError]]:
    """Return the domains that can be used and the first problem of each file that cannot.

    Args:
        paths: where the manifests are.
        env: the environment.
        stage: its dataset ids replace those of the manifests.
        connections: names a source may use.
        doc_types: rows of the chunking table a document rule may use; empty: not checked.
    """
    reading = _Reading(tuple(doc_types), tuple(connections), stage)
    problems: list[ConfigError] = []
    for path in paths.manifests():
        try:
            _read(reading, path, paths.label(path), env)
        except ConfigError as error:
            problems.append(error)
    unknown = sorted(set(stage.dataset_ids) - reading.source_ids)
    if unknown and not problems:
        hint = nearest(unknown[0], reading.source_ids)
        problems.append(ConfigError(f"unknown source.{hint}", file=stage.file, key=f"dataset_ids.{unknown[0]}"))
    registry = LoadedRegistry(domains=reading.domains, broken=reading.broken, files=reading.files)
    return registry, problems


def _read(reading: _Reading, path: Path, file: str, env: Mapping[str, str]) -> None:
    raw = read_yaml(path, file)
    name = raw.get("domain")
    if isinstance(name, str) and "${" in name:
        raise ConfigError("must be written out, not taken from a variable", file=file, key="domain")
    if isinstance(name, str) and name in reading.files:
        raise ConfigError(f"domain {name!r} is in {reading.files[name]} too: keep one", file=file, key="domain")
    _refuse_flags(raw, file)
    reading.source_ids.update(_ids(raw))
    try:
        filled = _filled(raw, Interpolator(env, path.parent, file, fixed=_is_fixed), reading.stage)
    except MissingVariable as missing:
        if not isinstance(name, str):
            raise
        reading.broken[name], reading.files[name] = missing, file
        return
    try:
        spec = _checked(reading, filled, file)
    except ConfigError as error:
        raise ConfigError(_as_written(error.problem, filled), file=error.file, key=error.key) from None
    reading.domains[spec.domain], reading.files[spec.domain] = spec, file
    reading.sources.update({source.id: (source, file) for source in spec.sources})


def _checked(reading: _Reading, filled: Mapping[str, Any], file: str) -> DomainSpec:
    try:
        spec = DomainSpec.model_validate(filled)
    except ValidationError as error:
        raise config_error(error, filled, DomainSpec, file=file) from None
    _check_sources(reading, spec, file)
    _check_settings(spec, file)
    return spec


def _is_fixed(location: Location) -> bool:
    """Whether a value of a manifest takes no variable; what a source's or a domain's `settings` hold does."""
    names = [step for step in location if isinstance(step, str)]
    return "settings" not in names and not LITERAL_KEYS.isdisjoint(names)


def _as_written(problem: str, filled: Any) -> str:
    """Return a message with the expression in place of whatever came out of a variable."""
    for value in _from_variables(filled):
        if len(value) >= _SHORTEST_HIDDEN:
            problem = problem.replace(str(value), value.written)
    return problem


def _from_variables(value: Any) -> Iterator[FromVariable]:
    if isinstance(value, FromVariable):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _from_variables(child)


def _raw_sources(raw: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    sources = raw.get("sources")
    rows = sources if isinstance(sources, list) else []
    return [(index, row) for index, row in enumerate(rows) if isinstance(row, dict)]


def _ids(raw: Mapping[str, Any]) -> set[str]:
    return {row["id"] for _, row in _raw_sources(raw) if isinstance(row.get("id"), str)}


def _refuse_flags(raw: Mapping[str, Any], file: str) -> None:
    """Refuse what would pass for a number: true for 1, and tier 0, which means "not set"."""
    for index, row in _raw_sources(raw):
        for key in _NUMBERS:
            if isinstance(row.get(key), bool) or (key == "tier" and key in row and row[key] in (0, None)):
                problem = f"must be a {'tier from 1 to 5' if key == 'tier' else 'number'}, got {row[key]!r}"
                raise ConfigError(problem, file=file, key=dotted(("sources", index, key), raw))


def _filled(raw: Mapping[str, Any], filler: Interpolator, stage: StageOverlay) -> dict[str, Any]:
    """Return the manifest with its variables filled in and the stage's dataset ids in place of its own."""
    rows = list(raw["sources"]) if _raw_sources(raw) else None
    staged: dict[int, Any] = {}
    for index, row in _raw_sources(raw):
        ids = stage.dataset_ids.get(str(row.get("id")))
        if rows is not None and ids is not None and stage.filler is not None:
            staged[index] = stage.filler.fill(ids, below=("dataset_ids", row["id"]))
            rows[index] = {key: value for key, value in row.items() if key != "dataset_ids"}
    filled: dict[str, Any] = filler.fill(dict(raw) if rows is None else {**raw, "sources": rows})
    for index, ids in staged.items():
        filled["sources"][index]["dataset_ids"] = ids
    return filled


def _check_sources(reading: _Reading, spec: DomainSpec, file: str) -> None:
    for source in spec.sources:
        other = reading.sources.get(source.id)
        if other is not None and other[0] != source:
            problem = f"is in {other[1]} too, with other values: give it another id, or make both alike to share it"
            raise ConfigError(problem, file=file, key=f"sources.{source.id}")
        if source.connection is not None and source.connection not in reading.connections:
            hint = nearest(source.connection, reading.connections) or " connections.yaml names none."
            problem = f"unknown connection {source.connection!r}.{hint}"
            raise ConfigError(problem, file=file, key=f"sources.{source.id}.connection")
        for index, rule in enumerate(source.documents):
            if reading.doc_types and rule.doc_type not in reading.doc_types:
                problem = f"unknown document type {rule.doc_type!r}.{nearest(rule.doc_type, reading.doc_types)}"
                raise ConfigError(problem, file=file, key=f"sources.{source.id}.documents.{index}.doc_type")


def _check_settings(spec: DomainSpec, file: str) -> None:
    layer = config_layer(spec.settings, file, file=file, key="settings", model=DomainSettings)
    known = [source.id for source in spec.sources]
    for name in layer["sources"].value or () if "sources" in layer else ():
        if name not in known:
            raise ConfigError(f"unknown source {name!r}.{nearest(name, known)}", file=file, key="settings.sources")
