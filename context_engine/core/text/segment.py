"""Chinese, Japanese and Korean text as words, by a dictionary; needs the extra `cjk`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, Final, Literal

from context_engine.core.text.tokens import CJK, has_cjk
from context_engine.errors import MissingExtra

Segmenter = Literal["none", "lindera"]
_RUN: Final = f"{CJK.pattern}+"
_KANA: Final = re.compile(r"[\u3041-\u30ff]")
_HANGUL: Final = re.compile(r"[\uac00-\ud7af]")
_FUNCTION_WORDS: Final = frozenset(
    "的了在是和与與及之其对對为為被把从從于於等而且吗嗎呢"  # Chinese
    "はがをにのとでもやかへ"  # Japanese
    "은는이가을를의에와과도로"  # Korean
)
"""One-character words without meaning of their own. Negations stay: they change what a rule says."""


def segmented(text: str, segmenter: Segmenter) -> str:
    """Return a question with spaces between its words; no search term reaches across white space.

    Of `商业银行的风险` four pairs are words and 行的, 的风 are not; unsegmented, all six are searched for. Texts need
    no segmenting: a word's pairs are found wherever they stand. That is why words and pairs can meet, and why a base
    need not be written again when this changes. Function words of one character are left out; another single
    character stays with its neighbours. Text in other scripts stays as it is.

    Args:
        text: cleaned.
        segmenter: `lindera` has dictionaries of Chinese (CC-CEDICT), Japanese (IPADIC) and Korean (ko-dic); with
            `none` the text comes back.

    Raises:
        MissingExtra: the extra `cjk` is not installed.
    """
    if segmenter == "none" or not has_cjk(text):
        return text
    japanese = _KANA.search(text) is not None
    return " ".join(re.sub(_RUN, lambda run: f" {_spaced(run[0], japanese)} ", text).split())


def check_segmenter(segmenter: Segmenter) -> None:
    """Refuse a segmenter that is not installed.

    Raises:
        MissingExtra: the extra `cjk` is not installed.
    """
    if segmenter == "lindera":
        _lindera()


def _spaced(run: str, japanese: bool) -> str:
    dictionary = "ko-dic" if _HANGUL.search(run) else "ipadic" if japanese else "cc-cedict"
    words = [token.surface for token in _tokenizer(dictionary).tokenize(run)]
    parts = (
        list(part)
        for says_something, part in groupby(words, key=lambda word: word not in _FUNCTION_WORDS)
        if says_something
    )
    return " ".join(chain.from_iterable(map(_joined, parts))) or run


def _joined(words: Sequence[str]) -> Iterator[str]:
    """Yield words, separated only where both neighbours have two characters or more: one alone is no search term."""
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
