"""The registry as one principal may know it: what it may not search looks as if it did not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, TypeVar

from context_engine.core.models import AccessDecision, DomainSpec, Principal, Registry
from context_engine.core.policy.access import OpenAccess
from context_engine.core.protocols import AccessPolicy
from context_engine.errors import PolicyError

_MOST_PRINCIPALS: Final = 1024

R = TypeVar("R", bound=Registry)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegistryView(Generic[R]):
    """What one principal may know.

    Attributes:
        registry: the domains of which something may be searched, each with its permitted sources alone.
        decisions: of every domain there is, for the record.
    """

    registry: R
    decisions: Mapping[str, AccessDecision]


class AccessViews(Generic[R]):
    """The views of a registry, one for each principal; safe for many threads.

    Args:
        registry: all of it.
        policy: decides; asked again where its `policy_hash` is another.
    """

    def __init__(self, registry: R, policy: AccessPolicy) -> None:
        self._registry, self._policy = registry, policy
        self._made = lru_cache(maxsize=_MOST_PRINCIPALS)(self._view)

    def of(self, principal: Principal) -> RegistryView[R]:
        """Return what a principal may know.

        Raises:
            PolicyError: the policy failed; nothing may be searched then.
        """
        return self._made(principal, _asked(lambda: self._policy.policy_hash))

    def _view(self, principal: Principal, _policy_hash: str) -> RegistryView[R]:
        domains = self._registry.domains
        decisions = _asked(lambda: {name: self._policy.decide(principal, one) for name, one in domains.items()})
        if isinstance(self._policy, OpenAccess):
            return RegistryView(self._registry, decisions)
        seen = {name: _reduced(domain, decisions[name]) for name, domain in domains.items()}
        known = {name: domain for name, domain in seen.items() if domain is not None}
        return RegistryView(self._registry.only(known), decisions)


def visible(registry: R, policy: AccessPolicy, principal: Principal) -> R:
    """Return a registry as a principal may know it.

    A domain of which nothing may be searched is gone, and so are the other sources that may not be, a domain's own
    setting that names them, and manifests that cannot be used: they have no rule to go by.

    Raises:
        PolicyError: the policy failed.
    """
    return AccessViews(registry, policy).of(principal).registry


def _asked(ask: Callable[[], T]) -> T:
    """Return what a policy answers; it may be another server's, and whatever it raises denies."""
    try:
        return ask()
    except Exception as error:
        raise PolicyError("the access policy could not decide, so nothing is searched") from error


def _reduced(domain: DomainSpec, decision: AccessDecision) -> DomainSpec | None:
    """Return a domain with its permitted sources; None where there are none."""
    allowed = decision.allowed
    sources = tuple(source for source in domain.sources if source.id in allowed)
    if len(sources) == len(domain.sources):
        return domain
    if not sources:
        return None
    return domain.model_copy(update={"sources": sources, "settings": _settings(domain, allowed)})


def _settings(domain: DomainSpec, allowed: frozenset[str]) -> Mapping[str, object]:
    """Return the settings of a domain without its denied sources; where they name no other, they name none."""
    named = domain.settings.get("sources")
    if not isinstance(named, list | tuple) or allowed.issuperset(named):
        return domain.settings
    kept = [name for name in named if name in allowed]
    others = {key: value for key, value in domain.settings.items() if key != "sources"}
    return {**others, "sources": kept} if kept else others
