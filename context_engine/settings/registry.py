"""Reads manifests into the registry: one domain per file; unusable manifests keep their problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pydantic import ConfigDict, Field, ValidationError

from context_engine.core.models import DomainSettings, DomainSpec, Notice, NoticeCode, Registry, SourceSpec
from context_engine.errors import ConfigError, MissingVariable, UnknownDomain, nearest
from context_engine.settings.files import FromVariable, Interpolator, Location, dotted, read_yaml
from context_engine.settings.layers import config_layer
from context_engine.settings.load import NO_OVERLAY, StageOverlay
from context_engine.settings.messages import config_problems
from context_engine.settings.paths import ConfigPaths

_NUMBERS: Final = ("tier", "ttl_seconds", "timeout_s")

LITERAL_KEYS: Final = frozenset(
    ("domain", "title", "description", "glossary", "adapter", "include", "doc_type", "profile", "url", "access")
)
"""Keys that take no variable: public texts, and access rules, because the caller may control the environment."""

_SHARED: Final = "is in {} too, with other values: give it another id, or make both alike to share it"
_NO_RULE: Final = "names nobody: give it roles, groups or a clearance, or remove it to let everybody search"
_SHORTEST_HIDDEN: Final = 4
_DOMAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_ACCESS_KEY: Final = re.compile(r"^[^#\n]*\baccess[\"']?[ \t]*:", re.MULTILINE)
_DOMAIN_LINE: Final = re.compile(r"^domain[ \t]*:([^#\n]*)", re.MULTILINE)


class _Registered(NamedTuple):
    """A source and the file that first declared it."""

    spec: SourceSpec
    domain: str
    file: str


@dataclass(slots=True)
class _ManifestsRead:
    """The manifests read so far, for the rules between files."""

    doc_types: Iterable[str]
    connections: Iterable[str] | None
    stage: StageOverlay
    domains: dict[str, DomainSpec] = field(default_factory=dict)
    broken: dict[str, ConfigError] = field(default_factory=dict)
    unread: list[ConfigError] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, _Registered] = field(default_factory=dict)
    source_ids: set[str] = field(default_factory=set)
    ruled: bool = False

    def refuse(self, name: str | None, problem: ConfigError) -> None:
        """Record a problem of a domain; None: its name is unknown."""
        if name is None:
            self.unread += problem.each
            return
        self.domains.pop(name, None)
        self.broken[name] = ConfigError.together([*([self.broken[name]] if name in self.broken else []), problem])


def load_registry(
    paths: ConfigPaths,
    *,
    env: Mapping[str, str],
    stage: StageOverlay = NO_OVERLAY,
    connections: Iterable[str] | None = (),
    doc_types: Iterable[str] = (),
) -> LoadedRegistry:
    """Return the registry of all manifests. See `read_registry`.

    Raises:
        ConfigError: the stage names an unknown source.
    """
    registry, problems = read_registry(paths, env=env, stage=stage, connections=connections, doc_types=doc_types)
    if problems:
        raise ConfigError.together(problems)
    return registry


def read_registry(
    paths: ConfigPaths,
    *,
    env: Mapping[str, str],
    stage: StageOverlay = NO_OVERLAY,
    connections: Iterable[str] | None = (),
    doc_types: Iterable[str] = (),
) -> tuple[LoadedRegistry, list[ConfigError]]:
    """Return the registry (with the problems of the manifests) and the problems of the stage.

    Args:
        stage: its dataset ids replace those of the manifests.
        connections: the names a source may use; None: unknown, so not checked.
        doc_types: the rows of the chunking table that a document rule may use; empty: not checked.
    """
    reading = _ManifestsRead(tuple(doc_types), None if connections is None else tuple(connections), stage)
    for path in paths.manifests():
        _read(reading, path, paths.label(path), env)
    registry = LoadedRegistry(
        domains=reading.domains,
        broken=reading.broken,
        unread=tuple(reading.unread),
        files=reading.files,
        ruled=reading.ruled,
    )
    certain = all(
        isinstance(problem, MissingVariable) for problem in registry.problems
    )  # else an unread one may name it
    unknown = [] if not certain else sorted(set(stage.dataset_ids) - reading.source_ids)
    return registry, [
        ConfigError(f"unknown source.{nearest(name, reading.source_ids)}", file=stage.file, key=f"dataset_ids.{name}")
        for name in unknown
    ]


def _read(reading: _ManifestsRead, path: Path, file: str, env: Mapping[str, str]) -> None:
    """Read one manifest: record its domain or its problems."""
    name: str | None = None
    try:
        raw = read_yaml(path, file)
        name = _domain_name(raw.get("domain"))
        if name in reading.files:
            _refuse_twice(reading, name, file)
            return
        if name is not None:
            reading.files[name] = file
        reading.source_ids.update(_ids(raw))
        reading.ruled = reading.ruled or "access" in raw or any("access" in row for _, row in _raw_sources(raw))
        spec = _filled_spec(reading, raw, path, file, env)
    except ConfigError as problem:
        name = name or _written_name(path)
        reading.ruled = reading.ruled or bool(_ACCESS_KEY.search(_text(path)))
        if name is not None and name in reading.files and reading.files[name] != file:
            _refuse_twice(reading, name, file)
        elif name is not None:
            reading.files[name] = file
        reading.refuse(name, problem)
        return
    reading.domains[spec.domain] = spec
    for source in spec.sources:
        reading.sources.setdefault(source.id, _Registered(source, spec.domain, file))


def _refuse_twice(reading: _ManifestsRead, name: str, file: str) -> None:
    """Refuse a domain that two files declare; neither is trusted."""
    first = reading.files[name]
    for pair_file, other in ((first, file), (file, first)):
        problem = f"domain {name!r} is in {other} too: keep one of the two, or give one another name"
        reading.refuse(name, ConfigError(problem, file=pair_file, key="domain"))


def _domain_name(value: Any) -> str | None:
    return value if isinstance(value, str) and _DOMAIN_NAME.fullmatch(value) else None


def _written_name(path: Path) -> str | None:
    """Return the domain named in a file that is not valid YAML, if a line names one."""
    names = _DOMAIN_LINE.findall(_text(path))
    return _domain_name(names[0].strip().strip("'\"")) if len(names) == 1 else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _filled_spec(
    reading: _ManifestsRead, raw: Mapping[str, Any], path: Path, file: str, env: Mapping[str, str]
) -> DomainSpec:
    """Return the domain of a manifest.

    Raises:
        ConfigError: all its problems.
    """
    name = raw.get("domain")
    if isinstance(name, str) and "${" in name:
        raise ConfigError("must be written out, not taken from a variable", file=file, key="domain")
    filled, problems = _filled(raw, Interpolator(env, path.parent, file, fixed=_is_fixed), reading.stage)
    problems += _flags(raw, file)
    keys = {problem.key for problem in problems}
    try:
        spec = DomainSpec.model_validate(filled)
    except ValidationError as error:
        problems += [
            problem for problem in config_problems(error, filled, DomainSpec, file=file) if problem.key not in keys
        ]
    else:
        problems = problems or [*_source_problems(reading, spec, file), *_setting_problems(spec, file)]
    if problems:
        raise ConfigError.together([_as_written(problem, filled) for problem in problems])
    return spec


def _is_fixed(location: Location) -> bool:
    """Whether a value of a manifest takes no variable; values inside `settings` always may."""
    names = [step for step in location if isinstance(step, str)]
    return "settings" not in names and not LITERAL_KEYS.isdisjoint(names)


def _as_written(problem: ConfigError, filled: Any) -> ConfigError:
    """Return a problem that shows the expression instead of a variable's value."""
    message = problem.problem
    for value in _from_variables(filled):
        if len(value) >= _SHORTEST_HIDDEN:
            message = message.replace(str(value), value.written)
    return problem if message == problem.problem else ConfigError(message, file=problem.file, key=problem.key)


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


