"""2,000 made lines with personal data and what looks like it, every value by arithmetic of its own and the seed.

A line holds one true value of a kind in a sentence, one look-alike in a sentence, or both. Nothing of it is anybody's:
numbers are drawn at random and given the check digits that their rules ask for, or wrong ones.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

COUNTRIES = ("SG", "HK", "CN", "MY", "GB", "DE")
PHONE_REGIONS = ("SG", "HK", "GB", "US")
KINDS = ("CARD", "IBAN", "ID", "PHONE", "EMAIL")


class Line(NamedTuple):
    """A text, and the personal data in it as (kind, start, end)."""

    text: str
    truth: tuple[tuple[str, int, int], ...]


def lines(count: int = 2000, *, seed: int = 20261123) -> list[Line]:
    """Return made lines, the same for one seed: about 2/5 true values, 2/5 look-alikes, 1/5 both in one line."""
    draw = random.Random(seed)
    return [_line(draw) for _ in range(count)]


def _line(draw: random.Random) -> Line:
    kind = draw.choice(KINDS)
    chance = draw.random()
    parts = []
    if chance >= 0.4:
        parts.append((draw.choice(_ABOUT["NONE"]), "", _look_alike(draw)))
    if chance < 0.4 or chance >= 0.8:
        value, named = _TRUE[kind](draw)
        parts.append((draw.choice(_ABOUT[named]), kind, value))
    draw.shuffle(parts)
    text, truth = "", []
    for about, one, value in parts:
        before, after = about.split("{}")
        text += (" " if text else "") + before
        if one:
            truth.append((one, len(text), len(text) + len(value)))
        text += value + after
    return Line(text, tuple(truth))


def luhn_digit(digits: str) -> str:
    """Return the digit that makes a number valid by Luhn."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def iban(country: str, account: str) -> str:
    """Return an IBAN with the check digits of an account number (ISO 7064, mod 97-10)."""
    as_number = int("".join(str(int(char, 36)) for char in f"{account}{country}00"))
    return f"{country}{98 - as_number % 97:02d}{account}"


def resident_number(first: str) -> str:
    """Return a Chinese resident number with its check character (ISO 7064, mod 11-2)."""
    check = next(c for c in "0123456789X" if _mod_11_2(first + c) == 1)
    return first + check


def _mod_11_2(number: str) -> int:
    value = 0
    for char in number:
        value = (value * 2 + (10 if char == "X" else int(char))) % 11
    return value


def _digits(draw: random.Random, count: int) -> str:
    return "".join(draw.choices(string.digits, k=count))


def _spaced(draw: random.Random, text: str, *lengths: int) -> str:
    """Return a number unbroken or in groups, parted by a blank, a hyphen or a no-break space."""
    gap = draw.choice(["", " ", " ", "-", "\u00a0"])
    groups, rest = [], text
    for length in lengths:
        groups.append(rest[:length])
        rest = rest[length:]
    return gap.join([*groups, *([rest] if rest else [])])


def _card(draw: random.Random) -> tuple[str, str]:
    brand = draw.choice(["4", "5" + draw.choice("12345"), "6011", "3530", "2221"])
    number = brand + _digits(draw, 15 - len(brand))
    if draw.random() < 0.2:
        number = draw.choice(["34", "37"]) + _digits(draw, 12)
        return _spaced(draw, number + luhn_digit(number), 4, 6), "CARD"
    return _spaced(draw, number + luhn_digit(number), 4, 4, 4), "CARD"


