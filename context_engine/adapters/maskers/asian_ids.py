"""Identity numbers of Singapore and Hong Kong, which python-stdnum lacks, and of China.

Of China's it knows too few districts and refuses numbers that people have: here check digit and birthday decide.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from stdnum.iso7064 import mod_11_2

_SG_WEIGHTS: Final = (2, 7, 6, 5, 4, 3, 2)
_SG_SERIES: Final = {
    "S": (0, "JZIHGFEDCBA"),
    "T": (4, "JZIHGFEDCBA"),
    "F": (0, "XWUTRQPNMLK"),
    "G": (4, "XWUTRQPNMLK"),
    "M": (3, "KLJNPQRTUWX"),
}
"""What a series adds to the weighted sum, and its check letters by the remainder of 11 (for M counted from the end)."""

_HK_BLANK: Final = 36


def nric(number: str) -> bool:
    """Return whether the check letter of a Singapore NRIC or FIN (`S1234567D`) is right.

    Seven digits are weighted 2, 7, 6, 5, 4, 3, 2; the sum, with an offset of the series, modulo 11 names the letter.
    """
    found = re.fullmatch(r"([STFGM])(\d{7})([A-Z])", number.upper(), re.ASCII)
    if found is None:
        return False
    offset, letters = _SG_SERIES[found[1]]
    rest = (offset + sum(weight * int(digit) for weight, digit in zip(_SG_WEIGHTS, found[2]))) % 11
    return letters[10 - rest if found[1] == "M" else rest] == found[3]


def hkid(number: str) -> bool:
    """Return whether the check digit of a Hong Kong identity card (`A123456(3)`) is right.

    One or two letters (A is 10; a blank before a single one 36) and six digits are weighted 9 to 2; with the check
    digit (A is 10) the sum is divisible by 11.
    """
    plain = re.sub(r"[\s()]", "", number.upper())
    found = re.fullmatch(r"([A-Z]{1,2})(\d{6})([0-9A])", plain, re.ASCII)
    if found is None:
        return False
    letters = [ord(letter) - 55 for letter in found[1]]
    values = [*([_HK_BLANK] * (2 - len(letters))), *letters, *map(int, found[2])]
    check = 10 if found[3] == "A" else int(found[3])
    return (sum(weight * value for weight, value in zip(range(9, 1, -1), values)) + check) % 11 == 0


def resident_number(number: str) -> bool:
    """Return whether a Chinese resident identity number has a birthday and the right check character (GB 11643).

    Six digits of a district, eight of the birthday, three of an order and the check character of ISO 7064 mod 11-2.
    """
    plain = re.sub(r"[ -]", "", number.upper())
    found = re.fullmatch(r"[1-9]\d{5}((?:18|19|20)\d{2})(\d{2})(\d{2})\d{3}[\dX]", plain, re.ASCII)
    if found is None:
        return False
    try:
        date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return False
    return bool(mod_11_2.is_valid(plain))
