"""Who saw a document, when, and in which versions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from context_engine.audit.ledger.look_up import Criteria, MentionCriteria
from context_engine.audit.ledger.newest import WantedRecords, mentions_in, uses_newest_first
from context_engine.audit.review.impact import FATES, AffectedAnswer, affected
from context_engine.service.records import own_pseudonyms

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger

_MOST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDocument:
    """The use of a document.

    Attributes:
        version: the only one looked at; "": every version.
        answers: the newest first.
        versions: number of answers that showed each version.
        fates: number of answers by what became of the document.
        people: number of different callers to whom it was shown; those without a name count as one.
        total: number of answers, of which `answers` are the newest.
    """

    domain: str
    source: str
    document: str
    version: str
    answers: tuple[AffectedAnswer, ...]
    versions: dict[str, int]
    fates: dict[str, int]
    people: int
    total: int


def document_of(
    ledger: Ledger, domain: str, source: str, document: str, version: str, *, reader: str | None
) -> SeenDocument:
    """Return how a document was used.

    Args:
        domain: of the answers.
        reader: the name of a caller who sees their own records alone; None: an operator.

    Raises:
        AuditError: the ledger cannot be read.
    """
    ledger.integrate()
    chunks = MentionCriteria(document_id=document, document_version=version or None, source_id=source)
    callers = None if reader is None else tuple(own_pseudonyms(ledger, reader))
    wanted = WantedRecords(criteria=Criteria(domain=domain), callers=callers)
    fates: dict[int, str] = {}
    versions: dict[str, set[int]] = {}
    people: set[str | None] = set()
    for use in uses_newest_first(ledger, chunks, wanted):
        fates[use.record] = min(fates.get(use.record, use.fate), use.fate, key=_visible)
        if use.fate == "returned":
            versions.setdefault(use.version or "", set()).add(use.record)
            people.add(use.caller)
    newest = set(islice(fates, _MOST_SHOWN))
    answers = sorted(affected(ledger, mentions_in(ledger, chunks, newest)), key=lambda answer: -answer.record.index)
    return SeenDocument(
        domain=domain,
        source=source,
        document=document,
        version=version,
        answers=tuple(answers),
        versions={name: len(shown) for name, shown in sorted(versions.items())},
        fates=dict(Counter(fates.values())),
        people=len(people),
        total=len(fates),
    )


def _visible(fate: str) -> int:
    return FATES.index(fate) if fate in FATES else len(FATES)
