"""What a chunk of an economy dataset is found by.

Dify compares the words of a query with a list of keywords of each chunk, letter by letter; those it would choose
itself are ten, and seldom a code. Ours are what a question names: codes and clause numbers, what the document and its
sections are called, terms that are defined, then the words that tell this chunk from others of its document. Dify cuts
codes of a query into pieces (`NPA-001` into `NPA` and `001`, `4.2.1` into `4.2` and its numbers): those are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import log
from typing import Final

from context_engine.core.models import Chunk
from context_engine.core.text import STOP_WORDS, has_cjk

MOST_WORDS: Final = 40
MOST_RUNS: Final = 160
"""Words of a chunk, and runs of Chinese, Japanese or Korean signs, whose words only a dictionary knows. Dify keeps all
keywords of a dataset in one table, which it reads for every search."""

_MOST_CODES: Final = 15
_WORD: Final = re.compile(r"\w+")
_PIECE: Final = re.compile(r"[A-Za-z0-9]{2,}")
_DECIMAL: Final = re.compile(r"(?<![\w.])[A-Za-z0-9]+\.\d+%?|(?<!\w)\d+%")
_TOKEN: Final = re.compile(r"\w[\w.\-/()]*")
_CJK_LENGTHS: Final = (2, 3, 4)


def keywords_of(chunks: Sequence[Chunk]) -> list[list[str]]:
    """Return the keywords of each chunk of one document, the most telling first."""
    words = [Counter(_words(chunk.content)) for chunk in chunks]
    spread = Counter(word.casefold() for counts in words for word in {one.casefold(): one for one in counts}.values())
    return [_chosen(chunk, counts, spread, len(chunks)) for chunk, counts in zip(chunks, words, strict=True)]


def _chosen(chunk: Chunk, counts: Counter[str], spread: Counter[str], total: int) -> list[str]:
    named = (chunk.document_id, chunk.document_version, chunk.title, *chunk.heading_path, chunk.section)
    labels = [str(one) for one in (*named, chunk.metadata.get("reference"), *_defined(chunk)) if one]
    codes = dict.fromkeys(token for token in _TOKEN.findall(chunk.content) if _is_code(token))
    telling = sorted(counts, key=lambda word: -counts[word] * log(1 + total / spread[word.casefold()]))
    first = dict.fromkeys(word for text in (*labels, *islice(codes, _MOST_CODES)) for word in _words(text))
    ranked = dict.fromkeys([*first, *telling])
    chosen = [word for word in ranked if not has_cjk(word)][:MOST_WORDS]
    chosen += [word for word in ranked if has_cjk(word)][:MOST_RUNS]
    return list(dict.fromkeys(form for word in chosen for form in (word, word.lower())))


def _is_code(token: str) -> bool:
    return token[:2].isupper() or any(char.isdigit() for char in token)


def _defined(chunk: Chunk) -> Iterable[str]:
    terms = chunk.metadata.get("defines")
    return [str(one) for one in terms] if isinstance(terms, list | tuple) else []


def _words(text: str) -> Iterator[str]:
    """Yield the pieces that Dify's analysis of the text as a query yields, stop words and single signs left out."""
    yield from _DECIMAL.findall(text)
    for word in _WORD.findall(text):
        if has_cjk(word):
            yield from (word[start : start + size] for size in _CJK_LENGTHS for start in range(len(word) - size + 1))
        elif len(word) > 1 and word.casefold() not in STOP_WORDS:
            yield word
            if "_" in word or not word.isascii():
                yield from _PIECE.findall(word)
