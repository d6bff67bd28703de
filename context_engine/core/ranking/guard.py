"""The guard of near-duplicate merging: decides whether two texts with nearly the same words may be shown as one.

The similarity of word sets cannot tell "limit 5 %" from "limit 7 %". The guard aligns the two texts and refuses the
merge when a token that carries the meaning of a rule (number, date, reference, currency, unit, code, negation, modal,
one side of an opposition) is inserted, deleted, replaced or moved.

Sentences that both texts contain are set aside. If their order differs, each must also stand under the same heading and
must not refer back to the sentence before it. The remaining text is cut into runs of ordinary words, at meaningful
tokens and at the bounds of the common sentences. Nothing meaningful has changed if both texts have the same cuts in the
same order and no content word has moved from one run to another: a word that moves past a "not" changes the meaning as
much as a "not" that moves past a word. A name (a capital inside a sentence) may not be replaced either, because the
same words then speak of something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from context_engine.core.text import STOP_WORDS, has_unspaced, tokens
from context_engine.core.text import words as split_words
from context_engine.core.text.tokens import stems

_NUMBERS: Final = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million
    millions billion billions trillion mn bn mio half double twice triple third thirds quarter quarters first second
    fourth fifth sixth seventh eighth ninth tenth once dozen single
"""

_UNITS: Final = """
    % ‰ percent percentage percentages pct bp bps basis point points day days week weeks month months year years hour
    hours minute minutes seconds daily weekly monthly quarterly annual annually yearly intraday overnight calendar
    working kg tonne tonnes barrel barrels ounce ounces share shares lot lots
"""

_DATES: Final = """
    january february march april june july august september october november december jan feb mar apr jun jul aug sep
    sept oct nov dec monday tuesday wednesday thursday friday saturday sunday today tomorrow yesterday
"""

_CURRENCIES: Final = """
    $ € £ ¥ usd eur gbp jpy chf cny cnh rmb hkd sgd aud nzd inr krw twd thb myr idr php vnd sek nok dkk pln czk huf
    brl mxn zar aed sar qar ils dollar dollars euro euros sterling pound pounds yen yuan renminbi franc francs rupee
    rupees cent cents
"""

_REFERENCES: Final = "ii iii iv vi vii viii ix xi xii xiii xiv xv"

_NEGATIONS: Final = """
    not no never without cannot neither nor non none nobody nothing nowhere hardly barely except unless until only
"""

_MODALS: Final = "must shall should may might can could will would ought need needs"

_SIDES: Final = """
    before after prior previously subsequently earlier later preceding following minimum maximum min max least most
    above below over under exceeding more less fewer greater smaller higher lower high low larger largest smallest
    highest lowest longer shorter longest shortest all any some always sometimes or up down out off from against
    within outside inside beyond bought sold long short internal external domestic foreign onshore offshore gross net
    inbound outbound incoming outgoing upper senior junior open solely wholly partly fixed floating retail wholesale
    positive negative active inactive early late yes true false last old new former latter both either
"""

_ACTS: Final = """
    approve approval reject rejection accept acceptance refuse refusal increase decrease include exclude inclusive
    exclusive inclusion exclusion buy sell purchase sale debit credit permit permission prohibit prohibition allow
    forbid ban require requirement optional mandatory voluntary compulsory recommend grant deny denial pay receive
    lend borrow pass fail start begin end close suspend resume enable disable exempt exemption waive waiver raise
    reduce rise fall gain loss profit asset liability comply breach succeed
    precede confirm cancel add remove import export
"""

_CJK: Final = frozenset(
    "不未无無非勿禁否没沒别別莫须須必应應可得能准许許一二三四五六七八九十百千万萬亿億零〇两兩半几年月日天周週时時"
    "分秒季元圆圓美欧歐英港币幣前后後上下内內外高低多少增减減加大小超买買卖賣借贷貸收付批拒允或仅僅只除最至以"
)

_QUANTITIES: Final = frozenset(f"{_NUMBERS} {_UNITS} {_DATES} {_CURRENCIES}".split())
_WORDS: Final = _QUANTITIES | frozenset(f"{_REFERENCES} {_NEGATIONS} {_MODALS} {_SIDES}".split())
_ACT_STEMS: Final = frozenset(stems(_ACTS.split()))
NEGATING_PREFIXES: Final = ("un", "in", "im", "ir", "il", "dis", "non", "mis", "de")
"""Prefixes that reverse a word's meaning: authorised, unauthorised."""


@lru_cache(maxsize=65_536)
def meaning(token: str) -> str | None:
    """Return the meaning that the guard compares for a token, or None for an ordinary word.

    The forms of one act have one meaning: `approved` and `approval` are both `approv`.

    Args:
        token: as returned by `text.tokens`.

    >>> meaning("4.2.1(b)"), meaning("shall"), meaning("rejected"), meaning("committee")
    ('4.2.1(b)', 'shall', 'reject', None)
    """
    if token in _WORDS or not _is_word(token):
        return token
    if len(token) == 1:
        ordinary = token in "ais" or (has_unspaced(token) and token not in _CJK)
        return None if ordinary else token
    stem = stems([token])[0]
    return stem if stem in _ACT_STEMS else None


