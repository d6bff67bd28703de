"""A recorded search computed again, compared with its sources now, or asked about one chunk; for pages and commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from context_engine import __version__
from context_engine.answer.replay import AnswerReplay, replay_answer
from context_engine.audit.record.entry import read_entry
from context_engine.audit.record.restored import Restored, restore
from context_engine.audit.review.drift import ChunkDrift, drift
from context_engine.audit.review.replay import ChangedScorer, Replay, replay
from context_engine.audit.review.shown import ShownAnswer, recorded_answer
from context_engine.audit.review.stored import context_entries, find_record, ledger_pseudonyms
from context_engine.core.models import EffectiveSettings, Principal, SearchResult
from context_engine.errors import (
    ConfigError,
    InvalidRequest,
    MaskingError,
    RecordNotFound,
    SourceError,
    StoreError,
    UnknownDomain,
)
from context_engine.jobs.rules import changed_decision
from context_engine.wiring.in_force import changed_scorer, counter_of_name, settings_in_force

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.core.engine import Engine
    from context_engine.wiring.setup import Setup

_UNRESOLVED: Final = (UnknownDomain, InvalidRequest, ConfigError, MaskingError)
Tell = Callable[[str], None]
"""Receives a sentence about what could not be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The configuration that a record is compared with.

    Attributes:
        data_dir: the data folder; None: the default.
        tell: receives why something could not be compared.
        settings: whether settings and scorer are compared at all; they are for operators.
    """

    setup: Setup
    data_dir: Path | None
    tell: Tell = lambda _sentence: None
    settings: bool = True

    def settings_for(self, result: SearchResult) -> EffectiveSettings | None:
        """Return the settings in force for a recorded request; None, after telling why, if they are unknown."""
        if result.request is None:
            return None
        try:
            return settings_in_force(self.setup, result.request, result.specs)
        except _UNRESOLVED as error:
            self.tell(f"The settings in force could not be compared: {error}")
            return None

    def scorer_for(self, result: SearchResult) -> ChangedScorer | None:
        """Return how the scorer of vectors has changed; None if it has not, or if that is unknown."""
        try:
            return changed_scorer(self.setup, self.setup.data_dir(self.data_dir), result)
        except (SourceError, StoreError) as error:
            self.tell(f"The adapter in force could not be compared: {error}")
        except _UNRESOLVED:  # already told for the settings
            pass
        return None


def replayed(ledger: Ledger, record_id: str, now: Now, query: str | None = None) -> Replay | AnswerReplay:
    """Compute a recorded search or answer again from its record alone.

    Args:
        query: the question, if only its digest was recorded.

    Raises:
        RecordNotFound: there is no such record, or it was pruned.
        QueryNotRecorded: only a digest of the question was recorded, and `query` is missing or another.
        InvalidRequest: the record is neither of a search nor of an answer.
        AuditError: something needed is missing, erased or unreadable.
    """
    record = find_record(ledger, record_id)
    if read_entry(record.entry)["kind"] == "answer":
        return replay_answer(
            ledger, record_id, query=query, counter=counter_of_name, mask=now.setup.mask(), decided=changed_decision
        )
    restored = restore(record.entry, ledger, query=query, pseudonyms=ledger_pseudonyms(ledger))
    return recomputed(restored, now, contexts=[read_entry(entry) for entry in context_entries(ledger, record_id)])


def recomputed(
    recorded: SearchResult | Restored,
    now: Now,
    *,
    recorded_by: str | None = None,
    contexts: Sequence[Mapping[str, Any]] = (),
    published: Mapping[str, Any] | None = None,
) -> Replay:
    """Compute a search again; see `replay`."""
    masked = any(entry.get("masked") for entry in contexts)
    return replay(
        recorded,
        code_version=__version__,
        recorded_by=recorded_by,
        published=published,
        settings_now=now.settings_for if now.settings else None,
        scorer_now=now.scorer_for if now.settings else None,
        contexts=contexts,
        counter=counter_of_name,
        mask=now.setup.mask() if masked else None,
    )


def shown_in(ledger: Ledger, record_id: str) -> ShownAnswer:
    """Return what a recorded search showed, or the search that a context or an answer was made from.

    Raises:
        RecordNotFound: there is no such record, or it was pruned.
        InvalidRequest: the record is of neither.
    """
    ledger.integrate()
    stored = ledger.entry(record_id)
    if stored is not None and stored.entry is not None:
        read = read_entry(stored.entry)
        if read.get("kind") in ("context", "answer"):
            stored = ledger.entry(str(read.get("search")))
    if stored is None or stored.entry is None:
        why = "has no record" if stored is None else "has pruned the record"
        raise RecordNotFound(f"the ledger {why} {record_id!r}")
    return recorded_answer(stored.entry, ledger)


def drifts_of(
    answer: ShownAnswer, engine: Engine, setup: Setup, principal: Principal, timeout_s: float
) -> tuple[ChunkDrift, ...]:
    """Compare the chunks that an answer showed with their sources now.

    Args:
        engine: fetches the chunks.
        principal: chunks that it may not read count as gone.
        timeout_s: seconds for each source.
    """
    domain = setup.registry.domains.get(answer.domain)
    today = datetime.now(ZoneInfo("UTC" if domain is None else domain.timezone)).date()
    return drift(
        answer.chunks,
        lambda source_id, wanted: engine.fetch(source_id, wanted, principal),
        domain=answer.domain,
        day=answer.past_day or today,
        today=answer.past_day is None,
        timeout_s=timeout_s,
    )
