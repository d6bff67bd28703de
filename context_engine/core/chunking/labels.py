"""The labels by which sections are cited ("4.2.1(b)", "Article 5", "12)", "第三条"), and the series that they form.

Numbers that run through a document are headings; numbers that restart belong to lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

NUMBER_RANK: Final = 10
_WORDS: Final = "article|clause|section|annex|appendix|app|schedule|part|chapter|title|rule|regulation|paragraph"
_BARE: Final = ("section", "clause", "paragraph")  # "Section 4" is cited as "4", "Article 4" is not

_RANK: Final = {"title": 1, "part": 1, "annex": 1, "appendix": 1, "app": 1, "schedule": 1, "chapter": 2} | {
    sign: rank for signs, rank in (("编編편", 1), ("章장หมวด", 2), ("节節절", 3), ("款", 11)) for sign in signs
}

_WORD_RANK: Final = 4
_ID: Final = r"(?:[A-Z]?\d{1,3}[A-Za-z]?|[IVXLC]{1,7}|[ivxlc]{1,7}|[A-Z])(?![\w-])"

_STEP: Final = (
    r"(?:\.?\(\w{1,5}\)"  # (b)
    r"|\.[A-Z]?\d{1,3}[A-Z]?(?!\w)"  # .2  .6A  .A1
    r"|\.[A-Za-z](?=[.)\s]|$)"  # .B
    rf"|[ \t]?\.(?i:part|chapter|section|appendix|annex|schedule)[ \t]+{_ID}"  # .Chapter 3
    r"|\.[A-Z][A-Za-z_][\w ,()&/’'-]{0,100}?(?=\.\(?[\da-z]{1,4}\)?(?:[.)\s]|$))"  # .Guidance on fees.1
    r"|\.(?:Guidance|Introduction|Commentary|Notes?|Examples?)(?!\w))"  # .Guidance
)

_FIRST: Final = r"(?:\d{1,3}[A-Z]?(?!\w)|[A-Z]\d{0,2}(?=\.[A-Z]?\d|\.\())"
_NUMBERED: Final = re.compile(rf"({_FIRST}(?:\)?{_STEP}){{,15}})([.:)]*)(?:(?:[ \t\u3000]+|$)|(?=[\u3400-\u9fff]))(.*)")
_NAMED: Final = re.compile(rf"((?i:({_WORDS}))(?:[ \t]+|\.?(?=\d))({_ID}(?:{_STEP}){{,15}}))[ \t]*([.:–—-]*)[ \t]*(.*)")

_ASIAN: Final = re.compile(
    r"(第[一二三四五六七八九十百千零〇\d]{1,6}([编編章节節条條款])(?:の[一二三四五六七八九十\d]{1,3})?"
    r"|제 ?\d{1,4} ?([편장절조])|(?:มาตรา|หมวด|ข้อ|ส่วนที่) ?[\d๐-๙]{1,4})[ \t\u3000:：]*(.*)"
)

_LETTER: Final = re.compile(r"([IVXLC]{1,7}|[A-Z])[.)][ \t]+(\S.*)")
_LISTED: Final = re.compile(r"([一二三四五六七八九十]{1,3})、[ \t\u3000]*(\S.*)")
_ROMAN: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_DIGITS: Final = "零一二三四五六七八九"
Kind = Literal["number", "word", "letter"]


class Label(NamedTuple):
    """A label at the start of a line.

    Attributes:
        text: the label as it is cited, without the closing mark.
        kind: a number; a word with a number; or a sign: "A.", "IV.", "二、".
        depth: the number of levels; 1 for "4" and "Article 4".
        rank: a smaller rank is a higher level.
        closed: the mark that follows it: ".", ")", ":" or "".
        rest: the line after it.
    """

    text: str
    kind: Kind
    depth: int
    rank: int
    closed: str
    rest: str


def label_of(line: str) -> Label | None:
    """Return the label at the beginning of a line without leading white space; None if there is none.

    >>> label_of("4.2.1(b) Threshold tests")[:3], label_of("ARTICLE 5: Scope")[:3]
    (('4.2.1(b)', 'number', 4), ('Article 5', 'word', 1))
    """
    if not line:
        return None
    first = line[0]
    if first.isascii():
        if not (first.isdigit() or first.isalpha()):
            return None
        label = _named(line) or _numbered(line)
        return label or (_lettered(line) if first.isupper() else None)
    return _asian(line)


def values(label: Label) -> tuple[int, ...]:
    """Return the numbers that a one-sign label may mean: "C" is the third letter and roman 100."""
    sign = label.text
    if sign.isdecimal():
        return (int(sign),)
    if sign[0] in _DIGITS or sign[0] == "十":
        return (_chinese(sign),)
    letter = (ord(sign) - ord("A") + 1,) if len(sign) == 1 else ()
    return letter + ((_roman(sign),) if all(char in _ROMAN for char in sign) else ())


def extends(label: str | None, parent: str | None) -> bool:
    """Return whether a label continues another: "4.1" and "4(a)" continue "4"."""
    return bool(label and parent and label != parent and label.startswith((f"{parent}.", f"{parent}(")))


def _named(line: str) -> Label | None:
    match = _NAMED.match(line)
    if match is None:
        return None
    word = match[2].lower()
    steps = _depth(match[3])
    name = match[3] if word in _BARE else f"{word.capitalize()} {match[3]}"
    rank = _RANK.get(word, _WORD_RANK) if steps == 1 else NUMBER_RANK + steps
    return Label(name, "word", steps, rank, match[4][:1], match[5])


def _numbered(line: str) -> Label | None:
    match = _NUMBERED.match(line)
    if match is None:
        return None
    depth = _depth(match[1])
    return Label(match[1], "number", depth, NUMBER_RANK + depth, match[2][:1], match[3])


def _lettered(line: str) -> Label | None:
    match = _LETTER.match(line)
    return Label(match[1], "letter", 1, NUMBER_RANK - 1, ".", match[2]) if match else None


def _asian(line: str) -> Label | None:
    if match := _ASIAN.match(line):
        sign = match[2] or match[3] or ("หมวด" if line.startswith("หมวด") else "")
        return Label(match[1], "word", 1, _RANK.get(sign[:1], NUMBER_RANK), "", match[4])
    if match := _LISTED.match(line):
        return Label(match[1], "letter", 1, NUMBER_RANK - 1, "、", match[2])
    return None


def _depth(label: str) -> int:
    return 1 + len(re.findall(_STEP, label))


def _roman(sign: str) -> int:
    numbers = [_ROMAN[char] for char in sign]
    return sum(-number if number < after else number for number, after in zip(numbers, [*numbers[1:], 0], strict=True))


def _chinese(sign: str) -> int:
    tens, ten, ones = sign.rpartition("十")
    return (10 * (_DIGITS.find(tens) if tens else 1) if ten else 0) + (_DIGITS.find(ones) if ones else 0)


MOST_STEP: Final = 3  # numbers that may be missing between two headings: a repealed section, a page not copied
_LEAST_NUMBERING: Final = 6
_LEAST_SHARE: Final = 0.6
LEAST_LENGTH: Final = 150  # characters of a numbered paragraph on average: shorter ones are a list


def follows(number: int, last: int | None, ahead: int | None) -> bool:
    """Return whether a heading's number fits: it is the first, starts a new count, is one of the next few, or follows a
    gap after which the count continues.

    Args:
        number: the heading's.
        last: the number of the heading before it.
        ahead: the number of the line after it that may be a heading.
    """
    if number == 1 or last is None or last < number <= last + MOST_STEP:
        return True
    return number > last and ahead is not None and number < ahead <= number + MOST_STEP


def numbering(numbers: Sequence[int], lengths: Sequence[int]) -> set[int]:
    """Return the places in `numbers` that number a document's paragraphs; none if they are lists.

    Paragraph numbers are many, continue without restarting, and number whole paragraphs; other numbers belong to lists.

    Args:
        numbers: of the lines that begin with a number in one style, in order.
        lengths: characters from each number to the next.
    """
    chain: list[int] = []
    for place, number in enumerate(numbers):
        last = numbers[chain[-1]] if chain else 0
        if last < number <= last + MOST_STEP:
            chain.append(place)
    long = sum(lengths[place] for place in chain) >= LEAST_LENGTH * len(chain)
    return set(chain) if long and len(chain) >= max(_LEAST_NUMBERING, _LEAST_SHARE * len(numbers)) else set()


def lettered(values: Sequence[tuple[int, ...]]) -> set[int]:
    """Return the places that form a series of letters or roman numerals, beginning with the first letter; at least two.

    Args:
        values: the possible numbers of each sign ("C": 3 or 100).
    """
    best: list[int] = []
    for reading in (min, max):
        chain: list[int] = []
        last = 0
        for place, places in enumerate(values):
            number = reading(places) if places else 0
            if number == last + 1:
                chain.append(place)
                last = number
        best = max(best, chain, key=len)
    return set(best) if len(best) > 1 else set()