def _is_word(token: str) -> bool:
    """Whether a token has only letters and the marks that belong to them."""
    if token.isalpha() or token.isascii():
        return token.isalpha()
    return token[0].isalpha() and all(char.isalpha() or unicodedata.category(char)[0] == "M" for char in token)


@lru_cache(maxsize=65_536)
def carries(token: str) -> bool:
    """Return whether the guard compares a token exactly as written: near-duplicates have the same of these tokens.

    >>> carries("must"), carries("rejected"), carries("reject"), carries("committee")
    (True, False, True, False)
    """
    return meaning(token) == token


def is_quantity(token: str) -> bool:
    """Return whether a token is a number, a unit, a date or a currency: a number before it is a value, not a label."""
    return token in _QUANTITIES or token[:1].isdigit()


_END: Final = "."
_BOUND: Final = "|"

# Signs that tokenising drops but a rule depends on: < > + -, ratings such as AA-, other currency signs.
# The character class must stay first: it lets the search skip ahead quickly.
_SIGN: Final = re.compile(
    r"[-−+<>≤≥≠±¢₠-₫₭-⃏](?:(?<=[+<≤≥≠±¢₠-₫₭-⃏])|(?<=[^\n>=\-]>)|(?<![\w)\]][-−])(?<=[-−])(?=\d)|(?<=[A-D][-−])(?!\w))"
)

_CODE: Final = re.compile(r"[A-Z][a-z]?[A-Z]+s?\b")
_NAME: Final = re.compile(r" (?<![.!?:#\d|*\-] )([A-Z][a-z]+)")
_BREAK: Final = re.compile(r"[.!?。！？](?:\s+|(?<=[。！？]))")
_SENTENCE: Final = re.compile(r"[.!?。！？](?:[\"”’)]*\s+(?=[\"“(]?[A-Z])|(?<=[。！？])\s*)")
_HEADING: Final = re.compile(r"^\s*#+ .*$|^.*[:：]\s*$", re.MULTILINE)

_ABBREVIATIONS: Final = """
    no. nos. art. arts. sec. cl. para. paras. ref. refs. vs. approx. max. min. incl. excl. fig. ch. vol. ed. inc. ltd.
    co. corp. st. dr. mr. mrs. ms. cf. e.g. i.e. u.s. u.k. etc.
"""

_ABBREVIATED: Final = frozenset(_ABBREVIATIONS.split())

_LEANS_BACK: Final = re.compile(
    r"(?:This|These|That|Those|It|Its|They|Their|Such|However|Otherwise|Then|Therefore|Nor|But|And|Or|Also|If so|"
    r"If not|In this|In that|In such|In these|The same|The latter|The former)\b"
)


def allows(first: str, second: str) -> bool:
    """Return whether no meaningful difference separates the two texts.

    Args:
        first: the body of a text as written; capitals and signs matter.
        second: the body of the other text.
    """
    if not (first.isascii() and second.isascii()):
        first, second = _plain(first), _plain(second)
    parts, parts_too = _BREAK.split(first + " "), _BREAK.split(second + " ")
    both = set(map(str.casefold, parts)).intersection(map(str.casefold, parts_too))
    shared = [part for part in map(str.casefold, parts) if part in both]
    if shared == [part for part in map(str.casefold, parts_too) if part in both]:
        rest = [part for part in parts if part.casefold() not in both]
        return _same_meaning(rest, [part for part in parts_too if part.casefold() not in both])
    units, units_too = _sentences(first), _sentences(second)
    moved = Counter(key for key, _ in units) & Counter(key for key, _ in units_too)
    return bool(moved) and _same_meaning(_without(units, moved), _without(units_too, moved))


def _plain(text: str) -> str:
    """Return a text in compatibility form (NFKC), with typographic hyphens as "-"."""
    return unicodedata.normalize("NFKC", text).replace("\u2010", "-")


def _same_meaning(first: list[str], second: list[str]) -> bool:
    """Compare two lists of sentences in order; pairwise if they have the same length."""
    if not first and not second:
        return True
    codes = _codes(first) | _codes(second)
    words, words_too = _differing(first, second) if len(first) == len(second) else (_joined(first), _joined(second))
    carried = {
        word: word_meaning
        for word in {*words, *words_too}
        if (word_meaning := word if word in codes else meaning(word))
    }
    carried.pop(_END, None)
    meanings, runs = _cut(words, carried)
    said_too, runs_too = _cut(words_too, carried)
    if meanings != said_too:
        return False
    lost: set[str] = set()
    gained: set[str] = set()
    for run, other in zip(runs, runs_too):
        if run != other:
            lost.update(_surplus(run, other))
            gained.update(_surplus(other, run))
    names, names_too = _names(first), _names(second)
    if (
        not (lost | gained).isdisjoint({*(names - names_too), *(names_too - names)})
        or negated(lost, gained)
        or negated(gained, lost)
    ):
        return False
    return (lost & gained) <= STOP_WORDS


