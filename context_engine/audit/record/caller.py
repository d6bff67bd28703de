"""The caller as an entry names them: by a pseudonym, and by what they may do."""

from __future__ import annotations

from typing import Any

from context_engine.audit.record.pseudonym import Pseudonyms
from context_engine.core.models import Caller, Principal


def described_caller(principal: Principal, caller: Caller, pseudonyms: Pseudonyms) -> dict[str, Any]:
    """Return who asked: the principal where one was authenticated, else whom the call names as its caller.

    `for` is the pseudonym of the person on whose behalf the call says it is, where it names one.
    """
    identity = principal.id or caller.principal
    described: dict[str, Any] = {
        "pseudonym": pseudonyms.of_caller(identity) if identity else None,
        "roles": sorted(principal.roles),
        "groups": sorted(principal.groups),
        "clearance": principal.clearance,
    }
    if caller.on_behalf_of:
        described["for"] = pseudonyms.of_caller(caller.on_behalf_of)
    return described