def _iban(draw: random.Random) -> tuple[str, str]:
    country, account = draw.choice(
        [
            ("DE", _digits(draw, 18)),
            ("GB", "".join(draw.choices(string.ascii_uppercase, k=4)) + _digits(draw, 14)),
            ("NL", "".join(draw.choices(string.ascii_uppercase, k=4)) + _digits(draw, 10)),
            ("CH", _digits(draw, 17)),
            ("AE", _digits(draw, 19)),
            ("AT", _digits(draw, 16)),
        ]
    )
    number = iban(country, account)
    written = _spaced(draw, number, *([4] * (len(number) // 4)))
    return (written.lower() if draw.random() < 0.1 else written), "IBAN"


def _nric(draw: random.Random, *, wrong: bool = False) -> str:
    digits = _digits(draw, 7)
    total = sum(weight * int(digit) for weight, digit in zip((2, 7, 6, 5, 4, 3, 2), digits))
    letters = "ABCDEFGHIZJ"
    right = letters[10 - total % 11]
    return f"S{digits}{draw.choice(letters.replace(right, '')) if wrong else right}"


def _hkid(draw: random.Random, *, wrong: bool = False) -> str:
    letter, digits = draw.choice(string.ascii_uppercase), _digits(draw, 6)
    total = 9 * 36 + 8 * (ord(letter) - 55) + sum(w * int(d) for w, d in zip((7, 6, 5, 4, 3, 2), digits))
    check = -total % 11
    check = (check + draw.randint(1, 10)) % 11 if wrong else check
    return f"{letter}{digits}({'A' if check == 10 else check})"


def _resident(draw: random.Random, *, wrong: bool = False) -> str:
    place = draw.choice(["110105", "310101", "440305", "510104"])
    born = f"{draw.randint(1950, 2005)}{draw.randint(1, 12):02d}{draw.randint(1, 28):02d}"
    number = resident_number(place + born + _digits(draw, 3))
    return number[:17] + draw.choice("0123456789".replace(number[17], "")) if wrong else number


def _national_id(draw: random.Random) -> tuple[str, str]:
    return draw.choice([_nric, _hkid, _resident])(draw), "ID"


_NUMBERS: Sequence[Callable[[random.Random], str]] = (
    lambda draw: f"+65 9{draw.randint(100, 799)} {_digits(draw, 4)}",
    lambda draw: f"+49 30 {draw.randint(200, 899)}{_digits(draw, 4)}",
    lambda draw: f"+44 20 7946 {draw.randint(0, 999):04d}",
    lambda draw: f"+1-202-555-01{draw.randint(0, 99):02d}",
    lambda draw: f"0044 20 7946 {draw.randint(0, 999):04d}",
    lambda draw: f"(202) 555-01{draw.randint(0, 99):02d}",
    lambda draw: f"020 7946 {draw.randint(0, 999):04d}",
    lambda draw: f"6{draw.randint(200, 599)} {_digits(draw, 4)}",
)


def _phone(draw: random.Random) -> tuple[str, str]:
    if draw.random() < 0.2:
        return f"9{draw.randint(100, 799)}{_digits(draw, 4)}", "CALL"
    return draw.choice(_NUMBERS)(draw), "PHONE"


def _email(draw: random.Random) -> tuple[str, str]:
    first, last = draw.choice(["mei", "arun", "lucia", "jan.o'", "k"]), draw.choice(["tan", "iyer", "berg", "rossi"])
    name = draw.choice([f"{first}.{last}", f"{first}{draw.randint(1, 99)}", f"{last}+bank"]).replace("..", ".")
    return f"{name}@{draw.choice(['mail.example', 'post.example.com', 'Firm-One.example.org'])}", "EMAIL"


_TRUE: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "CARD": _card,
    "IBAN": _iban,
    "ID": _national_id,
    "PHONE": _phone,
    "EMAIL": _email,
}

_ABOUT = {
    "CARD": ("The client paid with {} in May.", "Card on file: {}, to be replaced.", "Block {} at once."),
    "IBAN": ("Credit {} is the instruction.", "The account ({}) was closed.", "Transfer from {}, value today."),
    "ID": ("The applicant, {}, was verified.", "Identity document {} expired.", "Holder {} signs alone."),
    "PHONE": ("Reached under {} on Monday.", "The desk ({}) was informed.", "Ask {} for the original."),
    "CALL": ("Please call the client at {} today.", "Mobile: {}.", "His phone is {}, after six."),
    "EMAIL": ("Write to {} first.", "Sent by <{}> yesterday.", "Contact: {}."),
    "NONE": (
        "See {} for the procedure.",
        "The reference is {}.",
        "It was noted as {} in the file.",
        "Compare {}, line 3.",
    ),
}


def _changed(draw: random.Random, value: str) -> str:
    """Return a number with one digit of its second half changed, as a typing error does."""
    places = [place for place, char in enumerate(value) if char.isdigit() and place >= len(value) // 2]
    place = draw.choice(places)
    return value[:place] + draw.choice(string.digits.replace(value[place], "")) + value[place + 1 :]


_LOOK_ALIKES: Sequence[Callable[[random.Random], str]] = (
    lambda draw: _changed(draw, _card(draw)[0]),
    lambda draw: _changed(draw, _iban(draw)[0]),
    lambda draw: _nric(draw, wrong=True),
    lambda draw: _hkid(draw, wrong=True),
    lambda draw: _resident(draw, wrong=True),
    lambda draw: f"{draw.choice(['NPA', 'ORM', 'SOP', 'DCE'])}-20{draw.randint(10, 29)}-{_digits(draw, 4)}",
    lambda draw: f"{draw.randint(1, 19)}.{draw.randint(1, 9)}.{draw.randint(1, 12)}({draw.choice('abcdef')})",
    lambda draw: f"USD {draw.randint(1, 999)},{_digits(draw, 3)},{_digits(draw, 3)}.{_digits(draw, 2)}",
    lambda draw: f"EUR {draw.randint(1, 999)} {_digits(draw, 3)} {_digits(draw, 3)}",
    lambda draw: f"{draw.randint(1, 28):02d}.{draw.randint(1, 12):02d}.20{draw.randint(10, 29)}",
    lambda draw: f"20{draw.randint(10, 29)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}",
    lambda draw: f"20{draw.randint(10, 29)}{draw.randint(1, 12):02d}{draw.randint(1, 28):02d}",
    lambda draw: f"US{_digits(draw, 9)}{_digits(draw, 1)}",
    lambda draw: "".join(draw.choices(string.ascii_uppercase + string.digits, k=18)) + _digits(draw, 2),
    lambda draw: f"v{draw.randint(1, 20)}.{draw.randint(0, 40)}.{draw.randint(0, 9)}",
    lambda draw: f"{draw.choice(['TICKET', 'INC', 'CHG'])}-{_digits(draw, 6)}",
    lambda draw: f"account {_digits(draw, draw.choice([8, 9, 10, 12]))}",
    lambda draw: f"{draw.randint(2015, 2024)} {draw.randint(2025, 2029)}",
    lambda draw: f"pp. {(page := draw.randint(1000, 8000))}-{page + draw.randint(2, 40)}",
    lambda draw: f"@{draw.choice(['team', 'desk'])}_{draw.randint(1, 9)}",
    lambda draw: f"package@{draw.randint(1, 9)}.{draw.randint(0, 9)}.{draw.randint(0, 9)}",
    lambda draw: f"{_digits(draw, 8)}-{_digits(draw, 4)}-4{_digits(draw, 3)}-a{_digits(draw, 3)}-{_digits(draw, 12)}",
)


def _look_alike(draw: random.Random) -> str:
    return draw.choice(_LOOK_ALIKES)(draw)


class Tally(NamedTuple):
    """What was found of one kind: right, false and missed places; a place counts if its ends are right."""

    right: int = 0
    false: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        """Right of all that was found; 1 where nothing was."""
        return self.right / (self.right + self.false) if self.right + self.false else 1.0

    @property
    def recall(self) -> float:
        """Right of all that was there."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


Find = Callable[[str], Iterator[tuple[str, int, int]]]


def tallies(made: Sequence[Line], find: Find) -> dict[str, Tally]:
    """Return what a finder does on made lines, by kind, and over all as ""."""
    counts = {kind: [0, 0, 0] for kind in KINDS}
    for line in made:
        found, truth = set(find(line.text)), set(line.truth)
        for place, spans in enumerate((found & truth, found - truth, truth - found)):
            for kind, _, _ in spans:
                counts[kind][place] += 1
    out = {kind: Tally(*numbers) for kind, numbers in counts.items()}
    return {**out, "": Tally(*(sum(numbers) for numbers in zip(*counts.values())))}
