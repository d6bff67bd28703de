"""One opened configuration with its ledger, and the one in force, which may be replaced while it is used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import Engine
from context_engine.core.models import Principal, Settings
from context_engine.core.policy.access import AccessViews
from context_engine.core.protocols import Recorder
from context_engine.errors import AuditOff, LedgerNotFound
from context_engine.service.kept import KeptResults
from context_engine.settings.principals import Principals
from context_engine.settings.registry import LoadedRegistry
from context_engine.wiring import Setup, build_engine
from context_engine.wiring.audit import audit_mode, open_ledger, open_recorder

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


class DeploymentLedger:
    """Opens the ledger when it is first read, once, and lends it to all threads.

    Args:
        setup: says where it is, and whether searches are recorded.
        data_dir: the folder of the embedded base; None for the usual one.
    """

    def __init__(self, setup: Setup, data_dir: Path | None) -> None:
        self._setup, self._data_dir = setup, data_dir
        self._lock = Lock()
        self._opened: Ledger | None = None

    @property
    def recording(self) -> bool:
        """Whether searches are recorded."""
        return audit_mode(self._setup) != "off"

    def opened(self) -> Ledger | None:
        """Return the ledger; None where there is none yet, because nothing was ever recorded in it.

        Raises:
            AuditOff: searches are not recorded.
            AuditError: it cannot be opened.
        """
        if not self.recording:
            raise AuditOff("searches are not recorded here: whoever runs the service sets audit_mode")
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = open_ledger(self._setup, self._data_dir, create=False)
                except LedgerNotFound:
                    return None
            return self._opened

    def close(self) -> None:
        """Close the ledger; may be called twice."""
        with self._lock:
            ledger, self._opened = self._opened, None
        if ledger is not None:
            ledger.close()


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """An engine with what it was made of.

    Attributes:
        views: the domains as each principal may know them.
        data_dir: the folder of the embedded base; None for the usual one.
        demo: the domains are the fictitious bank's.
        rankings: takes the rankings of chunks that callers hand over; None where nothing is recorded.
        kept: its answers of the last minutes.
        ledger: the records of its searches.
    """

    setup: Setup
    engine: Engine
    views: AccessViews[LoadedRegistry]
    data_dir: Path | None = None
    demo: bool = False
    rankings: Recorder | None = field(default=None, compare=False, repr=False)
    kept: KeptResults = field(default_factory=KeptResults, compare=False, repr=False)
    ledger: DeploymentLedger = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ledger", DeploymentLedger(self.setup, self.data_dir))

    @property
    def principals(self) -> Principals:
        """Who may act as whom, as `access.yaml` says."""
        return self.setup.config.principals

    @property
    def settings(self) -> Settings:
        """The settings of the deployment."""
        return self.setup.resolver.base().values

    def known_to(self, principal: Principal) -> LoadedRegistry:
        """Return the domains and sources that a principal may know; to it there are no others.

        Raises:
            PolicyError: the access policy failed.
        """
        return self.views.of(principal).registry

    def close(self) -> None:
        """Close the engine and the ledger; may be called twice."""
        self.engine.close()
        self.ledger.close()


def open_deployment(setup: Setup, *, data_dir: Path | None = None, demo: bool = False) -> Deployment:
    """Return a configuration with its engine.

    Raises:
        ConfigError: a configuration that cannot be used.
    """
    engine = build_engine(setup, data_dir=data_dir)
    views = AccessViews(setup.registry, setup.access)
    rankings = open_recorder(setup, data_dir, kind="rank")
    return Deployment(setup=setup, engine=engine, views=views, data_dir=data_dir, demo=demo, rankings=rankings)


class Closable(Protocol):
    """A resource that is closed once."""

    def close(self) -> None:
        """Close it."""
        ...


T = TypeVar("T", bound=Closable)


class Shared(Generic[T]):
    """A resource with a count of its users, closed when it is retired and the last user has left. Safe for threads.

    `join` is called under the lock of whatever hands the resource out: otherwise it could be retired and closed between
    the look-up and the join.

    Args:
        make: opens the resource; called by the first `value`, and again after a failure.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock, self._opening = make, Lock(), Lock()
        self._value: T | None = None
        self._users = 0
        self._retired = False

    def join(self) -> None:
        """Count one user more; each calls `leave` at its end."""
        with self._lock:
            self._users += 1

    def value(self) -> T:
        """Return the resource, opened if it is not open yet."""
        with self._opening:
            if self._value is None:
                self._value = self._make()
            return self._value

    def leave(self) -> None:
        """Count one user less."""
        with self._lock:
            self._users -= 1
        self._close_if_unused()

    def retire(self) -> None:
        """Close the resource as soon as nobody uses it; may be called twice."""
        with self._lock:
            self._retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        with self._lock:
            value = self._value if self._retired and self._users == 0 else None
            if value is not None:
                self._value = None
        if value is not None:
            value.close()


class LiveDeployment:
    """The deployment in force. Safe for many threads.

    Args:
        load: opens the configuration as it is now; called at once, and again by `reload`.

    Raises:
        ConfigError: the configuration cannot be used.
    """

    def __init__(self, load: Callable[[], Deployment]) -> None:
        self._load, self._lock, self._reloading = load, Lock(), Lock()
        self._shared = _shared(load())

    @property
    def current(self) -> Deployment:
        """The deployment in force, to be looked at; whoever works with it calls `use`."""
        return self._shared.value()

    @contextmanager
    def use(self) -> Iterator[Deployment]:
        """Yield the deployment in force; it stays open until the end of the block, whatever comes in its place."""
        with self._lock:
            shared = self._shared
            shared.join()
        try:
            yield shared.value()
        finally:
            shared.leave()

    def reload(self, check: Callable[[Deployment], None] | None = None) -> None:
        """Open the configuration anew and put it in force; the calls at work end with the one they began with.

        Args:
            check: is shown the new one before it is in force; what it raises refuses it.

        Raises:
            ConfigError: it cannot be used, and the one in force stays.
        """
        with self._reloading:
            new = self._load()
            if check is not None:
                try:
                    check(new)
                except BaseException:
                    new.close()
                    raise
            with self._lock:
                old, self._shared = self._shared, _shared(new)
            old.retire()

    def close(self) -> None:
        """Close the deployment as soon as nobody uses it; may be called twice."""
        self._shared.retire()


def _shared(deployment: Deployment) -> Shared[Deployment]:
    return Shared(lambda: deployment)
