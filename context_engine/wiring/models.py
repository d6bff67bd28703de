"""Embedders and rerankers by name, through the entry points of their packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_engine.errors import ConfigError
from context_engine.model_access import ModelContext
from context_engine.protocols import Embedder, Reranker
from context_engine.wiring.adapters import EMBEDDERS, RERANKERS, find_adapter, load_adapter

__all__ = ["open_embedder", "open_reranker"]


def open_embedder(
    name: str, options: Mapping[str, Any], context: ModelContext, *, file: str | None = None, key: str = "embedder"
) -> Embedder:
    """Return an embedder by its name.

    Args:
        name: of an entry point of `context_engine.embedders`.
        options: its own; a problem in them is said to stand below `<key>_options`.
        context: what it may use.
        file, key: where the name stands, for messages.

    Raises:
        ConfigError: it is not installed, or its options cannot be used.
    """
    return _open(EMBEDDERS, name, options, context, file, key)  # type: ignore[no-any-return]


def open_reranker(
    name: str, options: Mapping[str, Any], context: ModelContext, *, file: str | None = None, key: str = "reranker"
) -> Reranker:
    """Return a reranker by its name; as `open_embedder`."""
    return _open(RERANKERS, name, options, context, file, key)  # type: ignore[no-any-return]


def _open(group: str, name: str, options: Mapping[str, Any], context: ModelContext, file: str | None, key: str) -> Any:
    factory = load_adapter(find_adapter(group, name, file=file, key=key))
    try:
        return factory(options, context)
    except ConfigError as error:
        if error.file is not None:
            raise
        where = f"{key}_options" + (f".{error.key}" if error.key else "")
        raise ConfigError(error.problem, file=file, key=where) from error
