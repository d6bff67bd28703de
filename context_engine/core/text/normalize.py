"""Texts in one spelling: normalized, hashed, cut, and with disguised letters folded to plain ones."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import unescape
from typing import Final
from unicodedata import category
from urllib.parse import unquote_to_bytes


def normalize(text: str) -> str:
    """Return the text in NFKC, casefolded, with runs of white space as one space and none at the ends.

    >>> normalize("  The Limit\\u00a0is\\n5 %")
    'the limit is 5 %'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def content_sha256(text: str) -> str:
    """Return the SHA-256 of the text's UTF-8 bytes in hex: the identity of exactly these characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_PREFIX: Final = re.compile(r"^(?:version|ver|v)[.:]?\s*(?=\d)", re.IGNORECASE)


def bare_version(version: str) -> str:
    """Return a version without the word or letter before its number, and without surrounding white space.

    >>> bare_version("v3.2"), bare_version(" Version 3.2"), bare_version("vendor draft")
    ('3.2', '3.2', 'vendor draft')
    """
    return _PREFIX.sub("", version.strip())


_JOINER: Final = "\u200d"
_MOST_BACK: Final = 32


def leading(text: str, most: int) -> str:
    """Return at most `most` characters of a text, without cutting a visible character in two.

    A letter keeps its accents, an emoji its skin tone and joined emojis, a flag both its letters, a Korean syllable its
    parts, and a line break stays whole. A run of marks that is longer than in any script is cut at its end.

    >>> leading("cafe\u0301s", 4)
    'caf'
    """
    if len(text) <= most:
        return text
    end = most
    while end > max(0, most - _MOST_BACK) and _continues(text, end):
        end -= 1
    return text[:most] if _continues(text, end) else text[:end]


def _continues(text: str, place: int) -> bool:
    """Return whether the character at a place belongs to the visible character before it."""
    if not 0 < place < len(text):
        return False
    before, here = text[place - 1], text[place]
    if category(here) in ("Mn", "Mc", "Me") or here == _JOINER or before == _JOINER:
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff" or "\U000e0020" <= here <= "\U000e007f":  # skin tones, tags of flags
        return True
    if _is_flag_letter(here):
        return _flag_letters_before(text, place) % 2 == 1
    return "\u1160" <= here <= "\u11ff" or (before == "\r" and here == "\n")  # Korean vowels and finals


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, place: int) -> int:
    start = place
    while start > 0 and _is_flag_letter(text[start - 1]):
        start -= 1
    return place - start


BRACKETS: Final = {
    1: "<> ＜＞ ﹤﹥ ‹› 〈〉 \u2329\u232a ⟨⟩ ❬❭ ❮❯ ❰❱ ˂˃ ᐸᐳ 𝈶𝈷 ⧼⧽ ⦑⦒ ≮≯ ᚲ𖼿",
    2: "«» 《》 ⟪⟫ ≪≫ ⪡⪢",
    3: "⋘⋙ ⫷⫸",
}
"""Look-alikes of one, two and three angle brackets, as pairs of an opening and a closing one."""

BLANK: Final = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that show nothing."""

_LETTERS: Final = {
    # Cyrillic
    "аеорсухіјѕһԁԛԝӏвнкмтьԍզ": "aeopcyxijshdqwlbhkmtbgq",
    "АВЕЅНІЈКМОРСТУХҮԌ": "abeshijkmopctyxyg",
    # Greek, where a small letter may look like another one than its capital
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "abezhikmnoptyx",
    "αβεγηικνορτυχωϲϳ": "abeynikvoptuxwcj",
    # Latin letters that Unicode does not take apart
    "ıɑɡɩʟɪɢɴʀʏʜʙᴀᴄᴅᴇꜰᴊᴋᴍᴏᴘǫꞯꜱᴛᴜᴠᴡᴢđøłŧħƒƙƿ": "iagilignryhbacdefjkmopqqstuvwzdolthfkp",
    # Armenian and Cherokee
    "օոսհցԁ": "onuhgd",
    "ᎪᏴᏟᎠᎬᏀᎻᎥᎫᏦᏞᎷᎢᏢᏒᏚᎳᏃ": "abcdeghijklmtprswz",
}

_MARKS: Final = {
    "【】〔〕〖〗⟦⟧❲❳": "[][][][][]",
    "｛｝❴❵": "{}{}",
    "∣ǀ￨❘│┃▏ⵏ": "||||||||",
    "⁄∕⧸": "///",
    "꞉∶ː︰⁚": ":::::",
    "‐‑‒–—―−": "-------",
    "＿▁": "__",
    "“”„‟″": '"""""',
    "‘’‚‛′": "'''''",
    "﹟": "#",
}

_ENCLOSED: Final = ((0x1F130, 26), (0x1F150, 26), (0x1F170, 26), (0x1F1E6, 26))
"""The first of each alphabet in squares and circles, and of the letters that flags are made of."""


