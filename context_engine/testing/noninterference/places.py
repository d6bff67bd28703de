"""Where documents stand that a principal may not read, and who may read all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from context_engine.core.models import Classification, DomainSpec, Principal
from context_engine.core.policy.access import access_class
from context_engine.core.policy.access_review import rules_in
from context_engine.core.protocols import AccessPolicy

NO_SUCH_DOMAINS: Final = ("PROJECT-FALCON", "BOARD")
NO_SUCH_SOURCES: Final = ("board_minutes", "falcon_files")
"""Names that requests ask for before there is anything of that name, and after."""

_CLAIMS: Final = (None, *Classification)


class HiddenPlace(NamedTuple):
    """Where documents stand that the caller may not read.

    Attributes:
        domain, source_id: where they are written.
        claims: the classifications that they may claim there and stay hidden; None among them: they need claim none,
            for the whole source is hidden.
    """

    domain: str
    source_id: str
    claims: tuple[Classification | None, ...] = _CLAIMS

    @property
    def whole(self) -> bool:
        """Whether nothing of the source may be read."""
        return None in self.claims


def hidden_places(domains: Iterable[DomainSpec], policy: AccessPolicy, principal: Principal) -> Iterator[HiddenPlace]:
    """Yield each source of which a principal may not read all, with the claims that hide a document in it."""
    for domain in domains:
        scope = policy.decide(principal, domain).scope
        if scope is None:
            continue
        for source in domain.sources:
            rules = policy.rules_of(source.id)
            classes = {claim: access_class(rules, source.classification, claim) for claim in _CLAIMS}
            hidden = tuple(claim for claim in _CLAIMS if not scope.admits(classes[claim]))
            if hidden:
                yield HiddenPlace(domain.domain, source.id, hidden)


def insider_of(domains: Iterable[DomainSpec], *roles: str) -> Principal:
    """Return one with every role and group that a rule names, and some more roles, cleared for everything."""
    rules = tuple(rules_in(domains))
    return Principal(
        id="insider",
        roles=frozenset(roles).union(*(rule.roles for rule in rules)),
        groups=frozenset[str]().union(*(rule.groups for rule in rules)),
        clearance=Classification.RESTRICTED,
    )
