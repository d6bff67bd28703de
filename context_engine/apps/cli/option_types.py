"""Option types that several commands share: a moment, a day."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from context_engine.core.models import to_moment

if TYPE_CHECKING:
    _MomentType = click.ParamType[datetime]
else:  # not generic before click 8.2
    _MomentType = click.ParamType


class Moment(_MomentType):
    """A day or a moment, written 2025-06-30 or 2025-06-30T12:00:00Z."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, UTC where no zone is given."""
        moment = to_moment(value)
        if moment is None:
            self.fail(f"{value!r} is not a moment: write it as 2025-06-30T12:00:00Z", param, ctx)
        return moment
