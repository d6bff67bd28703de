"""Personal data in texts, replaced by keyed pseudonyms such as `[IBAN 7f3a90b1c2d4]`.

A pseudonym is 12 hexadecimal digits of HMAC-SHA-256 over kind and value: with one key the same value has the same
pseudonym wherever and however it is written, and without the key nobody can tell the value, nor try all of them. Of a
million values two share a pseudonym with a probability of .002.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from context_engine.core.policy.hidden_text import invisible
from context_engine.core.protocols import Masker, PersonalData
from context_engine.errors import ContextEngineError, MaskingError

_LENGTH: Final = 12
_LETTER: Final = re.compile(r"[a-f]")
_KIND: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_PSEUDONYM: Final = re.compile(rf"(\[[A-Z][A-Z0-9_-]{{0,31}} (?=[0-9]*[a-f])[0-9a-f]{{{_LENGTH}}}\])")


class PseudonymMask:
    """Replaces what maskers find by pseudonyms; a `Mask`. Safe for several threads if the maskers are.

    Args:
        maskers: each reads the whole text.
        key: of the pseudonyms, secret.
        allowed: what stays as it is: a value in any spelling that a masker reads, or "@bank.example" for every address
            of a mail domain.
    """

    def __init__(self, maskers: Sequence[Masker], key: bytes, allowed: Collection[str] = ()) -> None:
        self._maskers, self._key = tuple(maskers), key
        self._domains = tuple(_plain(entry) for entry in allowed if entry.startswith("@"))
        self._values = frozenset(value for entry in allowed for value in self._spellings(entry))

    def __call__(self, text: str) -> str:
        """Return a text with every value that is not allowed replaced.

        Pseudonyms that stand in it already are not read. What was next to a value may itself be one once that is
        replaced, so the text is read until nothing more is found: masked again it stays the same. A passage in
        characters that nobody sees, but a model reads, is shown in ⟦brackets⟧ where it holds a value.

        Raises:
            MaskingError: a masker failed.
        """
        text = self._unhidden(text)
        while (masked := self._once(text)) != text:
            text = masked
        return text

    def pseudonym(self, kind: str, value: str) -> str:
        """Return what stands for a value; it holds a letter, so that no number passes for it."""
        digest = hmac.new(self._key, f"{kind}\0{value}".encode(), "sha256").hexdigest()
        windows = (digest[start : start + _LENGTH] for start in range(len(digest) - _LENGTH + 1))
        return f"[{kind} {next((one for one in windows if _LETTER.search(one)), 'a' * _LENGTH)}]"

    def _unhidden(self, text: str) -> str:
        """Return a text with the invisible passages shown that hold something to be masked."""
        parts, end = [], 0
        for start, until, says in invisible(text):
            if start >= end and self._once(says) != says:
                parts += [text[end:start], f"⟦{says}⟧"]
                end = until
        return "".join([*parts, text[end:]])

    def _once(self, text: str) -> str:
        pieces = _PSEUDONYM.split(text)
        return "".join(piece if place % 2 else self._masked(piece) for place, piece in enumerate(pieces))

    def _masked(self, text: str) -> str:
        if not text:
            return text
        parts, end = [], 0
        for found in _apart(one for masker in self._maskers for one in _found(masker, text)):
            if not self._is_allowed(found, text):
                parts += [text[end : found.start], self.pseudonym(found.kind, found.value)]
                end = found.end
        return "".join([*parts, text[end:]])

    def _is_allowed(self, found: PersonalData, text: str) -> bool:
        if found.value in self._values or _plain(text[found.start : found.end]) in self._values:
            return True
        return bool(self._domains) and found.value.endswith(self._domains)

    def _spellings(self, entry: str) -> Iterator[str]:
        """Yield an allowed value as it is written and as the maskers read it, a bare number as a telephone's too."""
        yield _plain(entry)
        for text in (entry, f"Tel. {entry}"):
            yield from (found.value for masker in self._maskers for found in _found(masker, text))


def _found(masker: Masker, text: str) -> list[PersonalData]:
    """Return what a masker finds, checked; what it raises may hold the text and is not repeated."""
    try:
        found = list(masker.find(text))
    except ContextEngineError:
        raise
    except Exception as error:
        raise MaskingError(f"a masker ({type(masker).__name__}) failed with {type(error).__name__}") from error
    for one in found:
        if not (0 <= one.start < one.end <= len(text) and _KIND.fullmatch(one.kind)):
            place = f"[{one.start}, {one.end}) of {len(text)} characters as {one.kind!r}"
            raise MaskingError(f"a masker ({type(masker).__name__}) named {place}, which cannot be masked")
    return found


def _apart(found: Iterable[PersonalData]) -> list[PersonalData]:
    """Return places in the order of the text; those that overlap become one, named as the longest of them."""
    out: list[PersonalData] = []
    longest = 0
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if not out or one.start >= out[-1].end:
            out.append(one)
            longest = one.end - one.start
            continue
        name = out[-1]
        if one.end - one.start > longest:
            name, longest = one, one.end - one.start
        out[-1] = name._replace(start=out[-1].start, end=max(out[-1].end, one.end))
    return out


def _plain(text: str) -> str:
    return "".join(text.casefold().split())
