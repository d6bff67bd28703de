"""Splits text into tokens (for comparison) and search terms (for the index).

One analyser serves the embedded index and the engine's own lexical score, so that a term found is a term ranked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby, pairwise
from typing import Any, Final, Literal, NamedTuple

import tantivy

from context_engine.core.text.spellings import (
    CJK,
    JOINED,
    LETTER,
    UNIT,
    UNIT_OR_OTHER,
    has_cjk,
    has_unspaced,
    other_spellings,
)
from context_engine.errors import MissingExtra

_MOST_STEMS: Final = 200_000
_known: dict[str, str] = {}


def stems(words: Sequence[str]) -> list[str]:
    """Return the stem of each word, in order. Words must be casefolded; a word with a digit is its own stem.

    >>> stems(["approvals", "approving", "npa-001"])
    ['approv', 'approv', 'npa-001']
    """
    known = _known
    try:
        return [known[word] for word in words]
    except KeyError:
        fresh = _learn({word for word in words if word not in known})
    return [fresh[word] if word in fresh else known[word] for word in words]


def _learn(words: set[str]) -> dict[str, str]:
    """Stem unknown words in one call. A full memo is replaced, never emptied: readers keep the one they hold."""
    global _known
    if len(_known) > _MOST_STEMS:
        _known = {}
    fresh = {word: word for word in words}
    alphabetic = [word for word in words if word.isalpha() and word.isascii()]
    fresh.update(zip(alphabetic, _stemmer().analyze(" ".join(alphabetic))))
    _known.update(fresh)
    return fresh


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return builder.filter(tantivy.Filter.stemmer("english")).build()


ANALYSER_VERSION: Final = "6"
"""Raised whenever `terms` gives another answer for some text: an index built before must be rebuilt."""

LITTLE: Final = 0.2
"""Weight of a piece of a hyphenated code, and of a word that asks rather than names; a whole term weighs 1."""

_STOP: Final = """
    a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each either for from further had has have having he her
    here hers him his how i if in into is it its itself just let me more most my myself of off on once only or
    other our ours out over own same she should so some such than that the their theirs them then there these
    they this those through to too under until up us very was we were what when where which while who whom why
    will with would you your yours
"""

STOP_WORDS: Final = frozenset(_STOP.split())
"""English function words. Negations and modals (not, no, must, may, shall) stay: they change what a rule says."""

_ASKING: Final = """
    able anybody anyone clarification clarify describe elaborate explain explanation help kindly like look looking need
    outline please possible possibly somebody somehow someone tell thanks try trying understand want wanted way
    ways wish wonder wondering
