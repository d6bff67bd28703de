"""Embedders and rerankers by name, through the entry points of their packages, and the models of one engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.adapters.model_access import ModelContext
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import EffectiveSettings
from context_engine.core.protocols import Clock, Embedder, QueryRefiner, Reranker
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection
from context_engine.settings.messages import unknown_key
from context_engine.wiring.adapters import EMBEDDERS, REFINERS, RERANKERS, find_adapter, load_adapter

if TYPE_CHECKING:
    from context_engine.adapters.embedders.openai import EmbedderUse


def open_embedder(
    name: str, options: Mapping[str, Any], context: ModelContext, *, file: str | None = None, key: str = "embedder"
) -> Embedder:
    """Return an embedder by its name.

    Args:
        name: of an entry point of `context_engine.embedders`.
        options: its options; problems are reported below `<key>_options`, or `options` without a file.
        context: the services it may use.
        file, key: the location of the name, for messages.

    Raises:
        ConfigError: not installed, or unusable options.
    """
    return _open(EMBEDDERS, name, options, context, file, key)  # type: ignore[no-any-return]


def open_reranker(
    name: str, options: Mapping[str, Any], context: ModelContext, *, file: str | None = None, key: str = "reranker"
) -> Reranker:
    """Return a reranker by its name; as `open_embedder`."""
    return _open(RERANKERS, name, options, context, file, key)  # type: ignore[no-any-return]


def _open(group: str, name: str, options: Mapping[str, Any], context: ModelContext, file: str | None, key: str) -> Any:
    factory = load_adapter(find_adapter(group, name, file=file, key=key))
    try:
        if _takes(factory, options, context):
            return factory(options, context)
        if options:
            raise ConfigError(f"{name!r} takes no options: remove {', '.join(sorted(options))}")
        return factory()
    except ConfigError as error:
        if error.file or (file is None and error.key == key):
            raise
        options_key = "options" if file is None else f"{key}_options"
        where = ".".join(part for part in (options_key, error.key) if part)
        raise ConfigError(error.problem, file=file, key=where) from error


def _takes(factory: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a factory accepts options and context; one that needs neither may be a class without arguments."""
    try:
        inspect.signature(factory).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


class Models:
    """The models of one engine: its embedder, opened once at first use, its rerankers and its refiner.

    Args:
        settings: the settings without those of a domain or call, because all searches share the models.
        connection: returns a connection by name.
        data_dir: returns the folder for files kept between runs.
        clock: the time.
    """

    def __init__(
        self,
        settings: Callable[[], EffectiveSettings],
        *,
        connection: Callable[[str], Connection],
        data_dir: Callable[[], Path],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._lock = Lock(reentrant=True)
        self._embedder: Embedder | None = None
        self.context = ModelContext(
            connection=connection, clock=clock, data_dir=data_dir, embedder=self._required, reranker=self._inner
        )

    def embedder(self) -> Embedder | None:
        """Return the configured embedder, always the same object; None if none is configured.

        Raises:
            ConfigError: not installed, or unusable options.
        """
        with self._lock:
            settings = self._settings()
            name = settings.values.embedder
            if self._embedder is None and name is not None:
                origin = settings.origins.get("embedder", "default")
                self._embedder = open_embedder(name, settings.values.embedder_options, self.context, file=origin)
            return self._embedder

    def share_embedder(self, other: Models) -> None:
        """Reuse the open embedder and its query cache of another instance if the settings are the same."""
        own, theirs = self._settings().values, other._settings().values
        if (own.embedder, own.embedder_options) == (theirs.embedder, theirs.embedder_options):
            with other._lock:
                self._embedder = other._embedder

    def embedder_use(self) -> EmbedderUse | None:
        """Return the usage of the embedder so far; None if none was opened."""
        with self._lock:
            embedder = self._embedder
        if embedder is None:
            return None
        from context_engine.adapters.embedders.openai import embedder_use  # only here: it brings the HTTP client

        return embedder_use(embedder)

    def reranker(self) -> Reranker | None:
        """Return the configured reranker; None if none is configured or reranking is off.

        Raises:
            ConfigError: not installed, or unusable options.
        """
        settings = self._settings()
        name = settings.values.reranker
        if name == "noop" or not settings.values.reranking_enabled:
            return None
        origin = settings.origins.get("reranker", "default")
        return open_reranker(name, settings.values.reranker_options, self.context, file=origin)

    def rerankers(self) -> dict[str, Reranker]:
        """Return the rerankers of the setting `rerankers` by name; empty if reranking is off.

        Raises:
            ConfigError: one is not installed, or has an unusable row or options.
        """
        settings = self._settings()
        if not settings.values.reranking_enabled:
            return {}
        origin = settings.origins.get("rerankers", "default")
        return {name: self._named(name, row, origin) for name, row in settings.values.rerankers.items()}

    def _named(self, name: str, row: Mapping[str, Any], origin: str) -> Reranker:
        key, known = f"rerankers.{name}", ["reranker", "options"]
        unknown = next((name for name in row if name not in known), None)
        if unknown is not None:
            raise ConfigError(unknown_key(unknown, known), file=origin, key=f"{key}.{unknown}")
        kind, options = row.get("reranker"), row.get("options", {})
        if not isinstance(kind, str):
            raise ConfigError("names the kind of reranker, such as cross_encoder", file=origin, key=f"{key}.reranker")
        if not isinstance(options, Mapping):
            raise ConfigError("must be a mapping of keys to values", file=origin, key=f"{key}.options")
        try:
            return open_reranker(kind, options, self.context)
        except ConfigError as error:
            where = ".".join(part for part in (key, error.key) if part)
            raise ConfigError(error.problem, file=origin, key=where) from error

    def refiner(self) -> QueryRefiner | None:
        """Return the configured query refiner; None if none is configured or refinement is off.

        Raises:
            ConfigError: not installed, or unusable options.
        """
        settings = self._settings()
        name = settings.values.query_refiner
        if name is None or not settings.values.query_refinement:
            return None
        origin, key = settings.origins.get("query_refiner", "default"), "query_refiner"
        return _open(REFINERS, name, settings.values.query_refiner_options, self.context, origin, key)  # type: ignore[no-any-return]

    def _required(self) -> Embedder:
        embedder = self.embedder()
        if embedder is None:
            raise ConfigError("it needs an embedder, and none is configured: name one as 'embedder'")
        return embedder

    def _inner(self, name: str, options: Mapping[str, Any]) -> Reranker:
        return open_reranker(name, options, self.context)
