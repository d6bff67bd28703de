"""The table of colours of an RTF file, to tell text that is white on white."""

from __future__ import annotations

from typing import Final

_PALE: Final = 0xF0  # of 255: the least red, green and blue of nearly white


class RtfColours:
    """Collects the colours; the first one, which is the reader's own, is number 0.

    Attributes:
        pale: numbers of the colours that nobody sees on white paper.
    """

    def __init__(self) -> None:
        self._parts: dict[bytes, int] = {}
        self._count = 0
        self.pale: set[int] = set()

    def set(self, word: bytes, number: int | None) -> None:
        """Take a part of the current colour: `red`, `green` or `blue`."""
        self._parts[word] = number or 0

    def end(self, text: str) -> None:
        """Take the text between colours: each ";" ends a colour."""
        for _ in range(text.count(";")):
            if len(self._parts) == 3 and min(self._parts.values()) >= _PALE:
                self.pale.add(self._count)
            self._parts.clear()
            self._count += 1

    def is_ground(self, number: int | None) -> bool:
        """Return whether a shading with this colour is seen."""
        return bool(number) and number not in self.pale
