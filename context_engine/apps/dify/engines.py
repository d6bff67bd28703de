"""Engines that calls share: one for each set of credentials, a few of them kept."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.plugin_settings import PluginSetup
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import Engine
from context_engine.core.models import Principal
from context_engine.core.policy.visible import AccessViews
from context_engine.settings.principals import Principals
from context_engine.settings.registry import LoadedRegistry
from context_engine.wiring import build_engine

__all__ = ["Engines", "OpenEngine", "open_engine"]

logger = logging.getLogger(__name__)
_MOST_KEPT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEngine:
    """An engine with what it was made of.

    Attributes:
        views: the domains as each principal may know them.
    """

    plugin: PluginSetup
    engine: Engine
    views: AccessViews[LoadedRegistry]

    @property
    def principals(self) -> Principals:
        """Who may act as whom, as `access.yaml` says."""
        return self.plugin.setup.config.principals

    def known_to(self, principal: Principal) -> LoadedRegistry:
        """Return the domains and sources that a principal may know; to it there are no others."""
        return self.views.of(principal).registry


def open_engine(plugin: PluginSetup) -> OpenEngine:
    """Return an engine over a plugin's configuration.

    Raises:
        ConfigError: an adapter or reranker that is not there.
    """
    setup = plugin.setup
    engine = build_engine(setup, data_dir=plugin.data_dir)
    return OpenEngine(plugin=plugin, engine=engine, views=AccessViews(setup.registry, setup.access))


class _KeptEngine:
    """One engine and who uses it; it is closed when it is let go and nobody uses it any more."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.opened: OpenEngine | None = None
        self.users = 0
        self.let_go = False


class Engines:
    """Keeps engines by their credentials. Safe for many threads.

    Args:
        make: opens one; called once for each set of credentials, and again after a failure.
        most: how many are kept; the one used longest ago goes first.
    """

    def __init__(self, make: Callable[[Credentials], OpenEngine], *, most: int = _MOST_KEPT) -> None:
        self._make, self._most = make, most
        self._lock = Lock()
        self._kept: OrderedDict[str, _KeptEngine] = OrderedDict()

    @contextmanager
    def use(self, credentials: Credentials) -> Iterator[OpenEngine]:
        """Yield the engine of these credentials; it stays open at least until the end of the block.

        Raises:
            ConfigError: the credentials cannot be used.
        """
        kept, surplus = self._taken(credentials.fingerprint)
        try:
            for one in surplus:
                self._close_if_unused(one)
            with kept.lock:
                if kept.opened is None:
                    kept.opened = self._make(credentials)
            yield kept.opened
        finally:
            with self._lock:
                kept.users -= 1
            self._close_if_unused(kept)

    def _taken(self, key: str) -> tuple[_KeptEngine, list[_KeptEngine]]:
        with self._lock:
            kept = self._kept.setdefault(key, _KeptEngine())
            kept.users += 1
            self._kept.move_to_end(key)
            surplus = [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - self._most)]
            for one in surplus:
                one.let_go = True
            return kept, surplus

    def _close_if_unused(self, kept: _KeptEngine) -> None:
        with self._lock:
            opened = kept.opened if kept.let_go and kept.users == 0 else None
            if opened is not None:
                kept.opened = None
        if opened is not None:
            opened.engine.close()
            opened.plugin.folder.cleanup()
