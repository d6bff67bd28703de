"""What the commands about single answers read beside the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from context_engine.core.protocols import TokenCounter


def counter_of_name(name: str) -> TokenCounter:
    """Return the token counter that a context names.

    Raises:
        ConfigError: it cannot be opened by its name.
        MissingExtra: the extra `tokens` is not installed.
    """
    from context_engine.adapters.token_counters import open_counter
    from context_engine.core.context import ApproxTokenCounter, named_counter

    def opened(plain: str) -> TokenCounter:
        return ApproxTokenCounter() if plain == ApproxTokenCounter.name else open_counter(plain.replace("/", ":", 1))

    return named_counter(name, opened)


def read_saved(file: Path) -> dict[str, Any]:
    """Return what `search --json --full` wrote.

    Raises:
        ConfigError: the file cannot be read.
        InvalidRequest: it holds no JSON object.
    """
    import json

    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(file)) from None
    except (ValueError, RecursionError):
        raise InvalidRequest(f"{file} holds no JSON") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f"{file} holds no JSON object")
    return found
