"""How RTF shows its characters, to tell which ones nobody sees: hidden, tiny, or white on white."""

from __future__ import annotations

from typing import Final, NamedTuple

_TINY: Final = 3  # half points
_PALE: Final = 0xF0  # of 255: the least red, green and blue of nearly white
LOOKS: Final = frozenset((b"v", b"fs", b"cf", b"cb", b"highlight", b"chcbpat"))
"""Control words that change the look of characters."""


class Look(NamedTuple):
    """The look of a group's characters; `colour` and `ground` are numbers in the table of colours."""

    hidden: bool = False
    size: int | None = None
    colour: int = 0
    ground: int = 0

    def changed(self, word: bytes, number: int | None) -> Look:
        """Return the look after a control word of `LOOKS`."""
        if word == b"v":
            return self._replace(hidden=number != 0)
        if word == b"fs":
            return self._replace(size=number)
        return self._replace(colour=number or 0) if word == b"cf" else self._replace(ground=number or 0)

    @property
    def is_unseen(self) -> bool:
        """Whether the characters are hidden or tiny, whatever their colour."""
        return self.hidden or (self.size is not None and self.size <= _TINY)


PLAIN: Final = Look()


class RtfColours:
    """The table of colours; the first one, which is the reader's own, is number 0."""

    def __init__(self) -> None:
        self._parts: dict[bytes, int] = {}
        self._count = 0
        self._pale: set[int] = set()

    def set(self, word: bytes, number: int | None) -> None:
        """Take a part of the current colour: `red`, `green` or `blue`."""
        self._parts[word] = number or 0

    def end(self, text: str) -> None:
        """Take the text between colours: each ";" ends a colour."""
        for _ in range(text.count(";")):
            if len(self._parts) == 3 and min(self._parts.values()) >= _PALE:
                self._pale.add(self._count)
            self._parts.clear()
            self._count += 1

    def hide(self, look: Look) -> bool:
        """Return whether characters have the colour of white paper, and no ground of their own."""
        return look.colour in self._pale and (look.ground == 0 or look.ground in self._pale)

    def is_ground(self, number: int | None) -> bool:
        """Return whether a shading with this colour is seen."""
        return bool(number) and number not in self._pale
