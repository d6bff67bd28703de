"""What access control leaves of a search: its settings, and what its reader is told."""

from __future__ import annotations

from typing import Final

from context_engine.core.models import (
    AccessDecision,
    DomainSpec,
    EffectiveSettings,
    Notice,
    NoticeCode,
)

_OF_THE_CALLER: Final = ("call", "pipeline config")
_SAID: Final = "some sources were not searched for you"


def permitted_settings(settings: EffectiveSettings, domain: DomainSpec) -> EffectiveSettings:
    """Return settings that name only sources which the principal may know, but for what the caller names itself.

    What an operator's files name beyond those acts as if it were not there; a caller's own unknown name is refused as
    one that there is not.

    Args:
        settings: of a search under an access policy.
        domain: as the principal may know it.
    """
    named, origin = settings.values.sources, settings.origins.get("sources")
    known = {source.id for source in domain.sources}
    if named is None or origin in _OF_THE_CALLER or known.issuperset(named):
        return settings
    kept = tuple(name for name in named if name in known)
    origins = settings.origins if kept else {key: one for key, one in settings.origins.items() if key != "sources"}
    values = settings.values.model_copy(update={"sources": kept or None})
    return settings.model_copy(update={"values": values, "origins": origins})


def denial_notices(domain: DomainSpec, decision: AccessDecision) -> tuple[Notice, ...]:
    """Return the notice that some sources were not searched, where the domain lets it be said; never which or why."""
    if domain.denials == "hidden" or not decision.denied:
        return ()
    return (Notice(NoticeCode.SOURCES_NOT_SEARCHED, "", _SAID),)