"""

ASKING_WORDS: Final = frozenset(_ASKING.split())
"""English words that ask rather than name; a text may hold them, so they count LITTLE. With `_CONTRACTIONS` that gives
.013 R@10 and .009 MAP@10 to the words of an FAQ, and regulation and abstracts change by less than .001."""

_INVISIBLE: Final = re.compile(r"[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
"""Soft hyphens, marks of direction and other characters that nobody sees; joiners, which spell words, stay."""

_RAISED: Final = r"[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]"
_LETTER: Final = rf"(?!{_RAISED})[^\W\d_]"
_WORDS_END: Final = rf"(?<=[\d.,;:)”’]{_RAISED})|(?<={_LETTER * 3}{_RAISED})"
_FOOTNOTE: Final = re.compile(rf"{_RAISED}(?:{_WORDS_END}){_RAISED}*")
"""The mark of a footnote after a number, a word or a sentence, which NFKC would make a part of it: 637¹ is not 6371; m²
keeps its own. The leading class of characters makes the search fast; likewise in `_HYPHEN`."""

_HYPHEN: Final = re.compile(r"[\u2010\u2012\u2013](?:(?<=\w\u2010)(?=\w)|(?<=[A-Za-z][\u2012\u2013])(?=[A-Z0-9]))")
"""Hyphens between word characters (NFKC has made the non-breaking one this one); dashes only as a code has them, for
between numbers they say "to"."""

_TOKEN: Final = re.compile(rf"{LETTER}+(?:[-./,'’]{LETTER}+|\(\w{{1,4}}\))*|[%‰$€£¥]")
_WORD: Final = re.compile(rf"\d+(?:[.,]\d+)*|(?:(?![\d_]){LETTER})+")
_TARGET: Final = re.compile(r"\]\((?:https?://|ftp://|mailto:)[^\s()]*\)")
_CONTRACTED: Final = {"can't": "can", "won't": "will", "shan't": "shall"}
_CONTRACTIONS: Final = {"d": "would", "ll": "will", "m": "am", "re": "are", "ve": "have"}
CLAUSE: Final = re.compile(r"(\w+(?:\.\w+)*)((?:\(\w{1,4}\))+)")
"""A clause as one token, `4.2.1(b)(ii)`: its number and its items."""

_MOST_WORDS: Final = 131_072
Split = Callable[[str], tuple[str, ...]]
_DEEPEST: Final = 12
"""Maximum number of items dropped from the end of a clause; nothing is cited deeper."""


def words(text: str) -> list[str]:
    """Return the runs between white space, casefolded, with one spelling of hyphens and without invisible characters.

    No search term spans two runs.
    """
    return _plain(text).casefold().split()


def _plain(text: str) -> str:
    """Return a text with one spelling of hyphens and of compatible characters, and without invisible ones."""
    if text.isascii():
        return text
    visible = _FOOTNOTE.sub(" ", _INVISIBLE.sub("", text))
    return _HYPHEN.sub("-", unicodedata.normalize("NFKC", visible))


class Reading(NamedTuple):
    """The number of a text's words, its distinct tokens in order, and its terms in order, computed in one pass."""

    length: int
    tokens: tuple[str, ...]
    terms: tuple[str, ...]


def read(text: str) -> Reading:
    """Return the results of `words`, `tokens` and `terms` for a text."""
    plain = _plain(text)
    text_words = plain.casefold().split()
    tokens_in = map(_memo(_TOKENS, _tokens_of, text), text_words)
    distinct = tuple(dict.fromkeys(chain.from_iterable(tokens_in)))
    return Reading(len(text_words), distinct, tuple(_terms_in(plain, text_words)))


def tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, casefolded.

    A code, a number, a date or a clause reference is one token; so is a CJK character, and so are % and currency signs.

    >>> tokens("NPA-001, clause 4.2.1(b): high-risk limit of 5 %")
    ['npa-001', 'clause', '4.2.1(b)', 'high', 'risk', 'limit', 'of', '5', '%']
    """
    return list(chain.from_iterable(map(_memo(_TOKENS, _tokens_of, text), words(text))))


def terms(text: str) -> list[str]:
    """Return the search terms of a text in order: stop words left out, English stems, codes whole and in parts.

    A code is followed by its shorter names: `4.2.1(b)` by `4.2.1`, `637(4)(b)` by `637(4)` and `637`,
    `npa-sop-001` by its parts; F-1208 and F1208 are one code. Neighbouring characters of scripts without spaces become
    overlapping pairs. Last come the other spellings of numbers and codes. Targets of links are left out.

    >>> terms("Criteria for approving NPA-001 under 4.2.1(b) up to 5 million")
    ['criteria', 'approv', 'npa001', 'npa', '001', '4.2.1(b)', '4.2.1', '5', 'million', '5000000']
    """
    plain = _plain(text)
    return list(_terms_in(plain, plain.casefold().split()))


def _terms_in(plain: str, text_words: Sequence[str]) -> Iterator[str]:
    """Yield the terms of a text, given as `_plain` returns it and as its words; targets of links are left out."""
    if "](" in plain and _TARGET.search(plain):
        plain = _TARGET.sub("]", plain)
        text_words = plain.casefold().split()
    yield from chain.from_iterable(map(_memo(_TERMS, _terms_of, plain), text_words))
    yield from (spelling.term for spelling in other_spellings(plain))


def term_weights(text: str) -> dict[str, float]:
    """Return each term of a query with its weight: 1, or LITTLE for a piece of a code and for a question word.

    A question for `DCE-WEB-001` means that document, not every text with "DCE" and "001" in it; "please explain"
    does not look for texts with these words. Of "5 million" the number 5000000 weighs 1. If a query has only question
    words, they weigh 1.

    >>> term_weights("please explain the limits of DCE-WEB-001")
    {'pleas': 0.2, 'explain': 0.2, 'limit': 1.0, 'dce-web-001': 1.0, 'dce': 0.2, 'web': 0.2, '001': 0.2}
    """
    weights = dict.fromkeys(terms(text), LITTLE)
    for token in tokens(text):
        if token in ASKING_WORDS:
            continue
        parts = _parts(token)
        spoken = parts if CLAUSE.fullmatch(token) or has_unspaced(token) else parts[:1]
        weights |= dict.fromkeys((term for term in stems(spoken) if term in weights), 1.0)
    if has_unspaced(text):
        weights |= {term: 1.0 for term in weights if has_unspaced(term)}
    for spelling in other_spellings(_plain(text)):
        if spelling.written:
            written = chain.from_iterable(map(terms_of_word, words(spelling.written)))
            weights |= dict.fromkeys(written, LITTLE) | {spelling.term: 1.0}
        elif weights.get(spelling.term) == LITTLE:  # its letters and its number are terms of their own
            del weights[spelling.term]
    return weights if 1.0 in weights.values() else dict.fromkeys(weights, 1.0)


class _WordMemo(dict[str, tuple[str, ...]]):
    """Splits each word once, as words recur; a full memo is emptied."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= _MOST_WORDS:
            self.clear()
        parts = self[word] = self._split(word)
        return parts


