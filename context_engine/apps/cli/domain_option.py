"""`--domain`: the domain that a command works on, named or the only one there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from context_engine.core.models import Registry


F = TypeVar("F", bound=Callable[..., Any])


def with_domain(help: str) -> Callable[[F], F]:
    """Give a command `--domain`, which need not be named where there is one domain."""
    return click.option("--domain", "-d", metavar="NAME", help=f"{help} [default: the only domain].")


def only_domain(registry: Registry, name: str | None) -> str:
    """Return the domain that was named, else the only one.

    Raises:
        UsageError: none was named, and there is none or several.
    """
    if name is not None:
        return name
    names = registry.names
    if len(names) == 1:
        return names[0]
    which = f"name one of {', '.join(names)}" if names else "no domain is configured ('context-engine init DIR')"
    raise click.UsageError(f"Missing option '--domain' / '-d': {which}")
