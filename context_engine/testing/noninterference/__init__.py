"""Proof of non-interference: changes of documents that a caller may not read change none of its answers."""

from context_engine.testing.noninterference.certificate import (
    AccessCertificate,
    AccessTrial,
    AnswerDifference,
    StillClock,
    certify,
)
from context_engine.testing.noninterference.changes import (
    ChangeKind,
    HiddenChange,
    HiddenDocument,
    HiddenTexts,
    hidden_changes,
    write_change,
)
from context_engine.testing.noninterference.requests import (
    NO_SUCH_DOMAINS,
    NO_SUCH_SOURCES,
    HiddenPlace,
    hidden_places,
    insider_of,
    made_requests,
)

__all__ = [
    "NO_SUCH_DOMAINS",
    "NO_SUCH_SOURCES",
    "AccessCertificate",
    "AccessTrial",
    "AnswerDifference",
    "ChangeKind",
    "HiddenChange",
    "HiddenDocument",
    "HiddenPlace",
    "HiddenTexts",
    "StillClock",
    "certify",
    "hidden_changes",
    "hidden_places",
    "insider_of",
    "made_requests",
    "write_change",
]
