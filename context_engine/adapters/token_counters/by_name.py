"""From the name of a counter to the counter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from context_engine.adapters.token_counters.tiktoken import TiktokenCounter
from context_engine.adapters.token_counters.tokenizers import TokenizersCounter
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.protocols import TokenCounter
from context_engine.errors import ConfigError, nearest

COUNTERS: Final = ("approx", "tiktoken", "tokenizers")


def open_counter(name: str, *, env: Mapping[str, str] | None = None) -> TokenCounter:
    """Return the counter of a name; nothing is ever downloaded.

    Args:
        name: `approx`; `tiktoken:cl100k_base` (its file in the folder TIKTOKEN_CACHE_DIR names) or
            `tiktoken:/models/cl100k_base.tiktoken`; `tokenizers:/models/minilm/tokenizer.json` or its folder.
        env: the environment.

    Raises:
        ConfigError: there is no such counter, or its file is not there or cannot be read.
        MissingExtra: the extra `tokens` is not installed.
    """
    kind, _, given = name.partition(":")
    if kind not in COUNTERS:
        raise ConfigError(f"token counter {name!r} is not known.{nearest(kind, COUNTERS)}")
    if kind == "approx" and not given:
        return ApproxTokenCounter()
    if kind == "approx" or not given:
        form = {"approx": "approx", "tiktoken": "tiktoken:cl100k_base", "tokenizers": "tokenizers:FOLDER"}[kind]
        raise ConfigError(f"token counter {name!r} is not of the form '{form}'")
    return TokenizersCounter(given) if kind == "tokenizers" else TiktokenCounter.named(given, env=env)
