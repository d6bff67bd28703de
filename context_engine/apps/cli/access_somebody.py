"""Of whom a command of an operator speaks: a principal of access.yaml, or whoever has what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import click

from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import CliContext
from context_engine.core.models import NOBODY, Classification, Principal
from context_engine.core.policy.access_review import Holder, holders_in_rules
from context_engine.errors import InvalidRequest, nearest

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--as", "name", metavar="NAME", help="A principal of access.yaml, else a role."),
    click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role they have as well."),
    click.option("--group", "groups", multiple=True, metavar="GROUP", help="A group they are in as well."),
    click.option(
        "--clearance",
        type=click.Choice(list(Classification), case_sensitive=False),
        help="In place of the principal's; of a role alone: internal.",
    ),
)


class Somebody(NamedTuple):
    """What is said of somebody on the command line.

    Attributes:
        name: of a principal or a role; None: of neither.
        clearance: None: that of the principal, else internal.
    """

    name: str | None
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    clearance: Classification | None


def with_somebody(command: F) -> F:
    """Give a command the options that say of whom it speaks, as one argument `somebody`."""

    def gather(**options: Any) -> Any:
        name, roles, groups = (options.pop(key) for key in ("name", "roles", "groups"))
        clearance = options.pop("clearance")
        return command(
            somebody=Somebody(name, roles, groups, Classification(clearance) if clearance else None), **options
        )

    gather.__name__, gather.__doc__ = command.__name__, command.__doc__
    gather.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        gather = option(gather)
    return gather  # type: ignore[return-value]


def principal_of(context: CliContext, said: Somebody) -> Principal:
    """Return a principal by its name, or one made of what is said of it; nobody where nothing is.

    Raises:
        InvalidRequest: there is neither a principal nor a role of that name.
    """
    from context_engine.settings.access_file import MANIFEST_POLICY

    principals, ruled = context.setup.config.principals, holders_in_rules(context.registry.domains.values())
    if principals.policy == MANIFEST_POLICY:
        _note_unruled(said, ruled)
    found = _called(said, principals.named, ruled)
    return Principal(
        id=found.id,
        roles=found.roles.union(said.roles),
        groups=found.groups.union(said.groups),
        clearance=said.clearance or found.clearance,
    )


def _called(said: Somebody, named: Mapping[str, Principal], ruled: Iterable[Holder]) -> Principal:
    """Return the principal of the name, or somebody with that role alone; without a name, somebody without any."""
    name = said.name
    if name is None:
        return Principal(clearance=Classification.INTERNAL) if said.roles or said.groups else NOBODY
    if name in named:
        return named[name]
    roles = {one.name for one in ruled if one.kind == "role"}.union(*(one.roles for one in named.values()))
    if name not in roles:
        raise InvalidRequest(f"no principal or role is called {name!r}.{nearest(name, [*named, *roles])}")
    return Principal(roles=frozenset((name,)), clearance=Classification.INTERNAL)


def _note_unruled(said: Somebody, ruled: Iterable[Holder]) -> None:
    """Say of a role or group that no rule names it: it opens nothing, and may be misspelt."""
    for kind, given in (("role", said.roles), ("group", said.groups)):
        names = [one.name for one in ruled if one.kind == kind]
        for name in given:
            if name not in names:
                note(f"no rule names {kind} {name!r}.{nearest(name, names)}", style="yellow")
