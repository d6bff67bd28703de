"""Faithful paraphrases of a true sentence for `bench_check.py`, made by rules that keep its meaning.

A transformation is a function of (sentence, headings, rng) that returns the sentence said otherwise, or None where it
does not apply. It returns None too where it might change what is said: a part of a sentence is never taken out of a
sentence with a condition.
"""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Callable, Sequence

Transformation = Callable[[str, Sequence[str], random.Random], "str | None"]

_SMALL = {
    "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight", "9": "nine",
    "10": "ten", "12": "twelve", "14": "fourteen", "15": "fifteen", "20": "twenty", "21": "twenty-one",
    "25": "twenty-five", "28": "twenty-eight", "30": "thirty", "45": "forty-five", "60": "sixty", "90": "ninety",
    "100": "one hundred",
}  # fmt: skip
_UNITS = r"(?:[Bb]usiness |[Cc]alendar |[Ww]orking )?(?:[Dd]ays?|weeks?|months?|years?|hours?|minutes?)"
_MONTHS = list(calendar.month_name)[1:]
_PAIRS = (
    ("prior to", "before"), ("in accordance with", "according to"), ("at least", "no less than"),
    ("not less than", "at least"), ("no less than", "at least"), ("not more than", "at most"),
    ("no more than", "at most"), ("in respect of", "with respect to"), ("with respect to", "regarding"),
    ("in relation to", "regarding"), ("in order to", "to"), ("is able to", "can"), ("are able to", "can"),
    ("in the event that", "if"), ("in the event of", "in case of"), ("for the purposes of", "for the purpose of"),
    ("pursuant to", "under"), ("every year", "each year"), ("each year", "every year"), ("annually", "every year"),
    ("every quarter", "each quarter"), ("each quarter", "every quarter"), ("monthly", "every month"),
    ("twice", "two times"), ("shall", "must"), ("must", "shall"), ("ensure that", "make sure that"),
    ("whilst", "while"),
    ("obtain", "get"), ("notify", "inform"), ("promptly", "without delay"), ("in writing", "in written form"),
    ("such as", "for example"), ("other than", "except for"), ("sufficient", "enough"), ("assist", "help"),
    ("relating to", "related to"), ("is not able to", "cannot"), ("consists of", "comprises"), ("regarding", "about"),
    ("concerning", "about"), ("as well as", "and"), ("provided that", "on condition that"), ("exceeds", "is above"),
    ("on behalf of", "for"), ("is not", "isn't"), ("does not", "doesn't"), ("do not", "don't"),
)  # fmt: skip
_PREFIXES = (
    "According to the policy, ", "The policy states that ", "Under the rules, ", "As stated in the document, ",
    "The document says that ", "In addition, ", "Yes: ",
)  # fmt: skip
_HELD = re.compile(
    r"\b(?:if|unless|where|when|provided|except|other than|until|subject to|only|not|no|neither|nor|without|whether)\b",
    re.IGNORECASE,
)
_BACK = re.compile(r"\b(?:it|its|them|their|th[eo]se|such)\b")
_CONDITIONAL = re.compile(
    r"\b(?:if|unless|where|when|until|provided|except|which|who|that|what|whether)\b", re.IGNORECASE
)
_PARTICIPLES = {
    "approve": "approved", "review": "reviewed", "notify": "notified", "inform": "informed", "report": "reported",
    "record": "recorded", "maintain": "maintained", "disclose": "disclosed", "provide": "provided",
    "prepare": "prepared", "appoint": "appointed", "establish": "established", "publish": "published",
    "submit": "submitted", "assess": "assessed", "consider": "considered", "document": "documented",
    "verify": "verified", "implement": "implemented", "certify": "certified", "book": "booked", "keep": "kept",
    "challenge": "challenged", "deliver": "delivered", "classify": "classified", "identify": "identified",
    "monitor": "monitored", "update": "updated", "retain": "retained", "send": "sent", "issue": "issued",
    "complete": "completed", "exercise": "exercised", "impose": "imposed", "require": "required", "adopt": "adopted",
}  # fmt: skip
_VERBS = "|".join(_PARTICIPLES)
_ACTIVE = re.compile(
    rf"(?P<subject>(?:The|A|An|Each|Every) [\w' -]{{3,40}}?) (?P<modal>must|shall|may|should) (?P<verb>{_VERBS}) "
    r"(?P<object>(?:the|a|an|its|all|any|such|each|every) (?:[\w'-]+ ){0,3}?[\w'-]+(?<!ed))"
    r"(?P<rest>(?: (?:in|within|on|at|before|after|under|by|for|to|from|with|without|of) [^,;]+)?)\."
)
_SPLIT = re.compile(
    r"(?P<subject>[A-Z][^,;:()]{2,60}?) (?P<modal>must|shall|may|should) "
    r"(?P<first>[^ ,;:()]+ [^ ,;:()]+ [^,;:()]+?),? and "
    rf"(?:(?P=modal) )?(?P<second>(?:be |(?:{_VERBS}|take|make|have|give|pay|set|act) )[^,;:()]+)\."
)
_LATER_CONDITION = re.compile(
    r"(?P<main>[A-Z][^,;:()]{12,}?),? (?<!\bas )(?<!\beven )(?<!\bonly )"
    r"(?P<word>if|unless|until) (?P<rest>[^,;:()]{8,})\."
)
_EARLIER_CONDITION = re.compile(
    r"(?P<word>If|Unless|Where|When|Until) (?P<rest>[^,;:()]{8,}), (?P<main>[^,;:()]{12,})\."
)
_PARENTHESIS = re.compile(r" \((?:\"|the |“)?[\w ]{2,30}(?:\"|”)?\)")


