"""An opened configuration with its engine and ledger, and its replacement at a reload."""

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
from context_engine.core.protocols import ChatModel, Entailment, Recorder
from context_engine.errors import AuditOff, LedgerNotFound
from context_engine.service.kept import KeptResults
from context_engine.service.suggesting import Suggestions
from context_engine.settings.principals import Principals
from context_engine.settings.registry import LoadedRegistry
from context_engine.wiring.audit import audit_mode, open_ledger, open_recorder
from context_engine.wiring.build import build_engine
from context_engine.wiring.events import EventSinks, open_events
from context_engine.wiring.setup import Setup

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


class DeploymentLedger:
    """Opens the ledger once, when it is first read, and shares it with all threads.

    Args:
        setup: the configuration, with the ledger's address and the audit mode.
        data_dir: the data folder; None: the default.
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
        """Return the ledger; None if nothing was ever recorded.

        Raises:
            AuditOff: searches are not recorded.
            AuditError: it cannot be opened.
        """
        if not self.recording:
            raise AuditOff("searches are not recorded here: the operator can set audit_mode")
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


class DeploymentChat:
    """Opens the models that answer, once, when they are first needed, and shares them with all threads.

    Args:
        setup: the configuration, which names them.
        data_dir: the data folder; None: the default.
    """

    def __init__(self, setup: Setup, data_dir: Path | None) -> None:
        self._setup, self._data_dir, self._lock = setup, data_dir, Lock()
        self._model: ChatModel | None = None
        self._entailment: Entailment | None = None

    def model(self) -> ChatModel | None:
        """Return the chat model; None if none is configured.

        Raises:
            ConfigError: it cannot be opened.
        """
        with self._lock:
            if self._model is None:
                self._model = self._setup.models(self._data_dir).chat_model()
            return self._model

    def entailment(self) -> Entailment | None:
        """Return the entailment model; None if none is configured.

        Raises:
            ConfigError: it cannot be opened.
        """
        with self._lock:
            if self._entailment is None:
                self._entailment = self._setup.models(self._data_dir).entailment()
            return self._entailment


class DeploymentEvents:
    """Opens the receivers of events once, when they are first needed; they try again while the deployment is open.

    Args:
        setup: the configuration, which names them.
        data_dir: the data folder; None: the default.
    """

    def __init__(self, setup: Setup, data_dir: Path | None) -> None:
        self._setup, self._data_dir, self._lock = setup, data_dir, Lock()
        self._sinks: EventSinks | None = None

    def opened(self) -> EventSinks:
        """Return the receivers.

        Raises:
            ConfigError: one of them cannot be opened.
        """
        with self._lock:
            if self._sinks is None:
                self._sinks = open_events(self._setup, self._data_dir)
            return self._sinks

    def close(self) -> None:
        """Close them; may be called twice."""
        with self._lock:
            sinks, self._sinks = self._sinks, None
        if sinks is not None:
            sinks.close()


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """An engine with its configuration, kept answers and ledger.

    Attributes:
        views: the view of the domains for each principal.
        data_dir: the data folder; None: the default.
        demo: whether it serves the demo bank.
        rankings: records rankings of callers' own chunks; None if nothing is recorded.
        kept: the answers of the last minutes.
        ledger: the records of its searches.
        events: the receivers of events.
        suggestions: texts for a person who types a question.
    """

    setup: Setup
    engine: Engine
    views: AccessViews[LoadedRegistry]
    data_dir: Path | None = None
    demo: bool = False
    rankings: Recorder | None = field(default=None, compare=False, repr=False)
    kept: KeptResults = field(default_factory=KeptResults, compare=False, repr=False)
    ledger: DeploymentLedger = field(init=False, compare=False, repr=False)
    chat: DeploymentChat = field(init=False, compare=False, repr=False)
    events: DeploymentEvents = field(init=False, compare=False, repr=False)
    suggestions: Suggestions = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chat", DeploymentChat(self.setup, self.data_dir))
        object.__setattr__(self, "events", DeploymentEvents(self.setup, self.data_dir))
        object.__setattr__(self, "suggestions", Suggestions(self.setup, self.data_dir))
        object.__setattr__(self, "ledger", DeploymentLedger(self.setup, self.data_dir))

    @property
    def principals(self) -> Principals:
        """The principals of `access.yaml`."""
        return self.setup.config.principals

    @property
    def settings(self) -> Settings:
        """The settings of the deployment."""
        return self.setup.resolver.base().values

    def known_to(self, principal: Principal) -> LoadedRegistry:
        """Return the registry with only the domains and sources that a principal may know of.

        Raises:
            PolicyError: the access policy failed.
        """
        return self.views.of(principal).registry

    def close(self) -> None:
        """Close the engine, the ledger and the receivers of events; may be called twice."""
        self.engine.close()
        self.ledger.close()
        self.events.close()


def open_deployment(
    setup: Setup, *, data_dir: Path | None = None, demo: bool = False, kept: KeptResults | None = None
) -> Deployment:
    """Return a configuration with its engine.

    Args:
        kept: where its answers are kept; None: in this process.

    Raises:
        ConfigError: an unusable configuration.
    """
    engine = build_engine(setup, data_dir=data_dir)
    views = AccessViews(setup.registry, setup.access)
    rankings = open_recorder(setup, data_dir, kind="rank")
    return Deployment(
        setup=setup,
        engine=engine,
        views=views,
        data_dir=data_dir,
        demo=demo,
        rankings=rankings,
        kept=KeptResults() if kept is None else kept,
    )


class Closable(Protocol):
    """A resource that is closed once."""

    def close(self) -> None:
        """Close it."""
        ...


T = TypeVar("T", bound=Closable)


class Shared(Generic[T]):
    """A resource with a count of its users, closed once it is retired and the last user has left. Thread-safe.

    Call `join` under the lock of the owner that hands the resource out: otherwise the resource could be retired and
    closed between the look-up and the join.

    Args:
        make: opens the resource; called by the first `value`, and again after a failure.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock, self._opening = make, Lock(), Lock()
        self._value: T | None = None
        self._users = 0
        self._retired = False

    def join(self) -> None:
        """Add a user, who must call `leave`."""
        with self._lock:
            self._users += 1

    def value(self) -> T:
        """Return the resource, opened if it is not open yet."""
        with self._opening:
            if self._value is None:
                self._value = self._make()
            return self._value

    def leave(self) -> None:
        """Remove a user."""
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
    """The deployment in force, replaceable while in use. Thread-safe.

    Args:
        load: opens the current configuration; called now and by `reload`.

    Raises:
        ConfigError: the configuration cannot be used.
    """

    def __init__(self, load: Callable[[], Deployment]) -> None:
        self._load, self._lock, self._reloading = load, Lock(), Lock()
        self._shared = _shared(load())

    @property
    def current(self) -> Deployment:
        """The deployment in force, for inspection; work with it inside `use`."""
        return self._shared.value()

    @contextmanager
    def use(self) -> Iterator[Deployment]:
        """Yield the deployment in force; it stays open until the end of the block, even after a reload."""
        with self._lock:
            shared = self._shared
            shared.join()
        try:
            yield shared.value()
        finally:
            shared.leave()

    def reload(self, check: Callable[[Deployment], None] | None = None) -> None:
        """Reopen the configuration and put it in force; running calls end with the deployment they began with.

        Args:
            check: called with the new deployment before it is in force; an exception refuses it.

        Raises:
            ConfigError: unusable; the current one stays in force.
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
        """Close the deployment once nobody uses it; may be called twice."""
        self._shared.retire()


def _shared(deployment: Deployment) -> Shared[Deployment]:
    return Shared(lambda: deployment)
