"""The command group `context-engine access`: who may search what; for operators."""

from __future__ import annotations

from context_engine.apps.cli.app import LazyGroup

access = LazyGroup(
    "access",
    "context_engine.apps.cli",
    {
        "check": ("access.check:check", "Show what somebody may search, and by which rule."),
        "matrix": ("access.check:matrix", "Show every source with who may search it."),
        "prove": ("access.prove:prove", "Prove that answers do not show what may not be read."),
        "token": ("tokens:access_token", "Make a token and its hash for access.yaml."),
    },
    help="Show and prove who may search what; for an operator, once there is an access.yaml.",
)
