"""Option types: a moment, a span of time that ends at one, and an amount of money."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.core.models import to_moment

if TYPE_CHECKING:
    _ParamType = click.ParamType
else:

    class _ParamType(click.ParamType):
        """A parameter type that takes a type argument, as click's own does only from 8.2 on."""

        def __class_getitem__(cls, _value_type: Any) -> type:
            return cls


class Moment(_ParamType[datetime]):
    """A day or a moment, written 2025-06-30 or 2025-06-30T12:00:00Z."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, in UTC if it names no zone."""
        moment = to_moment(value)
        if moment is None:
            self.fail(f"{value!r} is not a moment: write it as 2025-06-30T12:00:00Z", param, ctx)
        return moment


class TimeSpan(_ParamType[timedelta | datetime]):
    """A span of days or hours (90d, 12h), or the day or moment at which it ends (2027-06-30)."""

    name = "90d|DAY"
    _FORM: Final = re.compile(r"([1-9][0-9]{0,4})([hd])")
    _UNITS: Final = {"h": "hours", "d": "days"}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | datetime:
        """Return the span, or the moment, in UTC if it names no zone."""
        if isinstance(value, str) and (match := self._FORM.fullmatch(value.strip())):
            return timedelta(**{self._UNITS[match[2]]: int(match[1])})
        moment = to_moment(value)
        if moment is None:
            self.fail(f"{value!r} is neither a time nor a day: write it as 90d, 12h or 2027-06-30", param, ctx)
        return moment


class Amount(_ParamType[Decimal]):
    """An amount of money, written 25 or 12.50."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Return the amount."""
        try:
            return Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is not an amount: write it as 12.50", param, ctx)
