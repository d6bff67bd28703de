"""The access policy of a configuration: an installed one by name, or the rules of the manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from context_engine.core.models import DomainSpec
from context_engine.core.policy.access import OPEN_ACCESS, has_rules
from context_engine.core.protocols import AccessPolicy
from context_engine.errors import ConfigError
from context_engine.settings import Config
from context_engine.settings.registry import LoadedRegistry
from context_engine.wiring.adapters import ACCESS_POLICIES, find_adapter, load_adapter

PolicyFactory = Callable[[Mapping[str, DomainSpec]], AccessPolicy]
"""Makes a policy for all domains of a registry; published in the entry-point group `context_engine.access_policies`.

Raises:
    ConfigError: the policy cannot be used.
"""


def configured_policy(config: Config, registry: LoadedRegistry) -> AccessPolicy:
    """Return the policy that `access.yaml` names; without that file the rules of the manifests, if there are any.

    A manifest with an unusable rule is closed; the others are still searched under the policy.

    Raises:
        ConfigError: see `access_policy`.
    """
    named = config.principals
    name = named.policy if named.in_force else None
    in_force = named.in_force or registry.ruled
    return access_policy(registry.domains, name, in_force=in_force, file=named.file, key="policy")


def access_policy(
    domains: Mapping[str, DomainSpec],
    name: str | None = None,
    *,
    in_force: bool = False,
    file: str | None = None,
    key: str | None = None,
) -> AccessPolicy:
    """Return the access policy.

    Args:
        domains: all domains of the registry; a source in two domains has the rules of both.
        name: an installed policy; None: the rules of the manifests, if there are any.
        in_force: check documents that raise their classification even if no manifest has a rule.
        file, key: the location of the name, for messages.

    Raises:
        ConfigError: the policy is not installed or unusable.
    """
    if name is None and not in_force and not has_rules(domains.values()):
        return OPEN_ACCESS
    make: Any = load_adapter(find_adapter(ACCESS_POLICIES, name or "manifest", file=file, key=key))
    policy = make(domains)
    if not (callable(getattr(policy, "decide", None)) and callable(getattr(policy, "rules_of", None))):
        problem = f"access policy {name!r} made a {type(policy).__name__}, which has no decide() and rules_of()"
        raise ConfigError(problem, file=file, key=key)
    return policy  # type: ignore[no-any-return]
