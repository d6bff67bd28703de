"""What an adapter is given and what it may offer.

An adapter is a function `(spec, context) -> Source`, published by its package in the entry-point group
`context_engine.sources` under the name that a manifest's `adapter:` gives. What more it can do than open a source,
`source_adapter` adds to the function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from context_engine.core.models import Examination, Settings, SourceSpec
from context_engine.core.policy.access import OPEN_ACCESS
from context_engine.core.protocols import Clock, Embedder, Sink, Source
from context_engine.settings.connections import Connection

S = TypeVar("S", bound=Source, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What an adapter may use.

    Attributes:
        domain: the domain the source is opened for.
        settings: those of the pipeline, as they are without a call's own.
        embedder: returns the one embedder of the configuration, None where it names none.
        timezone: IANA name of the zone in which the domain's dates are days.
        data_dir: returns the folder of the embedded base.
        connection: returns a connection by name, its variables and files read at the call; call it again after a 401.
        clock: the time.
        shared: (key, make) -> what `make` returned for that key the first time: one client or base for many sources
            of an engine. It is closed with each of them, so closing it must be allowed twice.
        rules_of: returns the access rules of a source (`AccessPolicy.rules_of`).
    """

    domain: str
    data_dir: Callable[[], Path]
    connection: Callable[[str], Connection]
    clock: Clock
    shared: Callable[[Hashable, Callable[[], Any]], Any]
    timezone: str = "UTC"
    settings: Settings = field(default_factory=lambda: Settings())
    embedder: Callable[[], Embedder | None] = lambda: None
    rules_of: Callable[[str], str] = OPEN_ACCESS.rules_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How documents are to be written.

    Attributes:
        dry_run: nothing may be written; the sink is asked for `documents` alone.
        repair: compare every document with what was written to it and repair what differs.
        sleep: waits some seconds, and may tell the user so.
        tell: told what failed and is tried again.
    """

    dry_run: bool = False
    repair: bool = False
    sleep: Callable[[float], None] = time.sleep
    tell: Callable[[str], None] = lambda _problem: None


SourceFactory = Callable[[SourceSpec, SourceContext], Source]
"""Opens a source.

Raises:
    ConfigError: the specification cannot be used.
    SourceError: the source cannot be opened now; it is tried again at the next search.
"""

SinkFactory = Callable[[Sequence[SourceSpec], SourceContext, SinkOptions], AbstractContextManager[Sink]]
"""Opens the one sink of several sources of a domain; leaving it without an error ends the run.

Raises:
    ConfigError: a specification that cannot be used.
    SourceError, StoreError: it cannot be written to now.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAdapter(Generic[S]):
    """An adapter with what it offers beyond a search; called, it opens a source.

    Attributes:
        open: see `SourceFactory`.
        check: raises ConfigError for a specification that cannot be used, without opening anything.
        open_sink: see `SinkFactory`; None: its sources cannot be written to.
        repairs: whether its sink does what `SinkOptions.repair` asks for.
        advise: returns what to know of the servers behind several sources: (domain, what was found) of each examined.
    """

    open: Callable[[SourceSpec, SourceContext], S]
    check: Callable[[SourceSpec], object] | None = None
    open_sink: SinkFactory | None = None
    repairs: bool = False
    advise: Callable[[Sequence[tuple[str, Examination]]], Iterable[str]] | None = None

    def __call__(self, spec: SourceSpec, context: SourceContext) -> S:
        """Open a source."""
        return self.open(spec, context)

    @staticmethod
    def of(factory: SourceFactory) -> SourceAdapter[Source]:
        """Return what an entry point names as an adapter: a plain function opens sources and offers nothing more."""
        return factory if isinstance(factory, SourceAdapter) else SourceAdapter(open=factory)


def source_adapter(
    *,
    check: Callable[[SourceSpec], object] | None = None,
    open_sink: SinkFactory | None = None,
    repairs: bool = False,
    advise: Callable[[Sequence[tuple[str, Examination]]], Iterable[str]] | None = None,
) -> Callable[[Callable[[SourceSpec, SourceContext], S]], SourceAdapter[S]]:
    """Return a decorator that adds to a function that opens sources what else its adapter offers.

    Args:
        check, open_sink, repairs, advise: see `SourceAdapter`.
    """

    def adapter(function: Callable[[SourceSpec, SourceContext], S]) -> SourceAdapter[S]:
        return SourceAdapter(open=function, check=check, open_sink=open_sink, repairs=repairs, advise=advise)

    return adapter
