"""Embedders, rerankers, refiners and chat models by name, the models of one engine, and the reranker of a search."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers import reranker_of
from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine.reranking import chosen
from context_engine.core.models import DomainSpec, EffectiveSettings, ModelSettings, SearchRequest, Settings
from context_engine.core.protocols import ChatModel, Clock, Embedder, Entailment, QueryRefiner, Reranker
from context_engine.core.query.features import UNKNOWN, language
from context_engine.core.query.prepare import question_kind
from context_engine.core.ranking.scope import AUTO
from context_engine.errors import ConfigError, ContextEngineError, InvalidRequest, nearest
from context_engine.settings import Setting, SettingsResolver
from context_engine.settings.connections import Connection
from context_engine.settings.layers import with_layer
from context_engine.settings.messages import unknown_key
from context_engine.wiring.adapters import (
    CHAT_MODELS,
    EMBEDDERS,
    ENTAILMENT,
    REFINERS,
    RERANKERS,
    find_adapter,
    load_adapter,
)

if TYPE_CHECKING:
    from context_engine.adapters.embedders.openai import EmbedderUse


def open_embedder(name: str, options: Mapping[str, Any], context: ModelContext, *, file: str | None = None) -> Embedder:
    """Return an embedder by its name.

    Args:
        options: its options; problems are reported below `embedder_options`, or `options` without a file.
        file: the location of the name, for messages.

    Raises:
        ConfigError: not installed, or unusable options.
    """
    from context_engine.adapters.embedders.asynchronous import embedder_of  # its package brings the HTTP client

    return embedder_of(_open(EMBEDDERS, name, options, context, file, "embedder"))


_NAMED_BY: Final = ("model", "folder")


def model_name(settings: Settings | ModelSettings) -> str:
    """Return the name of the embedder's model as its options give it, else that of the embedder, "" without one."""
    options = settings.embedder_options
    return next((str(options[key]) for key in _NAMED_BY if key in options), settings.embedder or "")


def with_known_floor(settings: Settings) -> Settings:
    """Return settings with the model's own `cosine_floor`, if they have an embedder and leave it open."""
    if settings.embedder is None or settings.cosine_floor is not None:
        return settings
    from context_engine.adapters.embedders import known_model  # its package brings the HTTP client

    return settings.model_copy(update={"cosine_floor": known_model(model_name(settings)).floor})


def open_reranker(name: str, options: Mapping[str, Any], context: ModelContext, *, file: str | None = None) -> Reranker:
    """Return a reranker by its name; as `open_embedder`."""
    return reranker_of(_open(RERANKERS, name, options, context, file, "reranker"))


def _open(group: str, name: str, options: Mapping[str, Any], context: ModelContext, file: str | None, key: str) -> Any:
    factory = load_adapter(find_adapter(group, name, file=file, key=key))
    try:
        if _takes(factory, options, context):
            return awaited(factory(options, context))
        if options:
            raise ConfigError(f"{name!r} takes no options: remove {', '.join(sorted(options))}")
        return awaited(factory())
    except ConfigError as error:
        if error.file or (file is None and error.key == key):
            raise
        options_key = "options" if file is None else f"{key}_options"
        where = ".".join(part for part in (options_key, error.key) if part)
        raise ConfigError(error.problem, file=file, key=where) from error
    except ContextEngineError:
        raise
    except Exception as error:  # of foreign code, whose error text may hold secrets
        arguments = "(options, context)" if _takes(factory, options, context) else "()"
        problem = f"{name!r} failed with {type(error).__name__} when its entry point was called with {arguments}"
        raise ConfigError(problem, file=file, key=key) from error


