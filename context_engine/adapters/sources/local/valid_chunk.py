"""A chunk of a row, decoded and validated once for many searches: the same chunks come again, question after question.

It takes a fifth of the CPU time of a search of twenty sources (tests/benchmarks/bench_many_sources.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import NamedTuple

from context_engine.core.engine.admission import valid_chunk
from context_engine.core.models import Chunk, Notice, Score

__all__ = ["ValidChunk", "validated"]


class ValidChunk(NamedTuple):
    """A chunk without scores as the engine's validation leaves it.

    Attributes:
        notices: what was changed in it.
        nested: whether metadata or extra hold mappings or lists.
    """

    chunk: Chunk
    notices: tuple[Notice, ...]
    nested: bool

    def scored(self, scores: tuple[Score, ...]) -> Chunk:
        """Return the chunk with scores, its metadata and extra a copy: whoever changes them changes no other search."""
        content, chunk_id, source_id, _, *others, metadata, extra = self.chunk
        copy = deepcopy if self.nested else dict
        metadata, extra = (copy(one) if one else one for one in (metadata, extra))
        return Chunk._make((content, chunk_id, source_id, scores, *others, metadata, extra))


def validated(chunk: Chunk) -> ValidChunk:
    """Return a chunk of a row, validated."""
    notices: list[Notice] = []
    valid = valid_chunk(chunk, notices)
    nested = any(isinstance(one, Mapping | list) for one in (*valid.metadata.values(), *valid.extra.values()))
    return ValidChunk(valid, tuple(notices), nested)
