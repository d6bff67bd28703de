"""From what the command line says to a service that can be run."""

from __future__ import annotations

import socket

from context_engine.errors import ConfigError
from context_engine.service.deployment import Deployment, open_deployment
from context_engine.wiring import Setup, check, load_setup


class ConfiguredLoader:
    """Opens the configuration as it is now; safe for several threads.

    The first time a domain that cannot be used is set aside, as in every command, so that the others are served. After
    that whatever is wrong refuses the whole: what is in force is better.

    Args:
        config_dir, stage: see `load_setup`.
        data_dir: see `Setup.data_dir`.
    """

    def __init__(self, config_dir: str | None, stage: str | None, data_dir: str | None) -> None:
        self._config_dir, self._stage, self._data_dir = config_dir, stage, data_dir
        self._loaded = False

    def __call__(self) -> Deployment:
        """Return it with its engine.

        Raises:
            ConfigError: it cannot be used, or has no domain.
        """
        setup = load_setup(config_dir=self._config_dir, stage=self._stage)
        _check_domains(setup)
        if self._loaded:
            _check_whole(setup, self._stage)
        deployment = open_deployment(setup, data_dir=setup.data_dir(self._data_dir))
        self._loaded = True
        return deployment


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address.

    Args:
        port: 0: one that is free.

    Raises:
        ConfigError: it cannot be bound.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Name another with --host or --port."
        ) from None
    return bound


def _check_domains(setup: Setup) -> None:
    if setup.registry.names or setup.registry.unread:
        return
    raise ConfigError(
        "no domain is configured, and a service never serves the demo bank unasked: name your configuration with "
        "--config-dir, write one with 'context-engine init DIR', or start with --demo"
    )


def _check_whole(setup: Setup, stage: str | None) -> None:
    report = check(setup.config.paths, env=setup.env, stage=stage)
    if not report.ok:
        raise ConfigError.together(report.problems)
