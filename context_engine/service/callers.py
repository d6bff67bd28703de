"""Names for the caller of a service; `context_engine.wiring.callers` opens the authenticator."""

from __future__ import annotations

from context_engine.adapters.identity.authenticator import NoAuthentication
from context_engine.core.models import ANYBODY, API_PRINCIPAL, Authenticated
from context_engine.core.protocols import Authenticator

__all__ = ["ANYBODY", "API_PRINCIPAL", "Authenticated", "Authenticator", "NoAuthentication"]
