"""Stub."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.models import Chunk

__all__ = ["keywords_of"]


def keywords_of(chunks: Sequence[Chunk]) -> list[list[str]]:
    return [[] for _ in chunks]