def _memo(memo: _WordMemo, split: Split, text: str) -> Split:
    return split if has_unspaced(text) else memo.__getitem__  # text without spaces would only fill the memo


def tokens_of_word(word: str) -> tuple[str, ...]:
    """Return the tokens of one casefolded run between white space."""
    return _TOKENS[word]


def terms_of_word(word: str) -> tuple[str, ...]:
    """Return the search terms of one casefolded run between white space."""
    return _TERMS[word]


def _tokens_of(word: str) -> tuple[str, ...]:
    return tuple(part for token in _TOKEN.findall(word) for part in _split(token))


def _terms_of(word: str) -> tuple[str, ...]:
    parts = [
        part
        for token in (_tokens_of(word) if has_unspaced(word) else _TOKENS[word])
        if token not in STOP_WORDS
        for part in _parts(token)
    ]
    return tuple(stems(_pairs(parts) if has_unspaced(word) else parts))


_TOKENS: Final = _WordMemo(_tokens_of)
_TERMS: Final = _WordMemo(_terms_of)


def _split(token: str) -> tuple[str, ...]:
    """Keep a token with a digit whole (a code); split other tokens at punctuation, and text without spaces into units.

    An English genitive and underscores around a token are dropped.
    """
    if token.isascii() and token.isalnum():
        return (token,)
    if has_unspaced(token):
        runs = ((run[1], run[2]) for run in re.finditer(UNIT_OR_OTHER, token))
        return tuple(part for char, other in runs for part in ((char,) if char else _split_between(other)))
    word = token.strip("_-./,'’").replace("’", "'").removesuffix("'s")
    if len(word) == 1 or any(char.isdigit() for char in word):
        return (word,)
    if word.endswith("n't"):
        verb = _CONTRACTED.get(word, word[:-3])
        return (verb, "not") if verb else ("not",)
    begin, _, end = word.rpartition("'")
    if end in _CONTRACTIONS:
        return (*_WORD.findall(begin), _CONTRACTIONS[end])
    return tuple(_WORD.findall(word))


def _split_between(text: str) -> tuple[str, ...]:
    """Split the text between CJK characters: `2024年-2025年` gives the number 2025, not -2025."""
    inner = text.strip("-./,'’")
    return _split(inner) if inner else ()


