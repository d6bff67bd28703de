"""Engines over a caller's own function instead of registered sources."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Final

from cachetools import LRUCache

from context_engine.adapters.sources.callable import source_of
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import Engine
from context_engine.core.models import DomainSpec, KeptRecords, MaskedOutputs, Registry, SourceSpec, SourceType
from context_engine.core.policy.access import OPEN_ACCESS, ManifestPolicy, OpenAccess
from context_engine.core.protocols import AccessPolicy, Mask, Recorder
from context_engine.wiring.models import RerankerChoice

SPEAKS_FOR_ITSELF: Final = SourceSpec(
    id="adapter", type=SourceType.GENERAL_WEB, adapter="callable", trust_document_metadata=True
)
"""The source of a caller's chunk dicts, each of which may state its own source, tier and trust; default tier 5."""

_MOST_KEPT: Final = 32
_NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({})


class FunctionEngines:
    """One engine per function and domain, the last 32, so that the next search knows of hung or busy sources.

    Thread-safe.

    Args:
        choice: the reranker and the settings of all engines.
        mask: masks personal data if the settings say so.
        domains: the registered domains; their settings of masking and recording hold for a function of that domain too.
        access: the policy in force. It does not limit the caller's own function; but with a policy, chunks classified
            above `SPEAKS_FOR_ITSELF` need a principal with the clearance.
        recorder: records the searches of every engine.
    """

    def __init__(
        self,
        choice: RerankerChoice,
        mask: Mask,
        domains: Mapping[str, DomainSpec],
        access: AccessPolicy = OPEN_ACCESS,
        recorder: Recorder | None = None,
    ) -> None:
        self.choice, self.mask = choice, mask
        self._recorder = recorder
        self._domains = domains
        self._access = access if isinstance(access, OpenAccess) else ManifestPolicy({})
        self._kept: LRUCache[Hashable, Engine] = LRUCache(_MOST_KEPT)
        self._lock = Lock()

    def engine(self, function: Any, domain: str) -> Engine:
        """Return the engine for a function or another form of adapter; any domain name is allowed.

        Raises:
            InvalidRequest: not an adapter; see `source_of`.
        """
        key = (_named(function), domain)
        with self._lock:
            engine = self._kept.get(key)
            if engine is None:
                engine = self._kept[key] = self._made(function, domain)
            return engine

    def domain(self, name: str) -> DomainSpec:
        """Return a domain whose only source is a function."""
        return function_domain(name, self._domains.get(name))

    def _made(self, function: Any, domain: str) -> Engine:
        source = source_of(function, SPEAKS_FOR_ITSELF.id)
        return Engine(
            Registry.model_construct(domains={domain: self.domain(domain)}),
            lambda _domain, _spec: source,
            resolve=self.choice.resolve,
            reranker=self.choice.reranker,
            rerankers=self.choice.named,
            access=self._access,
            mask=self.mask,
            recorder=self._recorder,
        )


def function_domain(name: str, registered: DomainSpec | None) -> DomainSpec:
    """Return a domain whose only source states its own authority.

    Args:
        registered: the registered domain of that name, whose settings of masking and recording hold.
    """
    settings = _NO_SETTINGS if registered is None else _what_always_holds(registered)
    return DomainSpec.model_construct(
        version=1, domain=name, timezone="UTC", sources=(SPEAKS_FOR_ITSELF,), settings=settings
    )


def _what_always_holds(spec: DomainSpec) -> Mapping[str, Any]:
    """Return the settings of a domain that hold for any source."""
    always = MaskedOutputs.model_fields.keys() | KeptRecords.model_fields.keys()
    return {name: value for name, value in spec.settings.items() if name in always}


def _named(function: Any) -> Hashable:
    """Return a cache key. Bound methods are new but equal objects; an unhashable function counts by its id."""
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function  # type: ignore[no-any-return]
