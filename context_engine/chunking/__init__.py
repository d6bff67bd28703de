"""Documents cut by their type; pure functions on text."""

from context_engine.chunking.cut import CHUNKER_VERSION, cut
from context_engine.chunking.fields import field_pieces, record_text
from context_engine.chunking.fixed import fixed_pieces
from context_engine.chunking.outline import Section, outline
from context_engine.chunking.piece import Count, Piece
from context_engine.chunking.sections import section_pieces
from context_engine.chunking.strategy import DEFAULT_STRATEGIES, ChunkingStrategy, get_strategy, read_strategies

__all__ = [
    "CHUNKER_VERSION",
    "DEFAULT_STRATEGIES",
    "ChunkingStrategy",
    "Count",
    "Piece",
    "Section",
    "cut",
    "field_pieces",
    "fixed_pieces",
    "get_strategy",
    "outline",
    "read_strategies",
    "record_text",
    "section_pieces",
]
