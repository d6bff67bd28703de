"""A Dify Service API for tests, as a real HTTP server on the loopback interface."""

from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment
from context_engine.testing.fake_dify.external import RegistrationRefused
from context_engine.testing.fake_dify.fake import FakeDify
from context_engine.testing.fake_dify.faults import FAULTS, Fault
from context_engine.testing.fake_dify.server import FakeRequest

__all__ = [
    "FAULTS",
    "FakeDataset",
    "FakeDify",
    "FakeDocument",
    "FakeRequest",
    "FakeSegment",
    "Fault",
    "RegistrationRefused",
]
