"""Opens the token counter that a recorded context names."""

from __future__ import annotations

from context_engine.core.protocols import TokenCounter


def counter_of_name(name: str) -> TokenCounter:
    """Return the token counter that a context names.

    Raises:
        ConfigError: there is no counter of this name, or it cannot be opened.
        MissingExtra: the extra `tokens` is not installed.
    """
    from context_engine.adapters.token_counters import open_counter
    from context_engine.core.context import ApproxTokenCounter, named_counter

    def opened(plain: str) -> TokenCounter:
        return ApproxTokenCounter() if plain == ApproxTokenCounter.name else open_counter(plain.replace("/", ":", 1))

    return named_counter(name, opened)
