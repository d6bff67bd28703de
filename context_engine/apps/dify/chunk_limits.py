"""What Dify can carry and store of chunks; what is more is refused before Dify stops in the middle of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from context_engine.apps.dify.chunk_form import Structure
from context_engine.apps.dify.chunk_structures import Structured
from context_engine.errors import InvalidRequest

MOST_SERIALISED: Final = 4 * 1024 * 1024
"""Most bytes of the chunks as one message: Dify ends a plugin that writes a line of more than 5 MiB."""
MOST_EMBEDDED: Final = 65_535
"""Most bytes of one text that is embedded, or of an answer: what the vector stores of Dify have room for."""

_NAMES: Final[dict[Structure, str]] = {"general": "chunk", "parent_child": "child chunk", "qa": "question"}
_MEND: Final[dict[Structure, str]] = {
    "general": "set a smaller chunk size",
    "parent_child": "set a smaller chunk size",
    "qa": "shorten it in the document",
}
_MOST_WORDS: Final = 60


def refuse_too_large(made: Structured, structure: Structure) -> None:
    """Pass over chunks that Dify can take.

    Args:
        made: the chunks.
        structure: theirs.

    Raises:
        InvalidRequest: one is too long, or all of them are too much; names it and says what to do.
    """
    _refuse_long(made.embedded, _NAMES[structure], _MEND[structure])
    if structure == "qa":
        _refuse_long([row["answer"] for row in made.value["qa_chunks"]], "answer", _MEND[structure])
    size = len(json.dumps(made.value, ensure_ascii=False).encode())
    if size > MOST_SERIALISED:
        raise InvalidRequest(
            f"the chunks take {size / 1024 / 1024:.1f} MiB, and Dify's plugin runtime carries at most "
            f"{MOST_SERIALISED // 1024 // 1024}: split the document"
            + (", or choose the structure 'general', which writes its text once" if structure == "parent_child" else "")
        )


def _refuse_long(texts: Sequence[str], name: str, mend: str) -> None:
    for number, text in enumerate(texts, start=1):
        size = len(text.encode())
        if size > MOST_EMBEDDED:
            words = " ".join(text[: _MOST_WORDS * 2].split())[:_MOST_WORDS]
            raise InvalidRequest(
                f"{name} {number} ({words!r} …) has {size:,} bytes, and Dify's vector stores take at most "
                f"{MOST_EMBEDDED:,} of one text: {mend}"
            )
