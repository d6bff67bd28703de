"""Who calls a service, once something has checked their token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from context_engine.core.models.access import NOBODY, Principal

API_PRINCIPAL: Final = Principal(id="api")
"""Who asks with the token of the environment: without roles, cleared for what is public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticated:
    """Who calls, and what their token lets them do beside searching.

    Attributes:
        principal: decides what may be searched.
        token_id: names the token in logs, never the token itself; "" where there was none.
        operator: may read every record and reload the configuration.
        gateway: carries the calls of Dify's apps and users: each acts as its own principal then.
    """

    principal: Principal
    token_id: str = ""
    operator: bool = False
    gateway: bool = False


ANYBODY: Final = Authenticated(principal=NOBODY, operator=True)
"""Whoever calls a service that was started with `--no-auth` and has no `access.yaml`."""