def _flags(raw: Mapping[str, Any], file: str) -> list[ConfigError]:
    """Return values that would silently pass as others: true as 1, tier 0 and an empty access rule as "not set"."""
    problems = [ConfigError(_NO_RULE, file=file, key="access")] if raw.get("access", "") is None else []
    for index, row in _raw_sources(raw):
        if row.get("access", "") is None:
            problems.append(ConfigError(_NO_RULE, file=file, key=dotted(("sources", index, "access"), raw)))
        for key in _NUMBERS:
            if isinstance(row.get(key), bool) or (key == "tier" and key in row and row[key] in (0, None)):
                problem = f"must be a {'tier from 1 to 5' if key == 'tier' else 'number'}, got {row[key]!r}"
                problems.append(ConfigError(problem, file=file, key=dotted(("sources", index, key), raw)))
    return problems


def _filled(
    raw: Mapping[str, Any], filler: Interpolator, stage: StageOverlay
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Return the manifest with its variables filled in and the stage's dataset ids."""
    rows = list(raw["sources"]) if _raw_sources(raw) else None
    staged: dict[int, Any] = {}
    problems: list[ConfigError] = []
    for index, row in _raw_sources(raw):
        ids = stage.dataset_ids.get(str(row.get("id")))
        if rows is not None and ids is not None and stage.filler is not None:
            staged[index], missing = stage.filler.fill_known(ids, below=("dataset_ids", row["id"]))
            problems += missing
            rows[index] = {key: value for key, value in row.items() if key != "dataset_ids"}
    filled, missing = filler.fill_known(dict(raw) if rows is None else {**raw, "sources": rows})
    for index, ids in staged.items():
        filled["sources"][index]["dataset_ids"] = ids
    return filled, [*problems, *missing]


def _source_problems(reading: _ManifestsRead, spec: DomainSpec, file: str) -> list[ConfigError]:
    problems = []
    for source in spec.sources:
        place = f"sources.{source.id}"
        other = reading.sources.get(source.id)
        if other is not None and other.spec != source:
            problems.append(ConfigError(_SHARED.format(other.file), file=file, key=place))
            if _guard(other.spec) != _guard(source):
                reading.refuse(other.domain, ConfigError(_SHARED.format(file), file=other.file, key=place))
        known = reading.connections
        if source.connection is not None and known is not None and source.connection not in known:
            hint = nearest(source.connection, known) or " connections.yaml names none."
            problem = f"unknown connection {source.connection!r}.{hint}"
            problems.append(ConfigError(problem, file=file, key=f"{place}.connection"))
        for index, rule in enumerate(source.documents):
            if reading.doc_types and rule.doc_type not in reading.doc_types:
                problem = f"unknown document type {rule.doc_type!r}.{nearest(rule.doc_type, reading.doc_types)}"
                problems.append(ConfigError(problem, file=file, key=f"{place}.documents.{index}.doc_type"))
    return problems


def _guard(source: SourceSpec) -> tuple[Any, ...]:
    """Return the access rules of a source. If two manifests differ in them, they conflict and neither is trusted."""
    return source.access, source.classification


def _setting_problems(spec: DomainSpec, file: str) -> list[ConfigError]:
    try:
        layer = config_layer(spec.settings, file, file=file, key="settings", model=DomainSettings)
    except ConfigError as error:
        return list(error.each)
    names = layer["sources"].value or () if "sources" in layer else ()
    problems = filter(None, map(spec.unknown_name, names))
    return [ConfigError(problem, file=file, key="settings.sources") for problem in problems]


class LoadedRegistry(Registry):
    """The domains of the manifests. Unusable manifests are kept apart and do not affect other domains.

    Attributes:
        broken: the domains that cannot be searched, with their problems.
        unread: the problems of manifests whose domain is unknown.
        files: the file that each domain comes from.
        ruled: whether any manifest, even an unusable one, holds an access rule.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", arbitrary_types_allowed=True)

    broken: Mapping[str, ConfigError] = Field(default_factory=dict)
    unread: tuple[ConfigError, ...] = ()
    files: Mapping[str, str] = Field(default_factory=dict)
    ruled: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The domain names, sorted, including those with an unusable manifest."""
        return tuple(sorted({*self.domains, *self.broken}))

    @property
    def problems(self) -> tuple[ConfigError, ...]:
        """The problems of all manifests."""
        return (*self.unread, *(each for _, problem in sorted(self.broken.items()) for each in problem.each))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A notice for every unusable manifest; only `config check` shows the details."""
        domains = {(each.file or "", name) for name, problem in self.broken.items() for each in problem.each}
        unread = {(problem.file or "", "") for problem in self.unread}
        return tuple(_unusable(file, domain) for file, domain in (*sorted(unread), *sorted(domains)))

    def domain(self, name: str) -> DomainSpec:
        """Return a domain's specification.

        Raises:
            UnknownDomain: not registered; the error lists the registered domains and the unreadable manifests.
            ConfigError: its manifest cannot be used.
        """
        if name in self.broken:
            raise copy(self.broken[name])
        if name not in self.domains and self.unread:
            raise UnknownDomain(name, self.names, self.unread)
        return super().domain(name)

    def only(self, domains: Mapping[str, DomainSpec]) -> Self:
        """Return a registry of these domains only."""
        files = {name: file for name, file in self.files.items() if name in domains}
        return self.model_copy(update={"domains": domains, "broken": {}, "unread": (), "files": files})

    def without(self, problems: Mapping[str, ConfigError]) -> LoadedRegistry:
        """Return the registry with some domains set aside as broken."""
        domains = {name: spec for name, spec in self.domains.items() if name not in problems}
        return self.model_copy(update={"domains": domains, "broken": {**self.broken, **problems}})


def _unusable(file: str, domain: str) -> Notice:
    effect = f"so domain {domain!r} cannot be searched" if domain else "and which domain it holds is not known"
    message = f"{file} cannot be used, {effect}: 'context-engine config check' says why"
    return Notice(NoticeCode.MANIFEST_UNUSABLE, file, message, {"domain": domain or None})
