"""The options of an embedder or reranker, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from context_engine.settings.messages import config_error


class Options(BaseModel):
    """Base of the options of an adapter: frozen, and a key that is not known is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


O = TypeVar("O", bound=Options)  # noqa: E741


def read_options(model: type[O], given: Mapping[str, Any]) -> O:
    """Return the options as values.

    Raises:
        ConfigError: the first key that is not known, missing or out of range; `key` names it.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise config_error(error, given, model, file="") from None
