"""The configuration that a command works with, who runs it, and the options that choose both."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from context_engine.apps.cli.app import with_debug
from context_engine.apps.cli.console import note
from context_engine.core.models import AccessScope
from context_engine.core.policy.access import OpenAccess
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.core.models import Notice, Principal, Registry
    from context_engine.settings.principals import Principals
    from context_engine.settings.registry import LoadedRegistry
    from context_engine.wiring.embedded_base import LocalBase
    from context_engine.wiring.models import Models
    from context_engine.wiring.setup import Setup


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


_NAMED: Final = ("--config-dir", "CONTEXT_ENGINE_CONFIG_DIR")

DEMO_NOTE: Final = (
    "No domain is configured: this is the demo bank, all of it fictitious. 'context-engine init DIR' starts your own."
)


@dataclass(frozen=True, slots=True)
class ConfigLocation:
    """Where the user says configuration and data are; None: not said.

    Attributes:
        acting_as: the principal that the user wants to act as.
    """

    config_dir: str | None
    data_dir: str | None
    stage: str | None
    acting_as: str | None = None


@dataclass(frozen=True, slots=True)
class CliContext:
    """A loaded configuration with the folder of its data.

    Attributes:
        setup: all of it; what is shown to the user comes from `known`.
        demo: the domains are the demo bank's.
        principal: who runs the command.
        known: the configuration with the domains and sources that the principal may know; all, for an operator's
            command.
    """

    setup: Setup
    data_dir: Path
    demo: bool
    principal: Principal
    known: Setup

    @property
    def registry(self) -> LoadedRegistry:
        """What the user may know."""
        return self.known.registry

    @property
    def scope(self) -> AccessScope | None:
        """What the principal may read of the sources that it may know; None: everything."""
        domains = self.registry.domains.values()
        return next((self.setup.access.decide(self.principal, one).scope for one in domains), AccessScope())

    @property
    def base(self) -> Path:
        """The folder of the embedded base."""
        from context_engine.wiring.embedded_base import base_path

        return base_path(self.data_dir)

    def open_base(self, models: Models | None = None) -> LocalBase:
        """Return the embedded base as the settings have it, with the embedder that they name.

        Args:
            models: those to open, for who asks them afterwards what they did.
        """
        from context_engine.wiring.sinks import configured_base

        return configured_base(self.setup, self.base, models or self.setup.models(self.data_dir))


def with_location(command: F) -> F:
    """Give a command the options that say where things are, as one argument `location`."""

    def gather(**options: Any) -> Any:
        acting_as = options.pop("acting_as", None)
        location = ConfigLocation(options.pop("config_dir"), options.pop("data_dir"), options.pop("stage"), acting_as)
        return command(location=location, **options)

    gather.__name__, gather.__doc__ = command.__name__, command.__doc__
    gather.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    options = (
        click.option("--config-dir", metavar="DIR", help="Folder with config/ and manifests/."),
        click.option(
            "--data-dir",
            metavar="DIR",
            help="Folder of the embedded base; else one for each configuration.",
        ),
        click.option("--stage", metavar="NAME", help="Overlay of connections and dataset ids, e.g. uat."),
    )
    for option in reversed(options):
        gather = option(gather)
    return with_debug(gather)  # type: ignore[return-value]


def open_context(
    location: ConfigLocation,
    *,
    domain: str | None = None,
    build_demo: bool = True,
    one_domain: bool = False,
    operator: bool = False,
) -> CliContext:
    """Load the configuration; without any domain, and with no folder named, take the demo bank.

    Args:
        location: what the user said.
        domain: that will be asked; the demo's base is not built for one that is not known.
        build_demo: have the demo's base built if it is not there.
        one_domain: the command works on one domain: that which is named, else the only one.
        operator: the command is an operator's, who knows every domain and source.

    Raises:
        UsageError: `one_domain`, none is named, and there is none or several.
        ConfigError: the configuration or the data folder cannot be used.
        InvalidRequest: the user may not act as whom they name.
    """
    from context_engine.settings import find_config
    from context_engine.wiring.setup import load_setup

    paths = find_config(location.config_dir, env=os.environ, cwd=Path.cwd())
    if paths.manifests() or paths.origin in _NAMED:
        setup = load_setup(config_dir=location.config_dir, stage=location.stage)
        data_dir = setup.data_dir(location.data_dir)
        principal = acting_principal(setup.config.principals, location.acting_as)
        known = setup if operator else replace(setup, registry=setup.visible(principal))
        _warn((*setup.config.notices, *known.orphaned(data_dir)))
        if one_domain:
            only_domain(known.registry, domain)
        return CliContext(setup, data_dir, demo=False, principal=principal, known=known)
    from context_engine import demo
    from context_engine.settings import find_data_dir

    setup = load_setup(config_dir=location.config_dir, manifest_dir=demo.MANIFESTS, stage=location.stage)
    principal = acting_principal(setup.config.principals, location.acting_as)
    _warn(setup.config.notices)
    note(DEMO_NOTE)
    if one_domain:
        only_domain(setup.registry, domain)
    searchable = domain is None or domain in setup.registry.names  # the engine refuses another, and records that
    folder = find_data_dir(location.data_dir, env=setup.env, cwd=setup.cwd)
    data_dir = demo.data_dir(folder)
    if build_demo and searchable and not demo.is_built(data_dir):
        from context_engine.apps.cli.progress import progress_bar

        with progress_bar("Building the demo bank's knowledge base (once) …") as progress:
            demo.ensure_base(folder, setup.registry, progress)
    return CliContext(setup, data_dir, demo=True, principal=principal, known=setup)


def _warn(notices: Iterable[Notice]) -> None:
    for notice in notices:
        note(f"warning: {notice.message}", style="yellow")


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
