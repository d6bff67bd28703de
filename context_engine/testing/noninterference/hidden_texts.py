"""Hidden documents of the worst kind: their words are those of the open texts and of the questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from random import Random
from typing import Any, Final

from context_engine.core.models import Chunk, Classification, SearchRequest
from context_engine.core.text import content_sha256
from context_engine.testing.noninterference.wordings import misspelt, sentence_of, unknown_word, words_of

_MOST_REPEATS: Final = 12
_MOST_CHUNKS: Final = 4
_CODES: Final = ("NPA-001", "4.2.1(b)", "7 %", "USD 5 000 000")


class HiddenTexts:
    """Makes the chunks of hidden documents.

    They flood the words that are asked for, repeat open texts letter by letter or but for one word, hold the questions
    themselves with their misspelt and unknown words, and others that are one slip away; define asked words, have the
    fields that filters name, and claim to replace open documents.

    Args:
        draw: what decides.
        readable: chunks that the caller may read.
        requests: what the caller asks.
    """

    def __init__(self, draw: Random, readable: Sequence[Chunk], requests: Sequence[SearchRequest]) -> None:
        self._draw, self._readable = draw, readable
        self._asked = [request.query for request in requests] or ["approval limit"]
        self._words = words_of(self._asked) or ["approval", "limit"]
        self._fields = sorted({name for chunk in readable for name in chunk.metadata} | {"owner", "project"})
        self.document_ids = sorted({chunk.document_id for chunk in readable if chunk.document_id})
        self._kinds: Sequence[Callable[[], str]] = (
            self._flood, self._copy, self._near_copy, self._question, self._slips, self._definition, self._memo,
        )  # fmt: skip

    def chunks(self, document_id: str, claim: Classification | None, *, foreign: bool) -> tuple[Chunk, ...]:
        """Return the chunks of a new document.

        Args:
            claim: the classification that each of them claims.
            foreign: it stands in another source than the open texts, so that their ids and claims may be its own.
        """
        number = self._draw.randint(1, _MOST_CHUNKS)
        return tuple(self._chunk(document_id, place, claim, foreign=foreign) for place in range(number))

    def _chunk(self, document_id: str, place: int, claim: Classification | None, *, foreign: bool) -> Chunk:
        draw = self._draw
        like = draw.choice(self._like(document_id)) if self._readable and draw.random() < 0.5 else Chunk(content="-")
        same = foreign and place == 0 and like.document_id == document_id and not _is_hash(like)
        return Chunk(
            content=draw.choice(self._kinds)(),
            chunk_id=like.chunk_id if same else "",
            document_id=document_id,
            title=like.title or draw.choice(self._asked)[:80],
            section=like.section,
            heading_path=like.heading_path,
            position=place,
            classification=claim,
            authority_tier=draw.choice((None, 1, 2)),
            effective_from=draw.choice((None, date(2020, 1, 1), date(2030, 1, 1))),
            superseded_by=like.document_id if foreign and draw.random() < 0.2 else None,
            metadata=self._metadata(),
        )

    def _like(self, document_id: str) -> Sequence[Chunk]:
        """Return the open chunks of the same document id, all where there are none."""
        return [chunk for chunk in self._readable if chunk.document_id == document_id] or self._readable

    def _metadata(self) -> dict[str, Any]:
        draw = self._draw
        names = draw.sample(self._fields, min(2, len(self._fields)))
        return {name: draw.choice((draw.choice(self._words), 7, True)) for name in names}

    def _flood(self) -> str:
        word = self._draw.choice(self._words)
        return " ".join([word] * self._draw.randint(1, _MOST_REPEATS))

    def _copy(self) -> str:
        return self._draw.choice(self._readable).content if self._readable else self._memo()

    def _near_copy(self) -> str:
        words = self._copy().split()
        words[self._draw.randrange(len(words))] = self._draw.choice(self._words)
        return " ".join(words)

    def _question(self) -> str:
        return f"{self._draw.choice(self._asked)} {self._draw.choice(_CODES)}"

    def _slips(self) -> str:
        return " ".join(misspelt(word, self._draw) for word in self._draw.choices(self._words, k=6))

    def _definition(self) -> str:
        term = self._draw.choice(self._words)
        return f'"{term.capitalize()}" means {self._draw.choice(self._asked)}.'

    def _memo(self) -> str:
        told = sentence_of(self._draw.choice(self._readable), self._draw) if self._readable else ""
        words = " ".join(self._draw.choices(self._words, k=8))
        return f"Memo on project {unknown_word(self._draw)}: {words}. {told}"


def _is_hash(chunk: Chunk) -> bool:
    """Return whether a chunk's id is its text's hash: whatever has the same text has the same id then by itself."""
    return chunk.chunk_id == content_sha256(chunk.content)
