"""The database that keeps the jobs of a configuration, if one is named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.errors import ConfigError, MissingExtra, nearest
from context_engine.settings.connections import DATABASE_SCHEME, Connection

if TYPE_CHECKING:
    from context_engine.wiring.setup import Setup

_KEY: Final = "jobs_connection"


class JobDatabase(NamedTuple):
    """A PostgreSQL database that keeps jobs.

    Attributes:
        connection: its name in connections.yaml.
        connect: returns the connection, its variables and files read at the call.
    """

    connection: str
    connect: Callable[[], Connection]


def job_database(setup: Setup) -> JobDatabase | None:
    """Return the database that `jobs_connection` names; None if jobs are kept in the data folder.

    Raises:
        ConfigError: the connection cannot be used, or is not to a PostgreSQL database.
        MissingExtra: the extra `postgres` is not installed.
    """
    effective = setup.resolver.base()
    name = effective.values.jobs_connection
    if name is None:
        return None
    connect = partial(setup.config.connections.get, name)
    if name not in (known := setup.config.connections.names):
        problem = f"unknown connection {name!r}.{nearest(name, known) or ' None is configured.'}"
        raise ConfigError(problem, file=effective.origins.get(_KEY), key=_KEY)
    if not connect().base_url.startswith(f"{DATABASE_SCHEME}://"):
        problem = f"connection {name!r} must have base_url {DATABASE_SCHEME}://HOST:PORT/DATABASE to keep jobs"
        raise ConfigError(problem, file=effective.origins.get(_KEY), key=_KEY)
    if find_spec("psycopg") is None:
        raise MissingExtra(_KEY, "postgres")
    return JobDatabase(name, connect)
