"""A set-up under test: the configuration with some settings changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from context_engine.core.engine import Engine
from context_engine.core.models import IndexSettings, Settings, lifetime
from context_engine.errors import ConfigError, EmbedderError, InvalidRequest, nearest
from context_engine.settings import ALIASES
from context_engine.settings.files import Unparsed
from context_engine.settings.registry import LoadedRegistry
from context_engine.wiring.build import build_engine
from context_engine.wiring.models import Models
from context_engine.wiring.setup import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Changes to a configuration.

    Attributes:
        settings: keys of `Settings` with values, or with texts that are parsed by the key's type.
        sources: settings of sources, by adapter name or source id.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The changes on one line; "as configured" without any."""
        parts = [f"{key}={_text(value)}" for key, value in self.settings.items()]
        for name, settings in self.sources.items():
            parts += [f"{name}.{key}={_text(value)}" for key, value in settings.items()]
        return " ".join(parts) or "as configured"

    def over(self, below: Variant) -> Variant:
        """Return the changes of both; this one's take precedence."""
        names = {**below.sources, **self.sources}
        sources = {name: {**below.sources.get(name, {}), **self.sources.get(name, {})} for name in names}
        return Variant(settings={**below.settings, **self.settings}, sources=sources)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def assignment(text: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE.

    Raises:
        InvalidRequest: the text has another form.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidRequest(f"a setting is written KEY=VALUE, got {text!r}")
    return key.strip(), value.strip()


def read_variant(assignments: Iterable[str | tuple[str, str]], setup: Setup) -> Variant:
    """Parse KEY=VALUE texts; ADAPTER.KEY and SOURCE.KEY are settings of sources.

    Raises:
        InvalidRequest: a key is unknown, given twice, or only takes effect with a new ingest.
        ConfigError: an invalid value.
    """
    settings: dict[str, Any] = {}
    sources: dict[str, dict[str, Any]] = {}
    for item in assignments:
        key, value = assignment(item) if isinstance(item, str) else item
        head, _, rest = key.rpartition(".")
        target, name = (sources.setdefault(head, {}), rest) if head else (settings, ALIASES.get(key, key))
        if name in target:
            raise InvalidRequest(f"setting {key} is given twice")
        if head:
            _check_source(head, setup)
        elif name not in Settings.model_fields:
            raise InvalidRequest(f"unknown setting {key!r}.{nearest(key, [*Settings.model_fields, *ALIASES])}")
        elif name in IndexSettings.model_fields:
            raise InvalidRequest(
                f"setting {name} {lifetime(name)}, and nothing is ingested here: ingest with it into another folder "
                "(--data-dir), and run this on that folder"
            )
        target[name] = _value(value) if head else value
    if settings:
        setup.resolver.with_pipeline(_as_texts(settings)).base()
    return Variant(settings=settings, sources=sources)


def _as_texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: Unparsed(value) if isinstance(value, str) else value for key, value in settings.items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _names(setup: Setup) -> set[str]:
    specs = [spec for domain in setup.registry.domains.values() for spec in domain.sources]
    return {spec.id for spec in specs} | {spec.adapter for spec in specs}


def _check_source(name: str, setup: Setup) -> None:
    known = _names(setup)
    if name not in known:
        raise InvalidRequest(f"no source or adapter is called {name!r}.{nearest(name, known)}")


def with_variant(setup: Setup, variant: Variant) -> Setup:
    """Return a configuration with the changes applied.

    Raises:
        ConfigError: an invalid value.
    """
    changed = setup.with_pipeline(_as_texts(variant.settings)) if variant.settings else setup
    return replace(changed, registry=_with_sources(setup.registry, variant.sources)) if variant.sources else changed


def _with_sources(registry: LoadedRegistry, changes: Mapping[str, Mapping[str, Any]]) -> LoadedRegistry:
    domains = {}
    for name, domain in registry.domains.items():
        specs = []
        for spec in domain.sources:
            changed = {**changes.get(spec.adapter, {}), **changes.get(spec.id, {})}
            specs.append(spec.model_copy(update={"settings": {**spec.settings, **changed}}) if changed else spec)
        domains[name] = domain.model_copy(update={"sources": tuple(specs)})
    return registry.model_copy(update={"domains": domains})


def open_with_models(
    setup: Setup, variant: Variant, data_dir: Path, like: Models | None = None
) -> tuple[Engine, Models]:
    """Return an engine over a changed configuration, which the caller closes, and its models.

    The embedding model is loaded here. Loaded by the first search, it could exceed the source's deadline; the source is
    then skipped for a while, and all questions of a small file would be searched without vectors.

    Args:
        like: models of an earlier engine; an equal embedder is reused, because it has cached the questions.

    Raises:
        ConfigError: an invalid value, or a reranker that is not installed.
    """
    try:
        changed = with_variant(setup, variant)
        models = changed.models(data_dir)
        if like is not None:
            models.share_embedder(like)
        engine = build_engine(changed, data_dir=data_dir, models=models, recorded=False)
    except ConfigError as error:
        raise ConfigError(
            f"{error.problem} (in the set-up {variant.name!r})", file=error.file, key=error.key
        ) from error
    _load_embedder(models)
    return engine, models


def _load_embedder(models: Models) -> None:
    """Load the embedding model; ignore a failure, which each search reports."""
    with suppress(EmbedderError, ConfigError):
        embedder = models.embedder()
        if embedder is not None:
            _ = embedder.dimension
