"""Characters that a reader takes for others: letters of other scripts, brackets, signs that show nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

BRACKETS: Final = {
    1: "<> ＜＞ ﹤﹥ ‹› 〈〉 \u2329\u232a ⟨⟩ ❬❭ ❮❯ ❰❱ ˂˃ ᐸᐳ 𝈶𝈷 ⧼⧽ ⦑⦒ ≮≯ ᚲ𖼿",
    2: "«» 《》 ⟪⟫ ≪≫ ⪡⪢",
    3: "⋘⋙ ⫷⫸",
}
"""Look-alikes of one, two and three angle brackets; the first of each pair opens, the second closes."""

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
        for given, plain in table.items():
            yield from zip(given, plain, strict=True)
    for width, pairs in BRACKETS.items():
        for pair in pairs.split():
            yield pair[0], "<" * width
            yield pair[1], ">" * width
    for first, count in _ENCLOSED:
        for place in range(count):
            yield chr(first + place), chr(ord("a") + place)


LOOK_ALIKES: Final = {given: plain for given, plain in _pairs() if given != plain}
"""Character -> what it looks like, in small letters."""
