"""What the author of chunk dicts should know of them: keys that are misspelt, and scores without their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from context_engine.core.models.chunk_dict import CHUNK_KEYS
from context_engine.core.models.notice import Notice, NoticeCode

_LEAST_LIKENESS: Final = 0.8
_MOST_LETTERS_MORE: Final = 2
_NAMES: Final = sorted(key for key in CHUNK_KEYS if not key.startswith("_"))
_RELEVANCE: Final = ("score_kind", "scores", "relevance_score")


def advice_on_dicts(chunks: Sequence[Any]) -> list[Notice]:
    """Return notices on chunk dicts as their author gave them; what is no dict is passed over."""
    given = [chunk for chunk in chunks if isinstance(chunk, Mapping)]
    return [*_misspelt(given), *_scores_without_kind(given)]


def _misspelt(chunks: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    """Yield a notice for each unknown key that is close to a known one which its dict lacks."""
    counts = Counter((key, meant) for chunk in chunks for key in chunk if (meant := _meant(key, chunk)) is not None)
    for (key, meant), count in sorted(counts.items()):
        message = f"{count} chunk dict(s) have the unknown key {key!r}: did you mean {meant!r}? It is kept and not read"
        yield Notice(NoticeCode.KEY_MISSPELT, "", message, {"key": key, "meant": meant, "count": count})


def _meant(key: Any, chunk: Mapping[str, Any]) -> str | None:
    if not isinstance(key, str) or key in CHUNK_KEYS or key.startswith("_"):
        return None
    names = [name for name in _NAMES if name not in chunk and abs(len(name) - len(key)) <= _MOST_LETTERS_MORE]
    close = get_close_matches(key.casefold(), names, n=1, cutoff=_LEAST_LIKENESS)
    return close[0] if close else None


def _scores_without_kind(chunks: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    count = sum(
        chunk.get("score") is not None and all(chunk.get(key) is None for key in _RELEVANCE) for chunk in chunks
    )
    if count:
        message = (
            f"{count} chunk dict(s) have 'score' without 'score_kind', so the engine's own lexical score ranks them: "
            "say what the score is, e.g. 'score_kind': 'cosine', or give relevance from 0 to 1 as 'relevance_score'"
        )
        yield Notice(NoticeCode.SCORE_KIND_MISSING, "", message, {"count": count})
