"""Engines over a caller's own function, asked in place of registered sources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

from context_engine.adapters.sources.adapter_forms import source_of
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import Engine
from context_engine.core.models import DomainSpec, Registry, SourceSpec, SourceType
from context_engine.core.policy.access import OPEN_ACCESS, ManifestPolicy, OpenAccess
from context_engine.core.protocols import AccessPolicy, Mask
from context_engine.wiring.build import RerankerChoice

__all__ = ["SPEAKS_FOR_ITSELF", "FunctionEngines"]

SPEAKS_FOR_ITSELF: Final = SourceSpec(
    id="adapter", type=SourceType.GENERAL_WEB, adapter="callable", trust_document_metadata=True
)
"""What chunk dicts of a caller's own count as: each says its own source, tier and trust; tier 5 where it does not."""

_MOST_KEPT: Final = 32


class FunctionEngines:
    """One engine for each function and domain, the last 32: what hung or is at its bound is known to the next search.

    Safe for several threads.

    Args:
        choice: the reranker and the settings of all of them.
        access: the policy in force. It has no say in what a caller's own function may be asked, but where there is one,
            chunks that are classified above that of `SPEAKS_FOR_ITSELF` need a principal with the clearance.
        mask: masks personal data where the settings say so.
    """

    def __init__(self, choice: RerankerChoice, access: AccessPolicy = OPEN_ACCESS, mask: Mask | None = None) -> None:
        self.choice, self.mask = choice, mask
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

    def _made(self, function: Any, domain: str) -> Engine:
        spec = DomainSpec.model_construct(
            version=1, domain=domain, timezone="UTC", sources=(SPEAKS_FOR_ITSELF,), settings={}
        )
        source = source_of(function, SPEAKS_FOR_ITSELF.id)
        return Engine(
            Registry.model_construct(domains={domain: spec}),
            lambda _domain, _spec: source,
            resolve=self.choice.resolve,
            reranker=self.choice.reranker,
            access=self._access,
            mask=self.mask,
        )


def _named(function: Any) -> Hashable:
    """A method is another object each time it is named, but equal; what cannot be hashed is known by its id."""
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function  # type: ignore[no-any-return]
