"""Tools for adapter authors: the conformance suites, fakes, and a fake Dify to test against."""

from context_engine.testing.access_conformance import AccessContract
from context_engine.testing.capability_conformance import (
    AccessProvableContract,
    CalibratableContract,
    CopyableContract,
)
from context_engine.testing.conformance import ODD_QUERIES, SourceContract
from context_engine.testing.fake_dify import (
    FAULTS,
    FakeDataset,
    FakeDify,
    FakeDocument,
    FakeRequest,
    FakeSegment,
    Fault,
)
from context_engine.testing.fakes import FakeEmbedder, FakeReranker, FixedClock, ScriptedSource
from context_engine.testing.graph_conformance import GraphStoreContract
from context_engine.testing.learning_conformance import LearntAdaptersContract, StoredVectorsContract, TrainableContract
from context_engine.testing.sink_conformance import SinkContract

__all__ = [
    "FAULTS",
    "ODD_QUERIES",
    "AccessContract",
    "AccessProvableContract",
    "CalibratableContract",
    "CopyableContract",
    "FakeDataset",
    "FakeDify",
    "FakeDocument",
    "FakeEmbedder",
    "FakeRequest",
    "FakeReranker",
    "FakeSegment",
    "Fault",
    "FixedClock",
    "GraphStoreContract",
    "LearntAdaptersContract",
    "ScriptedSource",
    "SinkContract",
    "SourceContract",
    "StoredVectorsContract",
    "TrainableContract",
]
