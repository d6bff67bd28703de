"""Who runs a command: the user of the operating system, as the principal that `access.yaml` names it or lets it be."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from context_engine.core.policy.access import OpenAccess
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.core.models import Principal
    from context_engine.settings.principals import Principals
    from context_engine.wiring import Setup


with_acting = click.option("--as", "acting_as", metavar="NAME", help="Act as this principal, if access.yaml lets you.")
"""Gives a command `--as`, whose value goes to its `location`."""


def os_user() -> str:
    """Return the name of the user who runs this process, as the system says it; no variable of theirs counts.

    It is the user who called, even where the program runs with the rights of another.
    """
    if sys.platform == "win32":
        return os.getlogin()  # there it is who runs the process; elsewhere it would be who sits at the terminal
    import pwd

    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def acting_principal(principals: Principals, acting_as: str | None) -> Principal:
    """Return who runs this command.

    Raises:
        InvalidRequest: they may not act as whom they name.
    """
    user = os_user()
    return principals.for_os_user(user) if acting_as is None else principals.acting_as(user, acting_as)


def access_in_force(setup: Setup) -> dict[str, str | bool | None]:
    """Return what decides who may search and who the user is to it, JSON-ready; the policy is None where none does."""
    principals, user = setup.config.principals, os_user()
    return {
        "policy": None if isinstance(setup.access, OpenAccess) else principals.policy,
        "policy_hash": setup.access.policy_hash,
        "file": principals.file if principals.in_force else None,
        "user": user,
        "principal": principals.for_os_user(user).id,
        "operator": principals.is_operator(user),
    }


def require_operator(principals: Principals) -> None:
    """Let nobody but an operator go on.

    Raises:
        InvalidRequest: access.yaml does not say that the user is one.
    """
    user = os_user()
    if not principals.is_operator(user):
        problem = f"this is for an operator, and {user!r} is none: give the user's entry 'operator: true'"
        raise InvalidRequest(f"{problem} in {principals.file}")
