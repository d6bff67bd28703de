"""The dict API: chunk dicts in, ranked chunk dicts with `_provenance` out. Thin over the engine.

    from context_engine.rag import create_rag_pipeline, retrieve, rerank

    pipeline = create_rag_pipeline({"stage2_top_k": 10})
    chunks = pipeline["retrieve"]("NPA classification criteria", domain="NPA")
    chunks = retrieve("risk assessment framework", domain="NPA", options={"adapter": my_adapter})
    ranked = rerank("query", chunks, top_k=8)

`RagPipeline` here is what `create_rag_pipeline` returns; `context_engine.RAGPipeline` is another interface to the same
engine: the requests and answers of the RAG API, with `await pipeline.process(request)`.

`retrieve` returns everything that passes `min_relevance`; `out_of_scope` and `min_chunks` apply only on request.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from context_engine.core.chunking.strategy import ChunkingStrategy, get_strategy, read_strategies
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import Engine, SystemClock, rank_chunks
from context_engine.core.models import (
    NOBODY,
    Caller,
    NoticeCode,
    Principal,
    SearchRequest,
    SearchResult,
    Status,
    advice_on_dicts,
    checked_top_k,
    chunk_from_dict,
    principal_from_dict,
    to_date,
)
from context_engine.core.policy.filters import parse_filter
from context_engine.core.protocols import Mask, Recorder
from context_engine.core.ranking.select import filter_by_similarity
from context_engine.errors import DegradedRetrieval, InvalidRequest, UnknownDomain, nearest
from context_engine.settings import config_layer
from context_engine.settings.layers import check_names
from context_engine.wiring.audit import open_recorder
from context_engine.wiring.build import build_engine
from context_engine.wiring.functions import SPEAKS_FOR_ITSELF, FunctionEngines
from context_engine.wiring.models import RerankerChoice
from context_engine.wiring.setup import Setup, load_setup

if TYPE_CHECKING:
    from context_engine.adapters.sources.dify.adapter import DifyAdapter

__all__ = [
    "ChunkList",
    "RagPipeline",
    "create_rag_pipeline",
    "dify_kb_adapter",
    "filter_by_similarity",
    "get_chunking_strategy",
    "get_rag_config",
    "rerank",
    "retrieve",
]

_REQUEST_OPTIONS: Final = frozenset(
    {"adapter", "out_of_scope", "filters", "as_of", "persona", "require_tiers", "require_sources", "strict"}
    | {"caller", "principal", "request_id"}
)
_MISTAKES_OF_ADAPTERS: Final = (NoticeCode.CHUNK_UNREADABLE, NoticeCode.KEY_MISSPELT, NoticeCode.SCORE_KIND_MISSING)
"""What the author of an adapter should correct; given as a Python warning too."""


class ChunkList(list[dict[str, Any]]):
    """The ranked chunk dicts; `result` is the whole SearchResult, or None if the domain is not registered."""

    result: SearchResult | None = None


def create_rag_pipeline(config: Mapping[str, Any] | None = None) -> RagPipeline:
    """Return {"retrieve", "rerank", "get_config", "get_chunking_strategy"} with configuration overrides.

        with create_rag_pipeline({"stage2_top_k": 10}) as pipeline:
            chunks = pipeline["retrieve"]("NPA classification criteria", domain="NPA")

    `rerank` without `top_k` uses the pipeline's `stage2_top_k`.

    Args:
        config: keys of `rag-pipeline.json`; they override files and environment for this pipeline only.

    Raises:
        ConfigError: an unknown key or a value out of range.
    """
    return RagPipeline(_mapping(config, "config"))


def retrieve(query: str, domain: str = "NPA", options: Mapping[str, Any] | None = None) -> ChunkList:
    """Search a domain in two stages and return the ranked chunk dicts.

    Args:
        query: 1 to 10 000 characters.
        domain: a registered domain; any name if an adapter is given.
        options: `adapter` (a function of query, domain, top_k that returns chunk dicts, an object with such a method
            `search`, or `dify_kb_adapter`; used instead of the domain's sources), `stage1_top_k`, `stage2_top_k`,
            `min_relevance`, `out_of_scope` (True: nothing is returned unless something reaches the scope threshold),
            `filters`, `as_of`, `persona`, `require_tiers`, `require_sources`, `strict`, `principal` (the caller as
            authenticated by the program: a `Principal`, or a dict of id, roles, groups and clearance; it decides what
            may be searched), `caller` (a description of the caller; it grants nothing), `request_id` and every key of
            the configuration that `config show` lists under "search".

    Returns:
        The chunks, best first, with `.result`. A domain that is unregistered, or closed to the principal, gives an
        empty list and a warning.

    Raises:
        InvalidRequest: an invalid query or option.
        ConfigError: an invalid configuration.
        AuditUnavailable: the answer could not be recorded, and `audit_mode` is `required`.
        AllSourcesFailed: no source answered.
    """
    with RagPipeline({}) as pipeline:
        return pipeline.retrieve(query, domain, options)


def rerank(query: str, chunks: Iterable[Mapping[str, Any]], top_k: int = 8) -> ChunkList:
    """Run the whole of stage 2 over chunk dicts that were retrieved elsewhere.

    Args:
        query: 1 to 10 000 characters.
        chunks: dicts with `content`; never changed.
        top_k: most chunks returned, 1 to 1000.

    Raises:
        InvalidRequest: an invalid query, chunk or top_k.
        AuditUnavailable: the ranking could not be recorded, and `audit_mode` is `required`.
    """
    with RagPipeline({}) as pipeline:
        return pipeline.rerank(query, chunks, checked_top_k(top_k, "top_k"))


def dify_kb_adapter(
    *,
    config_dir: str | Path | None = None,
    stage: str | None = None,
    timeout_s: float = 10.0,
    principal: Principal | Mapping[str, Any] | None = None,
) -> DifyAdapter:
    """Return a function (query, domain, top_k) over the Dify sources of each domain.

        adapter = dify_kb_adapter()
        chunks = retrieve("risk assessment framework", domain="NPA", options={"adapter": adapter})

    Args:
        config_dir, stage: where manifests and connections are; None for the usual places.
        timeout_s: seconds for one call of the function.
        principal: the caller, as for `retrieve`; None for nobody.

    Raises:
        ConfigError: an invalid configuration.
        InvalidRequest: an invalid principal.
    """
    return _over_dify(load_setup(config_dir=config_dir, stage=stage), timeout_s, _principal(principal))


def _over_dify(setup: Setup, timeout_s: float, principal: Principal = NOBODY) -> DifyAdapter:
    from context_engine.adapters.sources.dify.adapter import dify_kb_adapter as make

    return make(
        setup.registry,
        setup.config.connections.get,
        SystemClock(),
        timeout_s=timeout_s,
        access=setup.access,
        principal=principal,
    )


def get_rag_config() -> dict[str, Any]:
    """Return the pipeline configuration in force: every key with its value, and the chunking strategies."""
    with RagPipeline({}) as pipeline:
        return pipeline.get_config()


def get_chunking_strategy(doc_type: str) -> dict[str, Any]:
    """Return how a document type is cut; an unknown type gets the `default` row."""
    with RagPipeline({}) as pipeline:
        return pipeline.get_chunking_strategy(doc_type)


class RagPipeline(Mapping[str, Callable[..., Any]]):
    """Four callables under one configuration: its files are read once, and nothing is shared with another pipeline.

    A mapping and a context manager. `close` closes the sources that were opened; another call opens them again.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        config = dict(config)
        self._strategies = config.pop("chunking_strategies", None)
        self._overrides = config
        self._pipeline_keys = config_layer(config, "pipeline config").keys()
        self._lock = Lock()
        self._setup: Setup | None = None
        self._engine: Engine | None = None
        self._engines: FunctionEngines | None = None
        self._rank_recorder: Recorder | None = None
        self._dify_adapter: DifyAdapter | None = None
        self._callables: Mapping[str, Callable[..., Any]] = {
            "retrieve": self.retrieve,
            "rerank": self.rerank,
            "get_config": self.get_config,
            "get_chunking_strategy": self.get_chunking_strategy,
        }
        self._loaded().resolver.base()
        self._table()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._callables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._callables)

    def __len__(self) -> int:
        return len(self._callables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def mask(self) -> Mask:
        """What masks personal data as the settings say, for `build_context_block`."""
        return self._functions().mask

    def close(self) -> None:
        """Close the sources that were opened; may be called twice."""
        with self._lock:
            engine, self._engine = self._engine, None
            dify, self._dify_adapter = self._dify_adapter, None
        for opened in (engine, dify):
            if opened is not None:
                opened.close()

    def retrieve(self, query: str, domain: str = "NPA", options: Mapping[str, Any] | None = None) -> ChunkList:
        """See `context_engine.rag.retrieve`."""
        asked = _mapping(options, "options")
        adapter = asked.pop("adapter", None)
        request = self._request(query, domain, asked)
        if adapter is dify_kb_adapter:
            adapter = self._dify().acting_as(request.principal)
        if adapter is not None:
            return _listed(self._functions().engine(adapter, request.domain).search(request))
        try:
            return _listed(self._registered().search(request))
        except UnknownDomain as error:
            warnings.warn(str(error), UserWarning, stacklevel=3)
            return ChunkList()

    def rerank(self, query: str, chunks: Iterable[Mapping[str, Any]], top_k: int | None = None) -> ChunkList:
        """See `context_engine.rag.rerank`; without a top_k the pipeline's own `stage2_top_k` holds."""
        dicts = _several(chunks, "chunks")
        notices = advice_on_dicts(dicts)
        read = [chunk_from_dict(chunk, notices) for chunk in dicts]
        domain = next((str(chunk.extra["domain"]) for chunk in read if chunk.extra.get("domain")), "NPA")
        request = self._request(query, domain, {} if top_k is None else {"stage2_top_k": checked_top_k(top_k, "top_k")})
        functions = self._functions()
        settings = functions.choice.resolve(functions.domain(domain), request)
        ranked = rank_chunks(
            request,
            SPEAKS_FOR_ITSELF,
            read,
            settings=settings,
            notices=notices,
            reranker=functions.choice.of_settings(settings.values),
            mask=functions.mask,
            recorder=self._rank_recorder,
        )
        return _listed(ranked)

    def get_config(self) -> dict[str, Any]:
        """See `context_engine.rag.get_rag_config`."""
        values = self._loaded().resolver.base().values.model_dump(mode="json")
        return {**values, "chunking_strategies": {name: row.to_dict() for name, row in self._table().items()}}

    def get_chunking_strategy(self, doc_type: str) -> dict[str, Any]:
        """See `context_engine.rag.get_chunking_strategy`."""
        return get_strategy(doc_type, self._table()).to_dict()

    def _loaded(self) -> Setup:
        with self._lock:
            if self._setup is None:
                self._setup = load_setup().with_pipeline(self._overrides)
            return self._setup

    def _table(self) -> Mapping[str, ChunkingStrategy]:
        if self._strategies is None:
            return self._loaded().config.chunking
        return read_strategies(self._strategies, file="pipeline config")

    def _registered(self) -> Engine:
        setup = self._loaded()
        with self._lock:
            if self._engine is None:
                self._engine = build_engine(setup)
            return self._engine

    def _dify(self) -> DifyAdapter:
        """Return the function over the Dify sources of this pipeline's configuration."""
        setup = self._loaded()
        with self._lock:
            if self._dify_adapter is None:
                self._dify_adapter = _over_dify(setup, setup.resolver.base().values.source_timeout_s)
            return self._dify_adapter

    def _functions(self) -> FunctionEngines:
        setup = self._loaded()
        with self._lock:
            if self._engines is None:
                choice = RerankerChoice.of(setup.resolver, models=setup.models())
                self._rank_recorder = open_recorder(setup, kind="rank")
                recorder = open_recorder(setup)
                self._engines = FunctionEngines(choice, setup.mask(), setup.registry.domains, setup.access, recorder)
            return self._engines

    def _request(self, query: str, domain: str, options: dict[str, Any]) -> SearchRequest:
        options = {key: value for key, value in options.items() if value is not None or key not in _REQUEST_OPTIONS}
        overrides = {key: value for key, value in options.items() if key not in _REQUEST_OPTIONS}
        check_names(overrides, beside=_REQUEST_OPTIONS)
        if not _flag(options, "out_of_scope") and "scope_threshold" not in {*self._pipeline_keys, *overrides}:
            overrides["scope_threshold"] = 0.0
        return SearchRequest(
            query=query,
            domain=domain,
            caller=_caller(options.get("caller")),
            principal=_principal(options.get("principal")),
            request_id=options.get("request_id"),
            as_of=_day(options.get("as_of")),
            filters=parse_filter(options.get("filters")),
            persona=options.get("persona"),
            overrides=overrides,
            require_tiers=_several(options.get("require_tiers", ()), "require_tiers"),
            require_sources=_several(options.get("require_sources", ()), "require_sources"),
            strict=_flag(options, "strict"),
        )


def _caller(value: Any) -> Caller:
    if isinstance(value, Caller):
        return value
    fields, known = _mapping(value, "caller"), Caller.__dataclass_fields__
    for key in fields:
        if key not in known:
            raise InvalidRequest(f"caller has no {key!r}.{nearest(str(key), known)}")
    return Caller(**fields)


def _principal(value: Any) -> Principal:
    if value is None or isinstance(value, Principal):
        return value or NOBODY
    return principal_from_dict(_mapping(value, "principal"))


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidRequest(f"{name} must be a mapping, got {type(value).__name__}")
    return dict(value or {})


def _flag(options: Mapping[str, Any], name: str) -> bool:
    if isinstance(value := options.get(name, False), bool):
        return value
    raise InvalidRequest(f"{name} must be true or false, got {value!r}")


def _several(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidRequest(f"{name} must be a list, got {type(value).__name__}")
    return tuple(value)


def _day(value: Any) -> date | None:
    day = None if value is None else to_date(value)
    if day is None and value is not None:
        raise InvalidRequest(f"as_of must be a date such as '2025-06-30', got {value!r}")
    return day


def _listed(result: SearchResult) -> ChunkList:
    if result.status is Status.DEGRADED:
        problems = [str(source.error["message"]) for source in result.sources if source.error] or result.warnings
        warnings.warn(f"search {result.search_id}: {'; '.join(problems)}", DegradedRetrieval, stacklevel=4)
    for notice in result.notices:
        if notice.code in _MISTAKES_OF_ADAPTERS:
            warnings.warn(f"search {result.search_id}: {notice.message}", UserWarning, stacklevel=4)
    chunks = ChunkList(chunk.to_dict() for chunk in result.chunks)
    chunks.result = result
    return chunks
