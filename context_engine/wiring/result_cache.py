"""The cache of answers of a configuration: in this process, and in Redis if an address is set."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from context_engine import __version__
from context_engine.adapters.result_caches import MemoryCache, TieredCache
from context_engine.core.protocols import Clock, ResultCache
from context_engine.errors import ConfigError
from context_engine.settings.environment_secrets import read_shared_cache

if TYPE_CHECKING:
    from context_engine.settings.connections import Connections
    from context_engine.wiring.setup import Setup

_MEGABYTE: Final = 2**20


def open_result_cache(setup: Setup, clock: Clock) -> ResultCache:
    """Return the cache of answers; the settings of each search say whether it is used.

    Raises:
        ConfigError: the address or the key of a shared cache cannot be used.
        MissingExtra: the extra `redis` is not installed.
    """
    memory = MemoryCache(setup.resolver.base().values.cache_memory_mb * _MEGABYTE)
    shared = read_shared_cache(setup.env, setup.cwd)
    if shared is None:
        return memory
    from context_engine.adapters.result_caches.redis import RedisCache, connected

    namespace = _namespace(setup.config.connections)
    return TieredCache(memory, RedisCache(connected(shared.url), shared.secret, clock, namespace=namespace))


def _namespace(connections: Connections) -> str:
    """Return a text that is equal for processes of one release that reach the same servers under the same names."""
    reached = [__version__, *(_address(connections, name) for name in connections.names)]
    return hashlib.sha256(json.dumps(reached).encode()).hexdigest()


def _address(connections: Connections, name: str) -> tuple[str, str]:
    try:
        return name, connections.get(name).base_url
    except ConfigError:  # reported where the connection is used
        return name, ""
