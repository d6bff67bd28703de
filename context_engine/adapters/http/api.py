"""The description of a kind of server: all there is to say to have one asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from context_engine.adapters.http.keys import BEARER, KeyHeader
from context_engine.adapters.http.statuses import Statuses

MAX_BYTES: Final = 16 * 1024 * 1024


def _as_written(base_url: str) -> str:
    return base_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """How one kind of server is asked.

    Attributes:
        name: what messages call it; None: the host of the connection.
        root: base URL of a connection -> the URL below which its paths lie.
        statuses: what its statuses mean where that is not the usual.
        good: statuses of success.
        key_header: where it wants the key.
        key_required: where it needs a key, how to give the connection one; empty: a key is optional.
        max_bytes: longest answer that is read.
        counted_methods: methods that its rate limit counts.
        counts_refusals: statuses by which it says that its rate limit is used up, where refused calls count too: then
            no further search calls it until the window has passed.
        waits_for_rate: whether a call waits until the plan's rate allows it; else it is refused at once.
        bounded_elsewhere: whether a queue before this client keeps to `max_connections`; else this client does.
    """

    name: str | None = None
    root: Callable[[str], str] = _as_written
    statuses: Statuses = field(default_factory=dict)
    good: frozenset[int] = frozenset({200})
    key_header: KeyHeader = BEARER
    key_required: str = ""
    max_bytes: int = MAX_BYTES
    counted_methods: frozenset[str] = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
    counts_refusals: frozenset[int] = frozenset()
    waits_for_rate: bool = False
    bounded_elsewhere: bool = False


def versioned(version: str) -> Callable[[str], str]:
    """Return a root that ends in the API's version, whether or not the base URL does.

    >>> versioned("v1")("https://kb.example"), versioned("v1")("https://kb.example/v1")
    ('https://kb.example/v1', 'https://kb.example/v1')
    """
    return lambda base_url: f"{base_url.removesuffix(f'/{version}')}/{version}"


def below_host(prefix: str) -> Callable[[str], str]:
    """Return a root that has the API's prefix where the base URL is only a host; one with a path is taken as it is.

    >>> below_host("v1")("https://models.example"), below_host("v1")("https://models.example/openai")
    ('https://models.example/v1', 'https://models.example/openai')
    """
    return lambda base_url: base_url if urlsplit(base_url).path or not prefix else f"{base_url}/{prefix}"
