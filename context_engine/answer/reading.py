"""A sentence read for what a rule depends on: values, dates, modals, negations, conditions, bounds, sides and words.

Values written otherwise are one value ("5 %", "five per cent"; "EUR 1m", "1,000,000 euros"), and so are the plain
phrases of rules ("at least", "no less than"; "may not", "must not").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from context_engine.answer.quantities import DATE, MAY, NUMBER, SPELLED, Value, currency_of, date_key, quantity
from context_engine.core.ranking.guard import is_quantity, meaning, names
from context_engine.core.text import STOP_WORDS, stems, without_markup


class MeaningKind(StrEnum):
    """What a token says.

    VALUE: a number with its unit, currency and bound. DATE: a date or time. REFERENCE: a clause or code. SIDE: one side
    of an opposition, an act, or another word that a rule depends on. LINK: a preposition or pronoun. BREAK: a comma,
    another mark or a coordinator.
    """

    VALUE = "number"
    DATE = "date"
    REFERENCE = "reference"
    MODAL = "modal"
    NEGATION = "negation"
    CONDITION = "condition"
    EXCEPTION = "exception"
    ONLY = "only"
    BOUND = "bound"
    SIDE = "opposite"
    WORD = "word"
    LINK = "link"
    BREAK = "break"


CONTENT: Final = frozenset(
    (MeaningKind.VALUE, MeaningKind.DATE, MeaningKind.REFERENCE, MeaningKind.SIDE, MeaningKind.WORD)
)
"""The kinds of tokens that name something."""


class MeaningToken(NamedTuple):
    """A token of a sentence.

    Attributes:
        key: equal for tokens that say the same; of a word its stem.
        written: as in the sentence, in lower case.
        value: of a VALUE.
        is_name: whether it is written as a name inside the sentence.
        denied: of a MODAL, whether "no" stands before it: "no member may".
    """

    kind: MeaningKind
    key: str
    written: str
    value: Value | None = None
    is_name: bool = False
    denied: bool = False


Tokens = Sequence[MeaningToken]
END: Final = MeaningToken(MeaningKind.BREAK, ".", ".")
"""What stands behind the last token."""

_AMOUNT: Final = rf"(?= (?:[$€£]|[a-z]{{3}} ?)?(?:\d|(?:{SPELLED})\b))"
_PHRASES: Final = {
    "at least": "at least|(?:no|not) (?:less|fewer) than|(?:a |the )?minimum of",
    "at most": "at (?:the )?most|(?:no|not) (?:more|greater|longer|older|higher) than|up to|(?:a |the )?maximum of"
    "|not exceed(?:ing)?",
    "within": "within|(?:no|not) later than|at the latest|(?:in|during|over) the (?:preceding|previous|past|last|next)"
    f"{_AMOUNT}",
    "must not": "may not|must not|shall not|can not|cannot|(?:is|are|be) not (?:allowed|permitted) to"
    "|(?:is|are|be) (?:prohibited|forbidden) from",
    "shall": "shall",
    "must": "must",
    "need": "ha(?:s|ve|d) to|(?:is|are|be) (?:required|obliged) to|needs? to",
    "may": "may|can|(?:is|are|be) (?:allowed|permitted|entitled|able) to",
    "should": "should|ought to",
    "will": "will",
    "would": "would",
    "could": "could",
    "might": "might",
    "promptly": "promptly|forthwith|without (?:undue |further )?delay",
    "no": "no one|no|neither|none|nobody|nothing|nowhere",
    "not": "not|never|nor",
    "without": "without",
    "if": "if|where|wherever|when|whenever|in the event (?:that|of)|in case(?: of)?|in the cases? of|provided that"
    "|(?<=, )provided(?= (?:the|an?|it|they|he|such|all|no|there)\\b)|on condition that|as long as|so long as",
    "unless": "unless",
    "until": "until|till",
    "while": "while|whilst|during",
    "subject to": "subject to",
    "except": "except(?:ing)?(?: for| that)?|other than|apart from|excluding|excludes?|save (?:for|that|where)"
    "|with the exception of",
    "only": "only|solely|exclusively",
    "under": "pursuant to|in accordance with|according to",
    "about": "about|regarding|concerning|as regards|in relation to|with (?:respect|regard) to|in respect of",
    "before": "before|prior to|in advance of|ahead of",
    "after": r"after|following(?= (?:the|an?|its|his|their|that|this|receipt|[a-z]+ing)\b)|subsequent to",
    "more than": "more than|(?<!the )above|exceed(?:s|ing|ed)?|(?:greater|higher|longer|older) than|in excess of"
    f"|over{_AMOUNT}",
    "less than": f"less than|(?<!the )below|(?:fewer|lower|shorter|younger) than|under{_AMOUNT}",
    "most": "most",
    "very": "very",
}
_KINDS: Final = {
    **dict.fromkeys(("must", "shall", "need", "may", "should", "will", "would", "could", "might"), MeaningKind.MODAL),
    **dict.fromkeys(("no", "not", "without"), MeaningKind.NEGATION),
    **dict.fromkeys(("if", "unless", "until", "while", "subject to"), MeaningKind.CONDITION),
    **dict.fromkeys(("under", "about"), MeaningKind.LINK),
    "except": MeaningKind.EXCEPTION,
    **dict.fromkeys(("only", "most", "very"), MeaningKind.ONLY),
    "promptly": MeaningKind.WORD,
}
_DUTIES: Final = frozenset(("shall", "need"))
"""Modals that say what "must" says; after "no", "need" says that there is no duty."""
_BOUNDS: Final = frozenset(("at least", "at most", "within", "more than", "less than"))
_PLACES: Final = {"more than": "above", "less than": "below"}
"""What a bound says where no number follows: "above the threshold"."""

_EQUALS: Final = """
    notify inform tell told; obtain get; ensure sure; annual annually yearly year; monthly month; weekly week;
    daily day; quarterly quarter; begin begins start commence; sufficient enough; assist help; purchase buy;
    complete completion; renew renewal; assess assessment; keep kept retain retained; employee staff; writing written;
    consist comprise; close closure closing; forbid forbidden
