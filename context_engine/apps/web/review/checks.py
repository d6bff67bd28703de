"""The checks that a case page offers by a button, and what each found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from context_engine.answer.replay import AnswerReplay
from context_engine.apps.web.review.again import Now, drifts_of, replayed, shown_in
from context_engine.apps.web.review.state import Reviewed
from context_engine.audit.review.drift import ChunkDrift, counts
from context_engine.audit.review.replay import Replay
from context_engine.core.models import Authenticated
from context_engine.errors import AuditError, InvalidRequest, QueryNotRecorded
from context_engine.service.deployment import Deployment
from context_engine.service.explaining.why_words import NOT_SAME, why_lines
from context_engine.service.records import OwnedRecord
from context_engine.wiring.examine import fetching_engine

DRIFT_S: Final = 10.0
"""Seconds for each source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of a check.

    Attributes:
        kind: replay, drift or why.
        state: good, warn or bad.
        headline: in one sentence.
        lines: further facts.
        replay, drifts: the details of a replay of a search, or of a comparison with the sources.
    """

    kind: str
    state: str
    headline: str
    lines: Sequence[str] = ()
    replay: Replay | AnswerReplay | None = None
    drifts: tuple[ChunkDrift, ...] = ()


def replay_now(deployment: Deployment, caller: Authenticated, record: OwnedRecord, reviewed: Reviewed) -> CheckFinding:
    """Compute a recorded search or answer again from its record alone, and remember whether it was the same."""
    finding = replay_finding(
        record, Now(setup=deployment.setup, data_dir=deployment.data_dir, settings=caller.operator)
    )
    if finding.replay is not None and record.index is not None:
        reviewed.replays[record.index] = finding.replay.identical
    return finding


def replay_finding(record: OwnedRecord, now: Now) -> CheckFinding:
    """Compute a recorded search or answer again from its record alone."""
    lines: list[str] = []
    try:
        again = replayed(record.ledger, record.record_id, replace(now, tell=lines.append))
    except QueryNotRecorded:
        sealed = "It cannot be replayed: only a digest of the question is kept"
        return CheckFinding(kind="replay", state="warn", headline=sealed)
    except (AuditError, InvalidRequest) as error:
        return CheckFinding(kind="replay", state="warn", headline="It cannot be replayed", lines=(str(error),))
    if again.identical:
        same = "Identical: the record gives the same answer to the byte"
        if isinstance(again, AnswerReplay):
            same = "Identical: the record gives the same sentences with the same verdicts"
        return CheckFinding(kind="replay", state="good", headline=same, lines=lines, replay=again)
    why = again.explanation or "a context differs"
    return CheckFinding(kind="replay", state="bad", headline=f"NOT identical: {why}", lines=lines, replay=again)


def drift_now(deployment: Deployment, caller: Authenticated, record: OwnedRecord, _reviewed: Reviewed) -> CheckFinding:
    """Compare the chunks that were shown with their sources now."""
    try:
        answer = shown_in(record.ledger, record.record_id)
    except (AuditError, InvalidRequest) as error:
        return CheckFinding(kind="drift", state="warn", headline="It cannot be compared", lines=(str(error),))
    with fetching_engine(deployment.setup, deployment.data_dir) as engine:
        drifts = drifts_of(answer, engine, deployment.setup, caller.principal, DRIFT_S)
    changed = {state: count for state, count in counts(drifts).items() if count and state != "unchanged"}
    if not changed:
        headline = "All chunks are as they were shown" if drifts else "It showed no chunk"
        return CheckFinding(kind="drift", state="good", headline=headline, drifts=drifts)
    words = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in changed.items())
    return CheckFinding(kind="drift", state="warn", headline=f"Of {len(drifts)} chunks: {words}", drifts=drifts)


def why_now(deployment: Deployment, caller: Authenticated, record: OwnedRecord, chunk: str) -> CheckFinding:
    """Tell why a chunk was shown or not.

    Args:
        chunk: its id, the beginning of it, or SOURCE/CHUNK.
    """
    from context_engine.audit.review.account import account_of
    from context_engine.audit.review.stored import recorded_result
    from context_engine.audit.review.why import NOTHING_TAKEN, AccessTaken, why

    if not chunk:
        return CheckFinding(kind="why", state="warn", headline="Name a chunk: its id, or SOURCE/CHUNK")
    try:
        result = recorded_result(record.ledger, record.record_id, record.entry, None)
        taken = NOTHING_TAKEN
        if caller.operator:
            taken = AccessTaken.of_entry(account_of(record.entry, record.index, record.ledger).entry)
        answer = why(result, chunk, None, taken)
    except (AuditError, InvalidRequest, QueryNotRecorded) as error:
        return CheckFinding(kind="why", state="warn", headline="It cannot be told", lines=(str(error),))
    lines = [line.strip() for line in why_lines(answer, result, _names(result))]
    notes = () if answer.same else (NOT_SAME,)
    return CheckFinding(kind="why", state="good", headline=lines[0], lines=(*notes, *lines[1:]))


def _names(result: Any) -> Mapping[tuple[str, str], str]:
    from context_engine.core.ranking.candidates import pool

    specs = {spec.id: spec for spec in result.specs}
    candidates, _ = pool((specs[answer.source_id], answer) for answer in result.raw)
    return {each.key: each.chunk.title or each.key[1] for each in candidates}