def _parts(token: str) -> tuple[str, ...]:
    if token.isalpha():
        return (token,)
    clause = CLAUSE.fullmatch(token)
    if clause:
        heads, rest = [token], token
        while rest.endswith(")") and len(heads) <= _DEEPEST:
            rest = rest[: rest.rindex("(")]
            heads.append(rest)
        return tuple(heads)
    if code := JOINED.fullmatch(token):
        return code[1] + code[2], code[1], code[2]
    pieces = [piece for piece in re.split(r"[-/]", token) if piece]
    return (token, *pieces) if len(pieces) > 1 else (token,)


def _pairs(words: list[str]) -> list[str]:
    """Return words with each run of single units, such as Chinese characters, as its overlapping pairs."""
    out: list[str] = []
    unit = re.compile(UNIT)
    for is_unit, group in groupby(words, key=lambda word: unit.fullmatch(word) is not None):
        run = list(group)
        out += [first + second for first, second in pairwise(run)] if is_unit and len(run) > 1 else run
    return out


def bigrams(words: list[str]) -> list[str]:
    """Return each pair of neighbours as one term.

    >>> bigrams(["product", "approv", "criteria"])
    ['product_approv', 'approv_criteria']
    """
    return [f"{first}_{second}" for first, second in pairwise(words)]


Segmenter = Literal["none", "lindera"]
_RUN: Final = f"{CJK}+"
_KANA: Final = r"[\u3041-\u30ff]"
_HANGUL: Final = r"[\uac00-\ud7af]"
_FUNCTION_WORDS: Final = frozenset(
    "的了在是和与與及之其对對为為被把从從于於等而且吗嗎呢"  # Chinese
    "はがをにのとでもやかへ"  # Japanese
    "은는이가을를의에와과도로"  # Korean
)
"""One-character words without meaning of their own. Negations stay: they change what a rule says."""


def segmented(text: str, segmenter: Segmenter) -> str:
    """Return a question with spaces between its words; no search term reaches across white space.

    `商业银行的风险` has six pairs of characters, of which four are words; 行的 and 的风 are not. Without
    segmentation all six are searched. Only questions are segmented: the pairs of a word are found in any text, so a
    base need not be rebuilt when the segmenter changes. Function words of one character are left out; other single
    characters stay with their neighbours. Text in other scripts stays unchanged.

    Args:
        text: cleaned.
        segmenter: `lindera` has dictionaries of Chinese (CC-CEDICT), Japanese (IPADIC) and Korean (ko-dic); with
            `none` the text is returned unchanged.

    Raises:
        MissingExtra: the extra `cjk` is not installed.
    """
    if segmenter == "none" or not has_cjk(text):
        return text
    japanese = re.search(_KANA, text) is not None
    return " ".join(re.sub(_RUN, lambda run: f" {_spaced(run[0], japanese)} ", text).split())


def check_segmenter(segmenter: Segmenter) -> None:
    """Raise `MissingExtra` if a segmenter is not installed."""
    if segmenter == "lindera":
        _lindera()


def _spaced(run: str, japanese: bool) -> str:
    dictionary = "ko-dic" if re.search(_HANGUL, run) else "ipadic" if japanese else "cc-cedict"
    words = [token.surface for token in _tokenizer(dictionary).tokenize(run)]
    parts = (
        list(part)
        for says_something, part in groupby(words, key=lambda word: word not in _FUNCTION_WORDS)
        if says_something
    )
    return " ".join(chain.from_iterable(map(_runs, parts))) or run


def _runs(words: Sequence[str]) -> Iterator[str]:
    """Yield runs of words, which end between two words of several characters: a single one is no search term."""
    pending, short = "", False
    for word in words:
        if pending and not short and len(word) > 1:
            yield pending
            pending = ""
        pending, short = pending + word, len(word) == 1
    if pending:
        yield pending


@lru_cache(maxsize=3)
def _tokenizer(dictionary: str) -> Any:
    lindera = _lindera()
    return lindera.Tokenizer(lindera.load_dictionary(f"embedded://{dictionary}"), mode="normal")


def _lindera() -> Any:
    try:
        import lindera
    except ImportError as error:
        raise MissingExtra("word segmenter 'lindera'", "cjk") from error
    return lindera
