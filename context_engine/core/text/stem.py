"""English stems (Porter 2, as the search engine has it), one call for many words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import tantivy

_MOST_WORDS: Final = 200_000
_known: dict[str, str] = {}
_analyser: Any = None


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
    if len(_known) > _MOST_WORDS:
        _known = {}
    fresh = {word: word for word in words}
    alphabetic = [word for word in words if word.isalpha() and word.isascii()]
    fresh.update(zip(alphabetic, _stemmer().analyze(" ".join(alphabetic))))
    _known.update(fresh)
    return fresh


def _stemmer() -> Any:
    global _analyser
    if _analyser is None:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        _analyser = builder.filter(tantivy.Filter.stemmer("english")).build()
    return _analyser
