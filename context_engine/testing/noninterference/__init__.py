"""Non-interference, shown: what a caller may not read changes a thousand times, and no answer changes by a byte."""

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
    hidden_changes,
    write_change,
)
from context_engine.testing.noninterference.hidden_texts import HiddenTexts
from context_engine.testing.noninterference.places import (
    NO_SUCH_DOMAINS,
    NO_SUCH_SOURCES,
    HiddenPlace,
    hidden_places,
    insider_of,
)
from context_engine.testing.noninterference.requests import made_requests

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
