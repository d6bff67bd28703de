"""Engines over a caller's own function, asked in place of registered sources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Final

from context_engine.adapters.sources.callable import source_of
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import Engine
from context_engine.core.models import DomainSpec, KeptRecords, MaskedOutputs, Registry, SourceSpec, SourceType
from context_engine.core.policy.access import OPEN_ACCESS, ManifestPolicy, OpenAccess
from context_engine.core.protocols import AccessPolicy, Mask, Recorder
from context_engine.wiring.reranker_choice import RerankerChoice

SPEAKS_FOR_ITSELF: Final = SourceSpec(
    id="adapter", type=SourceType.GENERAL_WEB, adapter="callable", trust_document_metadata=True
)
"""What chunk dicts of a caller's own count as: each says its own source, tier and trust; tier 5 where it does not."""

_MOST_KEPT: Final = 32
_NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({})


class FunctionEngines:
    """One engine for each function and domain, the last 32: what hung or is at its bound is known to the next search.

    Safe for several threads.

    Args:
        choice: the reranker and the settings of all of them.
        mask: masks personal data where the settings say so.
        domains: those that are registered; what of their settings is masked and recorded holds for a function of that
            domain too.
        access: the policy in force. It has no say in what a caller's own function may be asked, but where there is one,
            chunks that are classified above that of `SPEAKS_FOR_ITSELF` need a principal with the clearance.
        recorder: takes what every engine finds.
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
        self._kept: OrderedDict[Hashable, Engine] = OrderedDict()
        self._lock = Lock()

    def engine(self, function: Any, domain: str) -> Engine:
        """Return the engine that asks a function, or an adapter in another form; any name is a domain.

        Raises:
            InvalidRequest: it is no adapter; see `source_of`.
        """
        key = (_named(function), domain)
        with self._lock:
            engine = self._kept.pop(key, None) or self._made(function, domain)
            self._kept[key] = engine
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return engine

    def domain(self, name: str) -> DomainSpec:
        """Return a domain with a function as its only source."""
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
    """Return a domain whose only source speaks for itself.

    Args:
        registered: the domain of that name; what of its settings is masked and recorded holds.
    """
    settings = _NO_SETTINGS if registered is None else _what_always_holds(registered)
    return DomainSpec.model_construct(
        version=1, domain=name, timezone="UTC", sources=(SPEAKS_FOR_ITSELF,), settings=settings
    )


def _what_always_holds(spec: DomainSpec) -> Mapping[str, Any]:
    """Return those of a domain's settings that hold whichever source is asked."""
    always = MaskedOutputs.model_fields.keys() | KeptRecords.model_fields.keys()
    return {name: value for name, value in spec.settings.items() if name in always}


def _named(function: Any) -> Hashable:
    """A method is another object each time it is named, but equal; what cannot be hashed is known by its id."""
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function  # type: ignore[no-any-return]
