"""What adapter authors need: the source conformance suite and fakes."""

from context_engine.testing.conformance import ODD_QUERIES, SourceContract
from context_engine.testing.fakes import FakeEmbedder, FakeReranker, FixedClock, ScriptedSource

__all__ = ["ODD_QUERIES", "FakeEmbedder", "FakeReranker", "FixedClock", "ScriptedSource", "SourceContract"]
