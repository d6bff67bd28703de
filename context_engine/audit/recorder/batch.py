"""Records written together; where that fails, one by one, to tell a record that cannot be kept from a ledger that is
down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from context_engine.audit.recorder.jobs import Job, LedgerInUse
from context_engine.audit.values import Draft

_TRIES: Final = 2
"""Records that are tried alone before all count as refused by a ledger that is down."""


@dataclass(slots=True)
class Written:
    """What became of a batch.

    Attributes:
        kept: are durable.
        refused: cannot be kept, each for a reason of its own; the ledger itself answers.
        left: to be tried again: the ledger is down.
        problem: why it is.
    """

    kept: list[Job] = field(default_factory=list)
    refused: list[tuple[Job, Exception]] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)
    problem: Exception | None = None


def write_batch(ledger: LedgerInUse, jobs: Sequence[Job]) -> Written:
    """Write records in one transaction, or as many of them as can be.

    A second try is safe: the ledger passes over a record that it has.
    """
    found = Written()
    drafts = [(job, draft) for job in jobs if (draft := _drafted(ledger, job, found)) is not None]
    if not drafts:
        return found
    try:
        ledger.log.append([draft for _, draft in drafts])
    except Exception as error:  # noqa: BLE001  whatever it is, nothing of the batch was kept
        found.problem = error
        _one_by_one(ledger, drafts, found)
        return found
    found.kept = [job for job, _ in drafts]
    return found


def _drafted(ledger: LedgerInUse, job: Job, found: Written) -> Draft | None:
    try:
        return job.drafted(ledger.drafts)
    except Exception as error:  # noqa: BLE001  one record that cannot be made must not keep others from being
        found.refused.append((job, error))
        return None


def _one_by_one(ledger: LedgerInUse, drafts: Sequence[tuple[Job, Draft]], found: Written) -> None:
    """Write each alone. One that fails while another is kept is at fault itself; where none is, the ledger is down."""
    failed: list[tuple[Job, Exception]] = []
    if len(drafts) > 1:
        for job, draft in drafts:
            if len(failed) >= _TRIES and not found.kept:
                failed.append((job, failed[-1][1]))
                continue
            try:
                ledger.log.append([draft])
                found.kept.append(job)
            except Exception as error:  # noqa: BLE001  see above
                failed.append((job, error))
    if found.kept:
        found.refused += failed
        found.problem = None
    else:
        found.left = [job for job, _ in drafts]
