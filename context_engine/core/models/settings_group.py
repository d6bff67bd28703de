"""What the groups of settings have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Flag = Annotated[bool, Field(strict=True)]


class SettingsGroup(BaseModel):
    """Settings of one lifetime."""

    model_config = ConfigDict(frozen=True, extra="forbid")
