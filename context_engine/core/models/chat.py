"""What is said to a chat model, and what it answers and costs: messages, parts of an answer, tokens used, prices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from context_engine.errors import ConfigError


class ChatMessage(NamedTuple):
    """A message to a chat model."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatUsage(NamedTuple):
    """The tokens of one call.

    Attributes:
        input_tokens: of the messages, >= 0, with those from the server's cache.
        output_tokens: of the answer, >= 0, with those that the model thought in.
        cached_tokens: the part of the input that came from the server's cache, at a lower price.
        estimated: counted here, because the server gave no number, or one that cannot be.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    estimated: bool = False


class FinishReason(StrEnum):
    """Why an answer ended.

    STOP: the model had finished. LENGTH: it was cut at the limit of tokens. FILTERED: the server or the model refused
    to go on. CANCELLED: the caller did not want the rest. OTHER: another reason, or none given.
    """

    STOP = "stop"
    LENGTH = "length"
    FILTERED = "filtered"
    CANCELLED = "cancelled"
    OTHER = "other"


class ChatPart(NamedTuple):
    """A part of an answer: a piece of its text; or the last part, which has no text.

    Attributes:
        finish: why the answer ended; None before the last part.
        usage: the tokens of the call; None before the last part.
    """

    text: str = ""
    finish: FinishReason | None = None
    usage: ChatUsage | None = None


Money = Annotated[
    Decimal,
    Field(ge=0, max_digits=18, decimal_places=9, allow_inf_nan=False),
    WithJsonSchema({"type": "number", "minimum": 0}),
]


class Price(BaseModel):
    """What a million tokens of a model cost from a day on; the same currency in all rows."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    model: Annotated[str, Field(min_length=1)] = Field(description="The model's name in chat_model_options.")
    valid_from: date = Field(description="First day of the price, UTC, such as 2026-01-31.")
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field(description="ISO 4217 code, such as USD.")
    input_per_million: Money
    cached_per_million: Money | None = Field(None, description="Input from the server's cache; null: as other input.")
    output_per_million: Money


def _consistent(prices: tuple[Price, ...]) -> tuple[Price, ...]:
    currencies = sorted({price.currency for price in prices})
    if len(currencies) > 1:
        raise ValueError(f"has prices in {' and '.join(currencies)}: give all of them in one currency")
    rows = [(price.model, price.valid_from) for price in prices]
    twice = next((row for row in rows if rows.count(row) > 1), None)
    if twice is not None:
        raise ValueError(f"has two prices of {twice[0]} from {twice[1]} on: keep one")
    return prices


Prices = Annotated[tuple[Price, ...], Field(strict=False), AfterValidator(_consistent)]
"""Rows in one currency, and of a model at most one from each day."""


def valid_price(prices: Iterable[Price], model: str, day: date) -> Price | None:
    """Return the newest price of a model that is valid on a day (UTC); None if it is unknown."""
    valid = [price for price in prices if price.model == model and price.valid_from <= day]
    return max(valid, key=lambda price: price.valid_from, default=None)


def missing_price(model: str, day: date) -> ConfigError:
    """Return the error for a model under a cost limit whose price is unknown."""
    problem = f"holds no price of {model!r} for {day}, and a cost limit is set: add a row with model, valid_from, "
    return ConfigError(f"{problem}currency, input_per_million and output_per_million", key="prices")