"""
_LINKS: Final = "by to in on at for from with of under as than into against between through per there"
_PRONOUNS: Final = "it they he she this these those"
PERSONS: Final = frozenset(("we", "you"))
"""The writer and the reader, who are not each other."""
_BEING: Final = "is are was were be been being"
_COORDINATORS: Final = "and or but"
_SILENT: Final = "each every either both also thereafter then however e g i a same such including"
_PLAIN: Final = """
    all any both either up down out off from to over under new last old true yes a i s point points incoming outgoing
    upper following preceding include includes included
"""
"""Words that `meaning` compares in near-duplicates, but that a paraphrase may add or leave out."""

_WORDS: Final = {
    **dict.fromkeys(_LINKS.split(), MeaningKind.LINK),
    **dict.fromkeys((*_PRONOUNS.split(), *PERSONS), MeaningKind.LINK),
    **dict.fromkeys(_BEING.split(), MeaningKind.LINK),
    **dict.fromkeys(_COORDINATORS.split(), MeaningKind.BREAK),
}
_UNSAID: Final = frozenset(_SILENT.split())
_NO_SIDES: Final = frozenset(_PLAIN.split())
_LINK_KEYS: Final = {**dict.fromkeys(_PRONOUNS.split(), "it"), **dict.fromkeys(_BEING.split(), "be")}

_PHRASE: Final = re.compile("|".join(rf"\b({form})\b" for form in _PHRASES.values()))
_PHRASE_NAMES: Final = tuple(_PHRASES)
_SCANNER: Final = re.compile(
    rf"(?P<date>{DATE})|(?P<mark>§\d+§)|(?P<letter>§[ai]§)"
    r"|(?P<code>(?=[^\s\d]{1,80}\d)[a-z]\w*(?:[-./]\w+)*?[-./]?\d\w*(?:[-./]\w+)*(?:\(\w{1,4}\))*"
    r"|\d+(?:\.\d+){2,}(?:\.?\(\w{1,4}\))*|\d+(?:\.\d+)*(?:\.?\(\w{1,4}\))+"
    r"|\d+[a-z]\w*(?<!\dm)(?<!\dbn)(?<!\dk)(?<!\dmn))"
    rf"|(?P<number>{NUMBER})"
    r"|(?P<item>(?:(?:sub)?sections?|(?:sub)?paragraphs?|rules?)? ?\(\w{1,4}\)(?!\w))"
    r"|(?P<word>[^\W\d_]+|[$€£¥])|(?P<break>[;:,.])"
)
_MONTH_OF_MAY: Final = re.compile(
    r"(\b(?:on|by|until|before|after|from|since|to) \d{1,2}(?:st|nd|rd|th)? )may\b"
    r"|\bmay(?= (?:\d{1,2}(?:st|nd|rd|th)?,? )?\d{4}\b)"
)
_RANGE: Final = re.compile(r"(?<![\w-])(?<!\d[.,])(\d[\d,.]*) ?- ?(?=\d[\d,.]*(?![\w-]))")
_TYPOGRAPHY: Final = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": ",", "\u00a0": " ", "\u2011": "-", "\u2010": "-"}
)
_NOT: Final = re.compile(r"\b(?:(ca)|(wo)|(sha)|(\w+))n't\b")
_SHORTENED: Final = {1: "can", 2: "will", 3: "shall"}
_WHEREAS: Final = re.compile(r"(\b(?:\w+\W+){3}\w+), (?:while|whilst|whereas) ")
"""A comma before "while" sets two statements side by side; without one, or at a beginning, it is a condition."""
_INSERTED: Final = re.compile(
    r"\b((?:must|shall|may|should|can|will)(?: not)?), (?!(?:if|unless|where|when|until|subject|except|only|and|or)\b)"
    r"([^,;:.()]{2,60}),"
)
"""Words between commas right behind a modal do not part it from its verb: "may, as applicable, approve"."""
_INVERSION: Final = re.compile(
    r"^(\W*only (?:if|when|where|after|with) [^,;]+?),? (is|are|may|must|shall|should|can|will) "
    r"(?:(it|they)\b|(?=(?:an?|the)\b))"
)
"""A condition at the beginning that turns the main clause round: "Only if it is live may a product be named."."""
_LETTER: Final = re.compile(
    r"((?i:\b(?:class|annex|appendix|schedule|part|tier|type|group|category|level|grade|table|option)[ -]))([AI])\b"
    r"|(^|/)([AI])(?=/|$)|(\b(?:is|are|as) |[:=] )([AI])(?=\W*$|[.,;)]| (?:and|or)\b)"
)
"""A or I as a letter, not as an article or a pronoun: "Annex A", a mark in a cell, "the sponsor is A"."""
_UNREAD: Final = re.compile(
    r"\bnos?\. ?(?=\d)|(?<=\bwhether) or not\b|\b(?:e\.g|i\.e)\.,? |(?<=\w)'s?(?!\w)|\bmembers? of (?=staff\b)"
)
"""What says nothing: "No." before a number, "whether or not", "e.g.", the sign of a genitive, "member of" staff."""


def _same_words() -> dict[str, str]:
    keyed = (stems(group.split()) for group in _EQUALS.split(";"))
    return {stem: group[0] for group in keyed for stem in group}


_SAME: Final = _same_words()


def normalised(text: str) -> str:
    """Return a text without markup, with plain quotation marks and hyphens, and single blanks."""
    return " ".join(unicodedata.normalize("NFKC", without_markup(text).translate(_TYPOGRAPHY)).split())


@lru_cache(maxsize=4_096)
def read(text: str) -> tuple[MeaningToken, ...]:
    """Return the tokens of a sentence in order.

    Args:
        text: as written; capitals matter, because they show names.

    >>> [token.value.number for token in read("EUR 1m, or at least thirty days") if token.value]
    ['1000000', '30']
    """
    plain = normalised(text)
    lower = _MONTH_OF_MAY.sub(rf"\1{MAY}", _LETTER.sub(_as_letter, plain).lower())
    lower = _INVERSION.sub(r"\1, \3 \2 ", lower)
    lower = _INSERTED.sub(r"\1 \2", _WHEREAS.sub(r"\1, and ", lower))
    lower = _UNREAD.sub("", _NOT.sub(_spelled_out, _RANGE.sub(r"\1 to ", lower)))
    marked = _PHRASE.sub(lambda match: f"§{(match.lastindex or 1) - 1}§", lower)
    return tuple(_bounded(list(_scanned(marked, names(plain.replace('"', ""))))))


def content_keys(tokens: Tokens) -> frozenset[str]:
    """Return the keys of the tokens that name something."""
    return frozenset(token.key for token in tokens if token.kind in CONTENT)


def _spelled_out(match: re.Match[str]) -> str:
    place = match.lastindex or 4
    return f"{_SHORTENED.get(place, match[place])} not"


def _as_letter(match: re.Match[str]) -> str:
    before, letter = (part for part in match.groups() if part is not None)
    return f"{before}§{letter}§"


def _scanned(text: str, known: frozenset[str]) -> Iterator[MeaningToken]:
    place = 0
    while match := _SCANNER.search(text, place):
        place = match.end()
        written = match[0]
        match match.lastgroup:
            case "date":
                yield MeaningToken(MeaningKind.DATE, date_key(written), written)
            case "mark":
                yield from _phrase(_PHRASE_NAMES[int(written.strip("§"))])
            case "letter":
                yield MeaningToken(MeaningKind.SIDE, written.strip("§"), written.strip("§"))
            case "code":
                yield MeaningToken(MeaningKind.REFERENCE, written.replace(".(", "("), written, is_name=True)
            case "number":
                value, place = quantity(text, match)
                if written == "one" and not (value.unit or value.currency):
                    yield MeaningToken(MeaningKind.LINK, written, written)
                else:
                    yield MeaningToken(MeaningKind.VALUE, value.number, text[match.start() : place], value)
            case "item" if written[0].isalpha():
                yield MeaningToken(MeaningKind.REFERENCE, written[written.index("(") :], written)
            case "word":
                yield from _word(written, known)
            case "break":
                yield MeaningToken(MeaningKind.BREAK, written, written)


def _phrase(name: str) -> Iterator[MeaningToken]:
    if name == "must not":
        yield MeaningToken(MeaningKind.MODAL, "must", name)
        yield MeaningToken(MeaningKind.NEGATION, "not", "not")
    else:
        yield MeaningToken(_KINDS.get(name, MeaningKind.BOUND), "not" if name == "no" else name, name)


def _word(word: str, known: frozenset[str]) -> Iterator[MeaningToken]:
    if word == "twice":
        yield MeaningToken(MeaningKind.VALUE, "2", word, Value("2", "time"))
    elif currency := currency_of(word):
        yield MeaningToken(MeaningKind.SIDE, currency, word)
    elif kind := _WORDS.get(word):
        yield MeaningToken(kind, _LINK_KEYS.get(word, word), word)
    elif word not in _UNSAID:
        stem = stems([word])[0]
        key = _SAME.get(stem, stem)
        side = None if word in _NO_SIDES else next(filter(None, map(meaning, (word, stem, key))), None)
        if side or (is_quantity(word) and word not in _NO_SIDES):
            yield MeaningToken(MeaningKind.SIDE, key if stem in _SAME else side or key, word, is_name=word in known)
        elif word not in STOP_WORDS:
            yield MeaningToken(MeaningKind.WORD, key, word, is_name=word in known)


def _bounded(tokens: Tokens) -> Iterator[MeaningToken]:
    """Yield the tokens with each bound joined to the number that it belongs to, and units shared in a range.

    "No member may" says what "a member must not" says.
    """
    denied = False
    for place, token in enumerate(tokens):
        denied = token.kind is not MeaningKind.BREAK and (denied or token.written == "no")
        if token.value:
            yield token._replace(value=_complete(tokens, place, token.value))
        elif token.key in _BOUNDS:
            if not _is_joined(tokens, place):
                yield _alone(token, tokens[place + 1 : place + 2])
        elif denied and token.key in ("may", "must", "shall"):
            yield token._replace(key="must", denied=True)
        elif denied and token.key == "need":
            yield token
        elif token.key == "of" and place and _is_period(tokens[place - 1].value, tokens, place - 1):
            yield MeaningToken(MeaningKind.BOUND, "after", "of")
        else:
            yield token._replace(key="must") if token.key in _DUTIES else token


def _alone(token: MeaningToken, following: Tokens) -> MeaningToken:
    """Return a bound without a number; before a mark, another bound or an end it is a place: "as set out below"."""
    is_place = token.key in _PLACES and all(each.key in (*_BOUNDS, ".", ",", ";", ":") for each in following)
    return token._replace(
        kind=MeaningKind.SIDE if is_place else MeaningKind.BOUND, key=_PLACES.get(token.key, token.key)
    )


def _is_period(value: Value | None, tokens: Tokens, place: int) -> bool:
    """Return whether "within 30 days" stands at a place: "of" behind it says "after"."""
    return value is not None and _complete(tokens, place, value).bound == "within" and value.unit not in ("", "%")


def _is_joined(tokens: Tokens, place: int) -> bool:
    """Return whether a bound stands before a number, with no other bound between, or as "at most" behind one."""
    behind = takewhile(lambda token: token.key not in _BOUNDS, tokens[place + 1 : place + 3])
    following = any(token.value and not token.value.bound for token in behind)
    return following or (tokens[place].key in ("at most", "at least") and place > 0 and bool(tokens[place - 1].value))


def _complete(tokens: Tokens, place: int, value: Value) -> Value:
    """Return a value with its bound, and with the unit of the number that a range ends with."""
    if not value.bound:
        before = [token.key for token in tokens[max(place - 2, 0) : place] if token.key in _BOUNDS]
        behind = [token.key for token in tokens[place + 1 : place + 2] if token.key in ("at most", "at least")]
        followed = any(token.value for token in tokens[place + 2 : place + 4])
        bounds = before[-1:] or ([] if followed else behind)
        value = value._replace(bound="".join(bounds))
    linked = place + 2 < len(tokens) and tokens[place + 1].key in ("to", "or", "and")
    upper = tokens[place + 2].value if linked else None
    shares = upper is not None and not (value.unit or value.currency)
    return value._replace(unit=upper.unit, currency=upper.currency) if upper and shares else value
