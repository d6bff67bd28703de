"""The cache of answers of a configuration: in this process, and in Redis if an address is set."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine import __version__
from context_engine.adapters.result_caches import ErasableCache, MemoryCache, TieredCache
from context_engine.core.protocols import Clock, ResultCache
from context_engine.errors import ConfigError
from context_engine.settings.environment_secrets import read_shared_cache
from context_engine.wiring.audit import audit_mode, open_ledger

if TYPE_CHECKING:
    from context_engine.adapters.result_caches.redis import RedisCache
    from context_engine.settings.connections import Connections
    from context_engine.wiring.setup import Setup

_MEGABYTE: Final = 2**20


def open_result_cache(setup: Setup, clock: Clock, data_dir: str | Path | None = None) -> ResultCache:
    """Return the cache of answers; the settings of each search say whether it is used.

    Where searches are recorded, an erasure in the ledger makes everything kept before it unusable.

    Args:
        data_dir: the data folder, which holds the ledger by default.

    Raises:
        ConfigError: the address or the key of a shared cache cannot be used.
        MissingExtra: the extra `redis` is not installed.
    """
    memory = MemoryCache(setup.resolver.base().values.cache_memory_mb * _MEGABYTE)
    shared = open_shared_cache(setup, clock)
    store: ResultCache = memory if shared is None else TieredCache(memory, shared)
    if audit_mode(setup) == "off":
        return store
    from context_engine.audit.ledger.erasure_mark import ErasureMark

    erasures = ErasureMark(lambda: open_ledger(setup, data_dir, create=False), clock)
    return ErasableCache(store, erasures.read, forget=memory.forget, close=erasures.close)


def open_shared_cache(setup: Setup, clock: Clock) -> RedisCache | None:
    """Return the cache in Redis; None if no address is set.

    Raises:
        ConfigError, MissingExtra: as in `open_result_cache`.
    """
    shared = read_shared_cache(setup.env, setup.cwd)
    if shared is None:
        return None
    from context_engine.adapters.result_caches.redis import RedisCache, connected

    return RedisCache(connected(shared.url), shared.secret, clock, namespace=_namespace(setup.config.connections))


def _namespace(connections: Connections) -> str:
    """Return a text that is equal for processes of one release that reach the same servers under the same names."""
    reached = [__version__, *(_address(connections, name) for name in connections.names)]
    return hashlib.sha256(json.dumps(reached).encode()).hexdigest()


def _address(connections: Connections, name: str) -> tuple[str, str]:
    try:
        return name, connections.get(name).base_url
    except ConfigError:  # reported where the connection is used
        return name, ""
