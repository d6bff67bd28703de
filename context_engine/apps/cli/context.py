"""The configuration that a command works with, who runs it, and the options that choose both."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import with_debug
from context_engine.apps.cli.console import note
from context_engine.apps.cli.options import F, gathered
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
    """Return the name of the user who runs this process, from the system and not from environment variables.

    It is the calling user, even if the program runs with the rights of another user.
    """
    if sys.platform == "win32":
        return os.getlogin()  # the user of the process here; elsewhere it is the user of the terminal
    import pwd

    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def acting_principal(principals: Principals, acting_as: str | None) -> Principal:
    """Return the principal who runs this command.

    Raises:
        InvalidRequest: the user may not act as the named principal.
    """
    user = os_user()
    return principals.for_os_user(user) if acting_as is None else principals.acting_as(user, acting_as)


def access_in_force(setup: Setup) -> dict[str, str | bool | None]:
    """Return the active policy and the operating system user's principal, ready for JSON; policy None: no policy."""
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
    """Refuse a user who is not an operator.

    Raises:
        InvalidRequest: access.yaml does not name the user as an operator.
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
    """The options that locate configuration and data; None: not given.

    Attributes:
        acting_as: the principal that the user wants to act as.
    """

    config_dir: str | None
    data_dir: str | None
    stage: str | None
    acting_as: str | None = None

    def load(self) -> Setup:
        """Return the configuration as it stands, without the demo bank.

        Raises:
            ConfigError: it cannot be used.
        """
        from context_engine.wiring.setup import load_setup

        return load_setup(config_dir=self.config_dir, stage=self.stage)


@dataclass(frozen=True, slots=True)
class CliContext:
    """A loaded configuration with the folder of its data.

    Attributes:
        setup: the whole configuration; output to the user must come from `known`.
        demo: whether the domains are the demo bank's.
        principal: the principal who runs the command.
        known: the configuration with the domains and sources that the principal may know; for an operator's command,
            all of them.
        domain: the domain of a command for one domain; "" for other commands.
    """

    setup: Setup
    data_dir: Path
    demo: bool
    principal: Principal
    known: Setup
    domain: str = ""

    @property
    def registry(self) -> LoadedRegistry:
        """The domains that the user may know."""
        return self.known.registry

    @property
    def scope(self) -> AccessScope | None:
        """The chunks that the principal may read in these sources; None: all."""
        decisions = (self.setup.access.decide(self.principal, spec) for spec in self.registry.domains.values())
        return next((decision.scope for decision in decisions), AccessScope())

    @property
    def base(self) -> Path:
        """The folder of the embedded base."""
        from context_engine.wiring.embedded_base import base_path

        return base_path(self.data_dir)

    def open_base(self, models: Models | None = None) -> LocalBase:
        """Return the embedded base with the options and the embedder of the settings.

        Args:
            models: the models to use, for a caller who reports their use afterwards.
        """
        from context_engine.wiring.sinks import configured_base

        return configured_base(self.setup, self.base, models or self.setup.models(self.data_dir))


def with_location(command: F) -> F:
    """Give a command the options that locate configuration and data, as one argument `location`."""

    def gather(**options: Any) -> Any:
        acting_as = options.pop("acting_as", None)
        location = ConfigLocation(options.pop("config_dir"), options.pop("data_dir"), options.pop("stage"), acting_as)
        return command(location=location, **options)

    return with_debug(gathered(command, gather, *_LOCATION))  # type: ignore[no-any-return]


_LOCATION: Final = (
    click.option("--config-dir", metavar="DIR", help="Folder with config/ and manifests/."),
    click.option("--data-dir", metavar="DIR", help="Folder of the embedded base; else one for each configuration."),
    click.option("--stage", metavar="NAME", help="Overlay of connections and dataset ids, e.g. uat."),
)


def open_context(
    location: ConfigLocation,
    *,
    domain: str | None = None,
    build_demo: bool = True,
    one_domain: bool = False,
    operator: bool = False,
    data_elsewhere: bool = False,
) -> CliContext:
    """Load the configuration; use the demo bank if no domain is configured and no folder is named.

    Args:
        location: the options of the command.
        domain: the domain to search; the demo's base is not built for an unknown domain.
        build_demo: whether to build the demo's base if it is missing.
        one_domain: whether the command needs exactly one domain: the named one, else the only one.
        operator: whether the command is for operators, who know every domain and source.
        data_elsewhere: whether the command reads data of another place; the note on the demo bank is then left out.

    Raises:
        UsageError: `one_domain` is set, no domain is named, and there is not exactly one.
        ConfigError: the configuration or the data folder cannot be used.
        InvalidRequest: the user may not act as the named principal.
    """
    from context_engine.settings import find_config
    from context_engine.wiring.setup import load_setup

    paths = find_config(location.config_dir, env=os.environ, cwd=Path.cwd())
    if paths.manifests() or paths.origin in _NAMED:
        setup = location.load()
        data_dir = setup.data_dir(location.data_dir)
        if location.data_dir and not data_dir.exists():
            note(f"The data folder {data_dir} does not exist yet.")
        principal = acting_principal(setup.config.principals, location.acting_as)
        known = setup if operator else replace(setup, registry=setup.visible(principal))
        _warn((*setup.config.notices, *known.orphaned(data_dir)))
        name = only_domain(known.registry, domain) if one_domain else ""
        return CliContext(setup, data_dir, demo=False, principal=principal, known=known, domain=name)
    from context_engine import demo
    from context_engine.settings import find_data_dir

    setup = load_setup(config_dir=location.config_dir, manifest_dir=demo.MANIFESTS, stage=location.stage)
    principal = acting_principal(setup.config.principals, location.acting_as)
    _warn(setup.config.notices)
    if not data_elsewhere:
        note(DEMO_NOTE)
    name = only_domain(setup.registry, domain) if one_domain else ""
    searchable = domain is None or domain in setup.registry.names  # the engine refuses another, and records that
    folder = find_data_dir(location.data_dir, env=setup.env, cwd=setup.cwd)
    data_dir = demo.data_dir(folder)
    if build_demo and searchable and not demo.is_built(data_dir):
        from context_engine.apps.cli.progress import progress_bar

        with progress_bar("Building the demo bank's knowledge base (once) …") as progress:
            demo.ensure_base(folder, setup.registry, progress)
    return CliContext(setup, data_dir, demo=True, principal=principal, known=setup, domain=name)


def operator_context(location: ConfigLocation, *, data_elsewhere: bool = False) -> CliContext:
    """Load the configuration for a command that only an operator may run; the demo's base is not built.

    Args:
        data_elsewhere: as in `open_context`.

    Raises:
        InvalidRequest: the user is no operator.
    """
    context = open_context(location, build_demo=False, operator=True, data_elsewhere=data_elsewhere)
    require_operator(context.setup.config.principals)
    return context


def _warn(notices: Iterable[Notice]) -> None:
    for notice in notices:
        note(f"warning: {notice.message}", style="yellow")


def note_unwritten() -> None:
    """Close the writers of the record of searches, and note what they could not write."""
    from context_engine.wiring.audit_writers import close_writers

    for sentence in close_writers():
        note(f"warning: {sentence}", style="yellow")


def with_domain(help: str) -> Callable[[F], F]:
    """Give a command `--domain`, which may be omitted if there is only one domain."""
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
