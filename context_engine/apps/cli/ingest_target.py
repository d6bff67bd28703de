"""Where `ingest` writes: the sources of one adapter, through the sink that it opens for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from context_engine.apps.cli.console import note
from context_engine.core.models import SourceSpec
from context_engine.errors import InvalidRequest, nearest

_FIRST_NOTE_S: Final = 10.0


def target_sources(
    domain: str, sources: Sequence[SourceSpec], to: str, source_id: str | None, sinks: Callable[[list[str]], list[str]]
) -> Sequence[SourceSpec]:
    """Return the sources of a domain that documents are written to.

    Args:
        sources: all of the domain.
        to: the name of an adapter.
        source_id: this one alone; None: all of the adapter.
        sinks: returns which of some adapters can be written to.

    Raises:
        InvalidRequest: the domain has none of that adapter, or not the one that is named.
    """
    fitting = [source for source in sources if source.adapter == to]
    if not fitting:
        others = sinks(sorted({source.adapter for source in sources}))
        hint = f"; --to {others[0]} writes to those it has" if others else ""
        raise InvalidRequest(f"domain {domain!r} has no source with 'adapter: {to}' in its manifest{hint}")
    if source_id is None:
        return fitting
    named = [source for source in fitting if source.id == source_id]
    if not named:
        ids = [source.id for source in fitting]
        raise InvalidRequest(f"source {source_id!r} is not one that --to {to} writes to.{nearest(source_id, ids)}")
    return named


def noting_once() -> Callable[[str], None]:
    """Return a function that says of a problem, once, that what failed is tried again."""
    said = set[str]()

    def tell(problem: str) -> None:
        if problem not in said:
            said.add(problem)
            note(f"{problem}; trying again …")

    return tell


def noting_sleep(what: str) -> Callable[[float], None]:
    """Return a sleep that says so when the waiting adds up.

    Args:
        what: what is waited for, and why.
    """
    waited, due = 0.0, _FIRST_NOTE_S

    def wait(seconds: float) -> None:
        nonlocal waited, due
        waited += seconds
        if waited >= due:
            note(f"Waiting for {what}: {waited:.0f} s so far.")
            due = waited * 3
        time.sleep(seconds)

    return wait
