"""The options and the context of embedders and rerankers; beside it, access to models on disk or over HTTP.

Each model is opened by a function `(options, context)`, published in the entry-point group `context_engine.embedders`
or `context_engine.rerankers` under the name used in the settings. The HTTP client is imported with
`model_access.server` only: most set-ups use no model server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from context_engine.core.protocols import Clock, Embedder, Reranker
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection
from context_engine.settings.messages import config_error


class Options(BaseModel):
    """Base of an adapter's options: frozen, and unknown keys are refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


O = TypeVar("O", bound=Options)  # noqa: E741


def read_options(model: type[O], options: Mapping[str, Any]) -> O:
    """Validate the options.

    Raises:
        ConfigError: a key is unknown, missing or out of range; `key` names the first one.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        raise config_error(error, options, model, file="") from None


def _no_data_dir() -> Path:
    raise ConfigError("no data folder is known here: name one in the options")


def _no_embedder() -> Embedder:
    raise ConfigError("no embedder is configured: name one as 'embedder'")


def _no_reranker(name: str, options: Mapping[str, Any]) -> Reranker:
    raise ConfigError(f"reranker {name!r} cannot be opened from here")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContext:
    """What an adapter to a model may use.

    Attributes:
        connection: returns a connection by name, its variables and files read at the call; call it again after a 401.
        data_dir: returns the folder for what may be kept between runs.
        embedder: returns the engine's embedder, the same each time; raises ConfigError if none is configured.
        reranker: (name, options) -> another reranker, for one that combines several.
    """

    connection: Callable[[str], Connection]
    clock: Clock
    data_dir: Callable[[], Path] = _no_data_dir
    embedder: Callable[[], Embedder] = _no_embedder
    reranker: Callable[[str, Mapping[str, Any]], Reranker] = _no_reranker


EmbedderFactory = Callable[[Mapping[str, Any], ModelContext], Embedder]
"""Opens an embedder from its options, before any model is loaded or server called; may raise ConfigError."""
RerankerFactory = Callable[[Mapping[str, Any], ModelContext], Reranker]
"""Opens a reranker from its options, before any model is loaded or server called; may raise ConfigError."""