def _pairs() -> Iterator[tuple[str, str]]:
    for table in (_LETTERS, _MARKS):
        for look_alike, plain in table.items():
            yield from zip(look_alike, plain, strict=True)
    for width, pairs in BRACKETS.items():
        for pair in pairs.split():
            yield pair[0], "<" * width
            yield pair[1], ">" * width
    for first, count in _ENCLOSED:
        for place in range(count):
            yield chr(first + place), chr(ord("a") + place)


LOOK_ALIKES: Final = {look_alike: plain for look_alike, plain in _pairs() if look_alike != plain}
"""The lower-case character that each character looks like."""

_ESCAPE: Final = re.compile(
    r"&(?:amp;|\#0{0,5}38;|\#x0{0,5}26;){0,9}(?P<entity>\#x[0-9a-f]{1,8}|\#[0-9]{1,9}|[a-z][a-z0-9]{1,31});?"
    r"|(?P<percent>(?:%(?:25){0,9}[0-9a-f]{2})+)"
    r"|\\(?:u\{0{0,4}(?P<braced>[0-9a-f]{1,6})\}|(?:u|x(?=[0-9a-f]{4}))(?P<four>[0-9a-f]{4})|x(?P<two>[0-9a-f]{2}))",
    re.IGNORECASE,
)

_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Mn", "Me"))
_LINE_ENDS: Final = "\n\r\v\f\x85\u2028\u2029"
_MOST_CHARACTERS: Final = 20_000
_Piece = tuple[str, int, int]


class FoldedText:
    """A text in lower case without invisible characters; each character knows its place in the original.

    Args:
        text: the folded text.
        pieces: the folded pieces, each with the characters [start, end) of the original that it replaces; None if the
            text is the original. Computed only when a place is needed.

    Attributes:
        text: the folded text.
    """

    __slots__ = ("_ends", "_pieces", "_starts", "text")

    def __init__(self, text: str, pieces: Callable[[], Iterable[_Piece]] | None = None) -> None:
        self.text, self._pieces = text, pieces
        self._starts: list[int] = []
        self._ends: list[int] = []

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original of the characters [start, end), which must be at least one."""
        if self._pieces is None:
            return start, end
        if not self._starts:
            for piece, first, last in self._pieces():
                self._starts += [first] * len(piece)
                self._ends += [last] * len(piece)
        return self._starts[start], self._ends[end - 1]

    def translated(self, table: Mapping[int, int | str]) -> FoldedText:
        """Return the text with some characters replaced one for one."""
        return FoldedText(self.text.translate(table), self._pieces)


class _Folds(dict[int, str]):
    """The folded form of each character, by its code; emptied when full."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MOST_CHARACTERS:
            self.clear()
        self[code] = folded = _folded(chr(code))
        return folded


def _folded(char: str) -> str:
    if char in _LINE_ENDS:
        return "\n"
    if char.isspace():
        return " "
    if char in BLANK or char == "\u0640" or unicodedata.category(char) in _UNSEEN:
        return ""
    if char in LOOK_ALIKES:
        return LOOK_ALIKES[char]
    parts = (part for part in unicodedata.normalize("NFKD", char) if unicodedata.category(part) not in _UNSEEN)
    return "".join(LOOK_ALIKES.get(small, small) for part in parts for small in LOOK_ALIKES.get(part, part.casefold()))


_folds: Final = _Folds()


def fold(text: str) -> FoldedText:
    """Return a text as a reader sees it: in lower case, with look-alikes replaced by the Latin letter or mark they
    resemble.

    Entities (nested too), percent escapes and backslash escapes are resolved. White space becomes a blank or a line
    break. Invisible characters are left out: zero-width, bidirectional and control characters, soft hyphens, combining
    marks.

    >>> fold("&amp;#73;ＧＮ\\u200bОRЕ").text
    'ignore'
    """
    if any(mark in text for mark in "&%\\") and _ESCAPE.search(text):
        pieces = list(_pieces(text))
        return FoldedText("".join(piece for piece, _, _ in pieces), lambda: pieces)
    return FoldedText(text.translate(_folds), lambda: _of_characters(text, 0, len(text)))


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the folded pieces of a text with their places."""
    position = 0
    for escape in _ESCAPE.finditer(text):
        meant = _meant(escape)
        if meant is not None:
            yield from _of_characters(text, position, escape.start())
            yield meant.translate(_folds), escape.start(), escape.end()
            position = escape.end()
    yield from _of_characters(text, position, len(text))


def _of_characters(text: str, start: int, end: int) -> Iterator[_Piece]:
    return ((_folds[ord(text[place])], place, place + 1) for place in range(start, end))


def _meant(escape: re.Match[str]) -> str | None:
    """Return the characters of an escape; None if it is not one."""
    if escape["entity"]:
        written = f"&{escape['entity']};"
        meant = unescape(written)
        return None if meant == written else meant
    if escape["percent"]:
        try:
            return unquote_to_bytes(re.sub("%(?:25)+", "%", escape["percent"])).decode()
        except UnicodeDecodeError:
            return None
    code = int(escape["braced"] or escape["four"] or escape["two"], 16)
    return chr(code) if code <= 0x10FFFF else None


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> counted(1, "source"), counted(1200, "source")
    ('1 source', '1,200 sources')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