def _takes(factory: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a factory accepts options and context; a factory that needs neither may be a class without
    arguments.
    """
    try:
        inspect.signature(factory).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


class Models:
    """The models of one engine: its embedder, opened once at first use, its rerankers, its refiner and its chat model.

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

    def chat_model(self) -> ChatModel | None:
        """Return the configured chat model; None if none is configured.

        Raises:
            ConfigError: not installed, or unusable options.
        """
        settings = self._settings()
        name = settings.values.chat_model
        if name is None:
            return None
        origin, key = settings.origins.get("chat_model", "default"), "chat_model"
        return _open(CHAT_MODELS, name, settings.values.chat_model_options, self.context, origin, key)  # type: ignore[no-any-return]

    def entailment(self) -> Entailment | None:
        """Return the configured entailment model; None if none is configured.

        Raises:
            ConfigError: not installed, or unusable options.
        """
        settings = self._settings()
        name = settings.values.entailment
        if name is None:
            return None
        origin, key = settings.origins.get("entailment", "default"), "entailment"
        return _open(ENTAILMENT, name, settings.values.entailment_options, self.context, origin, key)  # type: ignore[no-any-return]

    def _required(self) -> Embedder:
        embedder = self.embedder()
        if embedder is None:
            raise ConfigError("it needs an embedder, and none is configured: name one as 'embedder'")
        return embedder

    def _inner(self, name: str, options: Mapping[str, Any]) -> Reranker:
        return open_reranker(name, options, self.context)


def unknown_reranker(settings: EffectiveSettings) -> ConfigError | None:
    """Return an error if `rerank_by` names none of `rerankers`, else None."""
    name, known = settings.values.rerank_by, settings.values.rerankers
    if name is None or name in known:
        return None
    problem = f"{name!r} is not one of the rerankers in 'rerankers'.{nearest(name, known) or ' It names none.'}"
    return ConfigError(problem, file=settings.origins.get("rerank_by", "default"), key="rerank_by")


@dataclass(frozen=True, slots=True)
class RerankerChoice:
    """The rerankers of an engine, and the choice of the one that runs in a search.

    Attributes:
        reranker: runs if a search names none.
        from_code: it was passed in and replaces all configured rerankers.
        named: the rerankers that `rerank_by` can name.
    """

    resolver: SettingsResolver
    reranker: Reranker | None
    from_code: bool
    named: Mapping[str, Reranker] = field(default_factory=dict)

    @classmethod
    def of(cls, resolver: SettingsResolver, given: Any = None, *, models: Models | None = None) -> RerankerChoice:
        """Return the given reranker, else the configured one, opened by `models`.

        Args:
            given: see `reranker_of`.

        Raises:
            InvalidRequest: the given one is no reranker.
            ConfigError: not installed, or unusable options.
        """
        if given is not None:
            return cls(resolver, reranker_of(given), True)
        return cls(resolver, models.reranker(), False, models.rerankers()) if models else cls(resolver, None, False)

    def of_settings(self, settings: Settings) -> Reranker | None:
        """Return the reranker of a search with settings from `resolve`; None if there is none."""
        every: dict[str | None, Reranker | None] = {None: self.reranker}
        every.update(self.named)
        return chosen(every, settings)

    def resolve(self, domain: DomainSpec | None, request: SearchRequest) -> EffectiveSettings:
        """Return the settings of a search.

        Raises:
            InvalidRequest: an unusable option, or reranking on an engine that was built without it.
            ConfigError: the same, set in a file.
        """
        settings = by_kind(self.resolver.resolve(domain, request), request.query)
        if self.from_code and self.reranker is not None:
            own = {"reranker": Setting(self.reranker.name, "code")}
            own |= {} if settings.values.rerank_by is None else {"rerank_by": Setting(None, "code")}
            return hybrid(with_layer(settings, own), request.query, has_reranker=True)
        by = settings.values.rerank_by
        has_reranker = self.reranker is not None if by is None else by in self.named
        settings = hybrid(settings, request.query, has_reranker=has_reranker)
        if has_reranker or not settings.values.reranking_enabled:
            return settings
        unknown = unknown_reranker(settings)
        if unknown is not None:
            raise InvalidRequest(f"option 'rerank_by': {unknown.problem}") if unknown.file == "call" else unknown
        name = settings.values.reranker if by is None else by
        if name == "noop":
            return settings
        problem = f"this engine was built with reranking_enabled false, so its reranker {name!r} is not open: "
        problem += "set it to true in rag-pipeline.json, in CONTEXT_ENGINE_RERANKING_ENABLED or in the pipeline config"
        origin, key = settings.origins.get("reranking_enabled", "default"), "reranking_enabled"
        raise InvalidRequest(problem) if origin == "call" else ConfigError(problem, file=origin, key=key)


def by_kind(settings: EffectiveSettings, query: str) -> EffectiveSettings:
    """Return the settings of a search with the scope threshold of its kind of question, where that is `auto`."""
    thresholds = settings.values.scope_by_kind
    if not thresholds or settings.values.scope_threshold != AUTO:
        return settings
    value = thresholds.get(question_kind(query))
    return settings if value is None else with_layer(settings, {"scope_threshold": Setting(value, "scope_by_kind")})


_READ_BY_RERANKERS: Final = ("en", UNKNOWN)


def hybrid(settings: EffectiveSettings, query: str, *, has_reranker: bool) -> EffectiveSettings:
    """Return the settings of a search with the merge of text and vectors resolved.

    For a question that is not in English "rrf_rerank" becomes plain ranks, because its rerankers read English only.

    Raises:
        ConfigError: "rrf_rerank" has no reranker.
    """
    if settings.values.merge_method != "rrf_rerank" or not settings.values.reranking_enabled:
        return settings
    if not has_reranker:
        problem = "'rrf_rerank' needs a reranker: name one as 'reranker', or take 'rrf'"
        raise ConfigError(problem, file=settings.origins.get("merge_method"), key="merge_method")
    if language(query) in _READ_BY_RERANKERS:
        return settings
    return with_layer(settings, {"reranking_enabled": Setting(False, "merge_method")})


FUNNEL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "stage1_top_k": 50,
        "similarity_threshold": 0.75,
        "similarity_kind": "cosine",
        "stage2_top_k": 15,
        "reranker": "cross_encoder",
        "reranker_options": {"model": "cross-encoder/ms-marco-MiniLM-L-12-v2"},
        "context_max_tokens": 12_000,
        "max_chunk_tokens": 800,
    }
)
"""Fifty candidates, a cosine of at least .75, the best fifteen by a cross-encoder, 12,000 tokens of context, and
chunks of up to 800 tokens from the chunking profile `funnel`.

The threshold must fit the embedding model: measured with all-MiniLM-L6-v2, three of four right passages lie below .75
(their median is .65), so lower it for such a model. Without an embedder no candidate has a cosine, and all pass,
marked. As a file it is `config/rag-pipeline.funnel.example.json`, which `context-engine init` writes too: put it in
place of `rag-pipeline.json`.
"""