def _codes(texts: list[str]) -> frozenset[str]:
    """Return the words written as codes (KYC, VaR); none for a text in all capitals."""
    text = " ".join(texts)
    return frozenset() if text.isupper() else frozenset(map(str.casefold, _CODE.findall(text)))


def _names(sentences: list[str]) -> Counter[str]:
    """Count the words with a capital inside a sentence: names and defined terms."""
    return Counter(name.casefold() for sentence in sentences for name in _NAME.findall(sentence))


def _joined(sentences: list[str]) -> list[str]:
    return [word for sentence in sentences for word in (*tokens(_signed(sentence)), _END)]


def _differing(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    """Return for each pair of sentences the words between their common beginning and their common end."""
    out: list[str] = []
    out_too: list[str] = []
    for sentence, other in zip(first, second):
        words, words_too = split_words(_signed(sentence)), split_words(_signed(other))
        while words and words_too and words[-1] == words_too[-1]:
            words.pop()
            words_too.pop()
        start = 0
        for word, word_too in zip(words, words_too):
            if word != word_too:
                break
            start += 1
        out += [*tokens(" ".join(words[start:])), _BOUND]
        out_too += [*tokens(" ".join(words_too[start:])), _BOUND]
    return out, out_too


def _signed(text: str) -> str:
    return _SIGN.sub(_spelled, text)


def _spelled(sign: re.Match[str]) -> str:
    return f" sign{ord(sign[0])} "


def _cut(words: Sequence[str], carried: dict[str, str]) -> tuple[list[str], list[Sequence[str]]]:
    """Return the meaningful tokens in order, and the runs of ordinary words before, between and after them."""
    places = [place for place, word in enumerate(words) if word in carried]
    starts = [0, *(place + 1 for place in places)]
    runs = [words[start:end] for start, end in zip(starts, [*places, len(words)])]
    return [carried[words[place]] for place in places], runs


def _surplus(run: Sequence[str], other: Sequence[str]) -> Iterable[str]:
    """Return the words that occur more often in one run than in the other."""
    once = set(run)
    return once.difference(other) if len(once) == len(run) else Counter(run) - Counter(other)


def negated(plain: set[str], contrary: set[str]) -> bool:
    """Return whether a word of one set is a word of the other with a negating prefix."""
    return any(
        word.removeprefix(prefix) in plain and len(word) > len(prefix) + 3
        for word in contrary
        if word.startswith(NEGATING_PREFIXES)
        for prefix in NEGATING_PREFIXES
    )


def names(text: str) -> frozenset[str]:
    """Return the words written as names inside the sentences of a text: with a capital (Market Risk), as a code (KYC).

    >>> sorted(names("The Board reports to Group Compliance about KYC."))
    ['board', 'compliance', 'group', 'kyc']
    """
    return _codes([text]) | frozenset(_names([text]))


def _without(units: list[tuple[tuple[str, str], str]], shared: Counter[tuple[str, str]]) -> list[str]:
    left = Counter(shared)
    out: list[str] = []
    for key, unit in units:
        if left[key]:
            left[key] -= 1
        else:
            out.append(unit)
    return out


def _sentences(text: str) -> list[tuple[tuple[str, str], str]]:
    """Return each sentence with its key (heading above it, words of the sentence); a heading belongs to the sentence
    below it.

    A sentence that refers back to the one before it ("This does not apply ...") is joined to it.
    """
    units: list[str] = []
    start = 0
    for end in [*(match.end() for match in _SENTENCE.finditer(text)), len(text)]:
        part = text[start:end].strip()
        start = end
        if units and (_LEANS_BACK.match(part) or _is_abbreviated(units[-1])):
            units[-1] += " " + part
        elif part:
            units.append(part)
    out: list[tuple[tuple[str, str], str]] = []
    heading = ""
    for unit in units:
        out.append(((heading, " ".join(split_words(unit)).rstrip(".!?。！？")), unit))
        if "#" in unit or ":" in unit or "：" in unit:
            headings = _HEADING.findall(unit)
            heading = " ".join(split_words(headings[-1])) if headings else heading
    return out


def _is_abbreviated(unit: str) -> bool:
    """Return whether the final full stop belongs to an abbreviation or an initial."""
    last = unit[-12:].split()[-1].lstrip("(").casefold()
    return last in _ABBREVIATED or (len(last) == 2 and last[0].isalpha() and last[1] == ".")


def marks(text: str) -> tuple[str, ...] | None:
    """Return the meaningful tokens of a text, sorted and with repetitions; None if they cannot be compared.

    Texts with different marks never pass `allows`: it sets aside only common sentences, and the meaningful tokens of
    the remaining text must be equal. Two kinds of tokens are left out because the guard may read them in two ways:
    signs, whose spelling depends on their context, and stems that are not their own stem and may be spelled like a
    code. Texts that are not ASCII have no marks: the guard folds their characters first.
    """
    if not text.isascii():
        return None
    meanings = [
        token_meaning for token in tokens(text) if (token_meaning := meaning(token)) and not token.startswith("sign")
    ]
    return tuple(sorted(token_meaning for token_meaning in meanings if meaning(token_meaning) == token_meaning))
