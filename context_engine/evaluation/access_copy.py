"""What is put on trial of an operator's configuration: its embedded sources, and a copy of their base."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from context_engine.adapters.sources.factory import in_embedded_base
from context_engine.adapters.sources.local import schema
from context_engine.wiring import Setup


def embedded(setup: Setup) -> Setup:
    """Return a configuration with those sources alone that stand in the embedded base."""
    domains = {}
    for name, domain in setup.registry.domains.items():
        sources = tuple(filter(in_embedded_base, domain.sources))
        if sources:
            domains[name] = domain.model_copy(update={"sources": sources})
    return replace(setup, registry=setup.registry.only(domains))


def copy_base(source: Path, target: Path) -> None:
    """Copy the rows of a base as they stand at one moment; the first writer builds the index of the copy.

    Args:
        source: folder of the base; it is only read.
        target: a folder that is not there yet.

    Raises:
        StoreError: there is no base, or it cannot be read.
    """
    if not schema.exists(source):
        raise schema.missing(source)
    target.mkdir(parents=True)
    with (
        closing(schema.connect(source, write=False)) as rows,
        closing(sqlite3.connect(target / schema.DATABASE)) as copy,
    ):
        try:
            rows.backup(copy)
        except sqlite3.DatabaseError as error:
            raise schema.unusable(source, error) from error
