"""What a search does for personal data: nothing is searched that could not be masked, and what is kept is masked."""

from __future__ import annotations

from collections.abc import Callable

from context_engine.core.models import DomainSpec, EffectiveSettings, Registry, SearchRequest, Settings
from context_engine.core.protocols import Mask
from context_engine.errors import ConfigError, ContextEngineError


def check_mask(mask: Mask | None, settings: Settings, domain: DomainSpec) -> None:
    """Refuse a search whose passages or question must be masked and cannot be.

    Raises:
        ConfigError: there is no mask, or it cannot be opened.
    """
    if not (settings.mask_contexts or settings.mask_stored_queries):
        return
    if mask is None:
        key = "mask_contexts" if settings.mask_contexts else "mask_stored_queries"
        raise ConfigError(f"domain {domain.domain!r} sets {key}, and this engine has no mask: build it with one")
    mask("")


def masks_refused(registry: Registry, resolve: Callable[[DomainSpec, SearchRequest], EffectiveSettings]) -> bool:
    """Whether a request that is refused is kept with its question masked: where any domain's are.

    Which domain it was meant for is not known.
    """
    for name, domain in registry.domains.items():
        try:
            if resolve(domain, SearchRequest(query="-", domain=name)).values.mask_stored_queries:
                return True
        except ContextEngineError:  # a domain that cannot be searched keeps no question
            continue
    return False