def prefix(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Say where the sentence comes from."""
    return rng.choice(_PREFIXES) + _lowered(sentence)


def heading(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Put the heading above the passage before the sentence."""
    title = re.sub(r"^[\d.]+ ", "", headings[-1]) if headings else ""
    if not 1 <= len(title.split()) <= 6 or re.search(r"[\d:?()\[\]–]", title):
        return None
    return f"{rng.choice(('Regarding', 'As regards', 'On'))} {title.lower()}: {_lowered(sentence)}"


def synonym(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Replace words by others that mean the same."""
    pairs = [pair for pair in _PAIRS if re.search(rf"\b{pair[0]}\b", sentence)]
    if not pairs:
        return None
    old, new = rng.choice(pairs)
    return re.sub(rf"\b{old}\b", new, sentence)


def digits(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Write a number before a unit of time in words, or in digits."""
    numbers = [match for match in re.finditer(rf"\b(\d+)(?= {_UNITS}\b)", sentence) if match[1] in _SMALL]
    if numbers:
        match = rng.choice(numbers)
        return f"{sentence[: match.start()]}{_SMALL[match[1]]}{sentence[match.end() :]}"
    words = {word: number for number, word in _SMALL.items()}
    for match in re.finditer(rf"\b([a-z-]+)(?= {_UNITS}\b)", sentence):
        if match[1] in words:
            return f"{sentence[: match.start()]}{words[match[1]]}{sentence[match.end() :]}"
    return None


def amount(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Write an amount, a share or a date otherwise."""
    for pattern, write in (
        (r"\b(USD|EUR) (\d+) million\b", lambda m: f"{m[1]} {m[2]},000,000"),
        (r"\b(USD|EUR) (\d+) million\b", lambda m: f"{m[1]} {m[2]}m"),
        (r"\bUSD (\d[\d,]*)\b(?! million)", lambda m: f"{m[1]} US dollars"),
        (r"\bEUR (\d[\d,]*)\b(?! million)", lambda m: f"{m[1]} euros"),
        (r"\$(\d[\d,]*)\b(?! million)", lambda m: f"USD {m[1]}"),
        (r"\b(\d+) ?%", lambda m: f"{m[1]} per cent"),
        (r"\b(\d+) per cent\b", lambda m: f"{m[1]} %"),
        (rf"\b(\d{{1,2}}) ({'|'.join(_MONTHS)}) (\d{{4}})\b", _iso),
        (r"\b(\d{4})-(\d\d)-(\d\d)\b", lambda m: f"{int(m[3])} {_MONTHS[int(m[2]) - 1]} {m[1]}"),
    ):
        if re.search(pattern, sentence) and rng.random() < 0.7:
            return re.sub(pattern, write, sentence, count=1)
    return None


def _iso(match: re.Match[str]) -> str:
    return f"{match[3]}-{_MONTHS.index(match[2]) + 1:02}-{int(match[1]):02}"


def clause_order(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Put the condition of a sentence with one condition before or after what it conditions."""
    if match := _EARLIER_CONDITION.fullmatch(sentence):
        main, rest = match["main"].removeprefix("then "), match["rest"]
        if _HELD.search(rest) or _CONDITIONAL.search(main):
            return None
        return f"{main[0].upper()}{main[1:]} {match['word'].lower()} {rest}."
    if match := _LATER_CONDITION.fullmatch(sentence):
        if _CONDITIONAL.search(match["main"]) or _CONDITIONAL.search(match["rest"]):
            return None
        return f"{match['word'].capitalize()} {match['rest']}, {_lowered(match['main'])}."
    return None


def passive(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Turn "The A must approve the B." into "The B must be approved by the A."."""
    match = _ACTIVE.fullmatch(sentence)
    if match is None or match["verb"] not in _PARTICIPLES or re.search(r"\b(?:who|which|that|and|or)\b", match[0]):
        return None
    thing, participle = match["object"], _PARTICIPLES[match["verb"]]
    thing = f"{thing[0].upper()}{thing[1:]}"
    return f"{thing} {match['modal']} be {participle} by {_lowered(match['subject'])}{match['rest']}."


def parenthesis(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Drop a parenthesis that names what stands before it."""
    match = _PARENTHESIS.search(sentence)
    if match is None or _HELD.search(match[0]) or len(match[0].split()) > 4 or re.search(r"\d|\(\w{1,2}\)", match[0]):
        return None
    return f"{sentence[: match.start()]}{sentence[match.end() :]}"


def half(sentence: str, headings: Sequence[str], rng: random.Random) -> str | None:
    """Keep one of two rules with the same subject and modal."""
    match = _SPLIT.fullmatch(sentence)
    if (
        match is None
        or _HELD.search(sentence)
        or re.search(r"\b(?:it|its|them|their|th[eo]se|such)\b", match["second"])
    ):
        return None
    if " to " in match["first"] and f" and {match['modal']} " not in sentence:
        return None
    return f"{match['subject']} {match['modal']} {rng.choice((match['first'], match['second']))}."


TRANSFORMATIONS: dict[str, Transformation] = {
    function.__name__: function
    for function in (prefix, heading, synonym, digits, amount, clause_order, passive, parenthesis, half)
}
_RARE = ("passive", "half", "clause_order", "amount", "digits")
_CHANGES_LAST = ("prefix", "heading")


def paraphrase(sentence: str, headings: Sequence[str], rng: random.Random) -> tuple[str, str] | None:
    """Return the kinds applied and a paraphrase by one to three transformations; None where none applies."""
    names = [name for name in TRANSFORMATIONS if name not in (*_RARE, *_CHANGES_LAST)]
    rng.shuffle(names)
    wanted, applied = rng.randint(1, 3), []
    out = sentence
    for kind in [*_RARE, *names, rng.choice(_CHANGES_LAST)]:
        if len(applied) == wanted or (kind in _CHANGES_LAST and applied and rng.random() < 0.5):
            continue
        changed = TRANSFORMATIONS[kind](out, headings, rng)
        if changed and changed != out:
            out = changed
            applied.append(kind)
    return (applied[0], out) if applied else None


def _lowered(text: str) -> str:
    """Return a text with a small first letter if it begins with an ordinary word."""
    first = text.split(maxsplit=1)[0]
    ordinary = first.lower() in {
        "the", "a", "an", "each", "every", "all", "any", "no", "if", "unless", "where", "when", "in", "for", "this",
        "these", "such", "it", "there", "only", "within", "nothing", "on", "at", "by", "until", "under",
    }  # fmt: skip
    return text[0].lower() + text[1:] if ordinary else text
