"""A limit in characters beside one in tokens, as one budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from context_engine.core.protocols import TokenCounter
from context_engine.errors import InvalidRequest

_CHARACTERS: Final = "characters"


class TextLimit(NamedTuple):
    """What a text is measured with, and how long it may be by that measure."""

    counter: TokenCounter
    budget: int


class _Characters:
    """Counts characters, and tokens where they bind harder: `most_tokens` tokens weigh as much as `most_chars`."""

    def __init__(self, counter: TokenCounter | None, most_chars: int, most_tokens: int | None) -> None:
        self._counter, self._most_chars, self._most_tokens = counter, most_chars, most_tokens
        both = () if counter is None or most_tokens is None else (str(most_chars), str(most_tokens), counter.name)
        self.name = "/".join((_CHARACTERS, *both))

    def count(self, text: str) -> int:
        if self._counter is None or self._most_tokens is None:
            return len(text)
        return max(len(text), -(-self._counter.count(text) * self._most_chars // self._most_tokens))


def limited(counter: TokenCounter, max_tokens: int | None, max_chars: int | None) -> TextLimit | None:
    """Return what keeps a text to both limits; None where there is none.

    Args:
        counter: of the tokens.
        max_tokens, max_chars: at least 1; None is no limit.
    """
    if max_chars is not None:
        return TextLimit(_Characters(counter, max_chars, max_tokens), max_chars)
    return None if max_tokens is None else TextLimit(counter, max_tokens)


def named_counter(name: str, open_counter: Callable[[str], TokenCounter]) -> TokenCounter:
    """Return the counter that a context names, one with a limit of characters in it too.

    Args:
        open_counter: returns any other counter by its name.

    Raises:
        InvalidRequest: a name that begins as one of characters and does not go on so.
    """
    first, *rest = name.split("/", 3)
    if first != _CHARACTERS:
        return open_counter(name)
    match rest:
        case []:
            return _Characters(None, 1, None)
        case [chars, tokens, inner] if chars.isdecimal() and tokens.isdecimal() and int(chars) and int(tokens):
            return _Characters(open_counter(inner), int(chars), int(tokens))
    raise InvalidRequest(f"token counter {name!r} cannot be read: characters/<most>/<most tokens>/<name> was expected")
