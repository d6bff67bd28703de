"""Where a setting belongs, for the message to someone who set it elsewhere; its group says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from context_engine.core.models import (
    GROUPS,
    DomainSettings,
    IngestSettings,
    Settings,
    SettingsGroup,
    group_of,
    lifetime,
)

PREFIX: Final = "CONTEXT_ENGINE_"
"""Before the key of a setting in the name of its variable."""
_SWITCHES: Final[Mapping[str, str]] = {"reranker": "reranking_enabled", "query_refiner": "query_refinement"}
"""Models that an engine has, and the setting by which a search does without."""


def misplaced(key: str, model: type[BaseModel], *, in_group: bool = False) -> str | None:
    """Return why a key that a model lacks cannot be set there, and where it can; None where no model has it.

    Args:
        key: as it was written.
        model: what may be set there.
        in_group: whether that is a group of `rag-pipeline.json`.
    """
    variable = f"{PREFIX}{key.upper()}"
    if key in IngestSettings.model_fields:
        return f"is a setting of reading files: set it in ingest.json or in {variable}"
    if key in GROUPS and issubclass(model, SettingsGroup):
        return "is a group of settings in rag-pipeline.json: set its keys here one by one"
    if key not in Settings.model_fields:
        return None
    if model is IngestSettings:
        return "is a setting of the pipeline: set it in rag-pipeline.json"
    group = group_of(key)
    if in_group:
        return f"belongs to {group!r}: move it to {group}.{key}"
    by_domain = ", in the manifest of a domain" if key in DomainSettings.model_fields else ""
    switch = f"; to do without, set {_SWITCHES[key]} to false" if key in _SWITCHES else ""
    return f"{lifetime(key)}: set it in rag-pipeline.json, in {variable}{by_domain} or in the pipeline config{switch}"
