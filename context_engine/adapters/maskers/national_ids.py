"""Identity numbers of persons: written as the country writes them, and valid by its rules.

The rules are those of python-stdnum, except for Singapore and Hong Kong, which it lacks, and China, where it knows too
few districts and refuses valid numbers. Numbers without a check digit (United States, Denmark) are recognised only with
hyphens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from stdnum.iso7064 import mod_11_2

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

_SG_WEIGHTS: Final = (2, 7, 6, 5, 4, 3, 2)
_SG_SERIES: Final = {
    "S": (0, "JZIHGFEDCBA"),
    "T": (4, "JZIHGFEDCBA"),
    "F": (0, "XWUTRQPNMLK"),
    "G": (4, "XWUTRQPNMLK"),
    "M": (3, "KLJNPQRTUWX"),
}
"""For each series the offset of the weighted sum, and its check letters by the remainder of 11 (for M from the end)."""
_HK_BLANK: Final = 36


def nric(number: str) -> bool:
    """Return whether the check letter of a Singapore NRIC or FIN (`S1234567D`) is right.

    Seven digits are weighted 2, 7, 6, 5, 4, 3, 2; the sum plus the series' offset, modulo 11, selects the letter.
    """
    match = re.fullmatch(r"([STFGM])(\d{7})([A-Z])", number.upper(), re.ASCII)
    if match is None:
        return False
    offset, letters = _SG_SERIES[match[1]]
    rest = (offset + sum(weight * int(digit) for weight, digit in zip(_SG_WEIGHTS, match[2]))) % 11
    return letters[10 - rest if match[1] == "M" else rest] == match[3]


def hkid(number: str) -> bool:
    """Return whether the check digit of a Hong Kong identity card (`A123456(3)`) is right.

    One or two letters (A is 10; a missing first one is 36) and six digits are weighted 9 to 2; with the check digit (A
    is 10) the sum is divisible by 11.
    """
    plain = re.sub(r"[\s()]", "", number.upper())
    match = re.fullmatch(r"([A-Z]{1,2})(\d{6})([0-9A])", plain, re.ASCII)
    if match is None:
        return False
    letters = [ord(letter) - 55 for letter in match[1]]
    values = [*([_HK_BLANK] * (2 - len(letters))), *letters, *map(int, match[2])]
    check = 10 if match[3] == "A" else int(match[3])
    return (sum(weight * value for weight, value in zip(range(9, 1, -1), values)) + check) % 11 == 0


def resident_number(number: str) -> bool:
    """Return whether a Chinese resident identity number has a valid birthday and check character (GB 11643).

    It has six digits of a district, eight of the birthday, three of an order, and an ISO 7064 mod 11-2 check character.
    """
    plain = re.sub(r"[ -]", "", number.upper())
    match = re.fullmatch(r"[1-9]\d{5}((?:18|19|20)\d{2})(\d{2})(\d{2})\d{3}[\dX]", plain, re.ASCII)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return bool(mod_11_2.is_valid(plain))


NATIONAL_ID: Final = "ID"
_OWN: Final[Mapping[str, Callable[[str], bool]]] = {"nric": nric, "hkid": hkid, "resident_number": resident_number}


def _groups(*lengths: int, last: str = "") -> str:
    """Return a pattern of digits, unbroken or in groups of these lengths; more groups make another number."""
    first, *others = (rf"\d{{{length}}}" for length in lengths)
    return rf"{first}(?P<gap>[ -]?){'(?P=gap)'.join(others)}{last}(?!(?P=gap)\d)"


_FRENCH: Final = r"[12](?P<gap>[ -]?)\d{2}(?P=gap)\d{2}(?P=gap)(?:\d{2}|2[AB])(?P=gap)\d{3}(?P=gap)\d{3}(?P=gap)\d{2}"
COUNTRIES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "AR": {"stdnum.ar.cuit": r"\d{2}-?\d{8}-?\d"},
        "AT": {"stdnum.at.vnr": r"\d{4} ?\d{6}"},
        "AU": {"stdnum.au.tfn": _groups(3, 3, 3)},
        "BE": {"stdnum.be.nn": r"\d{2}[. ]?\d{2}[. ]?\d{2}[- ]?\d{3}[. ]?\d{2}"},
        "BG": {"stdnum.bg.egn": r"\d{10}"},
        "BR": {"stdnum.br.cpf": r"\d{3}\.?\d{3}\.?\d{3}-?\d{2}"},
        "CA": {"stdnum.ca.sin": _groups(3, 3, 3)},
        "CH": {"stdnum.ch.ssn": r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}"},
        "CL": {"stdnum.cl.rut": r"\d{1,2}\.?\d{3}\.?\d{3}-[\dK]"},
        "CN": {"resident_number": _groups(6, 8, 3, last=r"[\dX]")},
        "CZ": {"stdnum.cz.rc": r"\d{6}/?\d{4}"},
        "DE": {"stdnum.de.idnr": _groups(2, 3, 3, 3)},
        "DK": {"stdnum.dk.cpr": r"\d{6}-\d{4}"},
        "DO": {"stdnum.do.cedula": r"\d{3}-?\d{7}-?\d"},
        "EC": {"stdnum.ec.ci": r"\d{9}-?\d"},
        "EE": {"stdnum.ee.ik": r"\d{11}"},
        "ES": {"stdnum.es.dni": r"\d{8}[ -]?[A-Z]", "stdnum.es.nie": r"[XYZ][ -]?\d{7}[ -]?[A-Z]"},
        "FI": {"stdnum.fi.hetu": r"\d{6}[-+A-FU-Y]\d{3}[0-9A-Y]"},
        "FR": {"stdnum.fr.nir": _FRENCH},
        "GB": {"stdnum.gb.nhs": _groups(3, 3, 4)},
        "GR": {"stdnum.gr.amka": r"\d{11}"},
        "HK": {"hkid": r"[A-Z]{1,2} ?\d{6} ?(?:\([0-9A]\)|[0-9A])"},
        "HR": {"stdnum.hr.oib": r"\d{11}"},
        "ID": {"stdnum.id.nik": r"\d{16}"},
        "IE": {"stdnum.ie.pps": r"\d{7}[A-W][AHIWTX]?"},
        "IL": {"stdnum.il.idnr": r"\d{8}-?\d"},
        "IN": {"stdnum.in_.aadhaar": _groups(4, 4, 4), "stdnum.in_.pan": r"[A-Z]{5}\d{4}[A-Z]"},
        "IS": {"stdnum.is_.kennitala": r"\d{6}-?\d{4}"},
        "IT": {"stdnum.it.codicefiscale": r"[A-Z]{6} ?[\dL-V]{2}[A-EHLMPRST][\dL-V]{2} ?[A-Z][\dL-V]{3}[A-Z]"},
        "JP": {"stdnum.jp.in_": _groups(4, 4, 4)},
        "KR": {"stdnum.kr.rrn": r"\d{6}-?\d{7}"},
        "LT": {"stdnum.lt.asmens": r"\d{11}"},
        "LV": {"stdnum.lv.pvn": r"\d{6}-?\d{5}"},
        "MU": {"stdnum.mu.nid": r"[A-Z]\d{12}[0-9A-Z]"},
        "MX": {"stdnum.mx.curp": r"[A-Z]{4}\d{6}[A-Z]{6}[0-9A-Z]\d"},
        "MY": {"stdnum.my.nric": r"\d{6}-?\d{2}-?\d{4}"},
        "NL": {"stdnum.nl.bsn": r"\d{9}|\d{4}[. ]\d{2}[. ]\d{3}"},
        "NO": {"stdnum.no.fodselsnummer": r"\d{6} ?\d{5}"},
        "NZ": {"stdnum.nz.ird": _groups(3, 3, 3)},
        "PK": {"stdnum.pk.cnic": r"\d{5}-\d{7}-\d"},
        "PL": {"stdnum.pl.pesel": r"\d{11}"},
        "PT": {"stdnum.pt.cc": r"\d{8} ?\d ?[A-Z0-9]{2} ?\d"},
        "RO": {"stdnum.ro.cnp": r"\d{13}"},
        "RU": {"stdnum.ru.inn": r"\d{12}"},
        "SE": {"stdnum.se.personnummer": r"(?:\d{2})?\d{6}[-+]\d{4}"},
        "SG": {"nric": r"[STFGM]\d{7}[A-Z]"},
        "SI": {"stdnum.si.emso": r"\d{13}"},
        "SK": {"stdnum.sk.rc": r"\d{6}/?\d{4}"},
        "TH": {"stdnum.th.pin": _groups(1, 4, 5, 2, 1)},
        "TR": {"stdnum.tr.tckimlik": r"\d{11}"},
        "UA": {"stdnum.ua.rntrc": r"\d{10}"},
        "US": {"stdnum.us.ssn": r"\d{3}-\d{2}-\d{4}", "stdnum.us.itin": r"9\d{2}-\d{2}-\d{4}"},
        "ZA": {"stdnum.za.idnr": _groups(6, 4, 3)},
    }
)
"""ISO 3166 country -> validator -> how the number is written."""


def find_national_ids(plain: PlainText, countries: Sequence[str]) -> Iterator[PersonalData]:
    """Yield the identity numbers of these countries; the value is letters and digits, in capitals."""
    for country in countries:
        for pattern, is_valid in _numbers(country):
            for match in pattern.finditer(plain.text):
                value = re.sub(r"[\W_]", "", match[0]).upper()
                if is_valid(match[0].upper()):
                    yield PersonalData(*plain.span(match.start(), match.end()), NATIONAL_ID, value)


@cache
def _numbers(country: str) -> tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]:
    return tuple((_pattern(written), _validator(name)) for name, written in COUNTRIES[country].items())


def _pattern(written: str) -> re.Pattern[str]:
    """Return a pattern that matches no part of a longer code, number or date."""
    return re.compile(rf"(?<!\w)(?<!\w[-/.,])(?:{written})(?!\w)(?![-/.,]\w)", re.IGNORECASE | re.ASCII)


def _validator(name: str) -> Callable[[str], bool]:
    if name in _OWN:
        return _OWN[name]
    is_valid: Callable[[str], bool] = import_module(name).is_valid
    return is_valid
