"""The context of a source adapter, and its optional features.

An adapter is a function `(spec, context) -> Source`, published in the entry-point group `context_engine.sources` under
the name used in a manifest's `adapter:`. `source_adapter` adds optional features to this function.
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
        settings: the settings of the pipeline, without those of a single call.
        embedder: returns the configured embedder, None if there is none.
        timezone: IANA name of the zone in which the domain's dates are days.
        data_dir: returns the folder of the embedded base.
        connection: returns a connection by name, its variables and files read at the call; call it again after a 401.
        shared: (key, make) -> the object that `make` returned the first time for this key: one client or base for many
            sources of an engine. It is closed with each of them, so closing it twice must be allowed.
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
        dry_run: nothing is written; only the sink's `documents` is used.
        repair: compare every document with what was written and repair differences.
        sleep: waits some seconds, and may inform the user.
        tell: receives failures that are retried.
    """

    dry_run: bool = False
    repair: bool = False
    sleep: Callable[[float], None] = time.sleep
    tell: Callable[[str], None] = lambda _problem: None


SourceFactory = Callable[[SourceSpec, SourceContext], Source]
"""Opens a source; raises ConfigError, or SourceError if it cannot be opened now: the next search tries again."""
SinkFactory = Callable[[Sequence[SourceSpec], SourceContext, SinkOptions], AbstractContextManager[Sink]]
"""Opens the one sink of several sources of a domain; leaving it without an error ends the run.

Raises:
    ConfigError: a specification cannot be used.
    SourceError, StoreError: nothing can be written now.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAdapter(Generic[S]):
    """An adapter with its optional features; calling it opens a source.

    Attributes:
        check: raises ConfigError for a specification that cannot be used, without opening anything.
        open_sink: see `SinkFactory`; None: its sources cannot be written to.
        repairs: whether its sink supports `SinkOptions.repair`.
        advise: returns advice on the servers behind several sources, from (domain, examination) of each.
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
        """Return the adapter of an entry point; a plain function only opens sources."""
        return factory if isinstance(factory, SourceAdapter) else SourceAdapter(open=factory)


def source_adapter(
    *,
    check: Callable[[SourceSpec], object] | None = None,
    open_sink: SinkFactory | None = None,
    repairs: bool = False,
    advise: Callable[[Sequence[tuple[str, Examination]]], Iterable[str]] | None = None,
) -> Callable[[Callable[[SourceSpec, SourceContext], S]], SourceAdapter[S]]:
    """Return a decorator that turns a function that opens sources into a `SourceAdapter`."""

    def adapter(function: Callable[[SourceSpec, SourceContext], S]) -> SourceAdapter[S]:
        return SourceAdapter(open=function, check=check, open_sink=open_sink, repairs=repairs, advise=advise)

    return adapter
