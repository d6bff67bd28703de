"""The recorder of an engine: writes records to a ledger as reliably as the settings demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from context_engine.audit.recorder.jobs import Make, RecordKind
from context_engine.audit.recorder.writer import LedgerWriter
from context_engine.core.models import (
    AccessRecord,
    AnswerRecord,
    Chunk,
    Context,
    Principal,
    SearchRequest,
    SearchResult,
)
from context_engine.core.models.deployment_settings import QueryForm
from context_engine.core.protocols import Clock
from context_engine.errors import AuditUnavailable

Firmness = Literal["best_effort", "required"]


class LedgerRecorder:
    """Records searches in a ledger; a `Recorder`. The engines of a ledger share its writer.

    Args:
        clock: gives the time of refusals and contexts.
        mode: required: each call waits until its record is durable; best_effort: none waits.
        buffer: most records that wait in mode `best_effort`.
        timeout_s: most seconds that a call waits in mode `required`.
        kept: how the question of a refused request to a domain is kept; a result states it itself.
        kind: of the results: "rank" if the passages were found elsewhere.
    """

    def __init__(
        self,
        writer: LedgerWriter,
        *,
        clock: Clock,
        mode: Firmness,
        buffer: int,
        timeout_s: float,
        kept: Callable[[str], QueryForm],
        kind: RecordKind = "search",
    ) -> None:
        self._writer, self._clock, self._mode = writer, clock, mode
        self._buffer, self._timeout_s, self._kept, self._kind = buffer, timeout_s, kept, kind

    def record(self, result: SearchResult, access: AccessRecord) -> None:
        """Record a result.

        Raises:
            AuditUnavailable: recording is required and failed.
        """
        self._write(lambda drafts: drafts.search(result, access, self._kind), f"search {result.search_id}")

    def refuse(self, request: SearchRequest, access: AccessRecord, error: Exception) -> None:
        """Record a request without a result.

        Raises:
            AuditUnavailable: recording is required and failed.
        """
        now, kept = self._clock.now(), self._kept(request.domain)
        self._write(lambda drafts: drafts.refusal(request, access, error, kept, now), "the request")

    def assembled(self, result: SearchResult, context: Context) -> None:
        """Record a context given to a model.

        Raises:
            AuditUnavailable: recording is required and failed.
        """
        now = self._clock.now()
        self._write(lambda drafts: drafts.context(result, context, now), f"a context of search {result.search_id}")

    def answered(self, result: SearchResult, answer: AnswerRecord, record_id: str) -> None:
        """Record an answer.

        Raises:
            AuditUnavailable: recording is required and failed.
        """
        now = self._clock.now()
        self._write(lambda drafts: drafts.answer(result, answer, record_id, now), f"the answer {record_id}")

    def fetched(self, principal: Principal, domain: str, source_id: str, chunks: Sequence[Chunk]) -> None:
        """Record which chunks of a source a principal fetched by their ids.

        Raises:
            AuditUnavailable: recording is required and failed.
        """
        now = self._clock.now()
        self._write(
            lambda drafts: drafts.fetch(principal, domain, source_id, chunks, now), f"the fetch from source {source_id}"
        )

    def _write(self, make: Make, subject: str) -> None:
        if self._mode == "best_effort":
            self._writer.offer(make, self._buffer)
            return
        try:
            self._writer.write(make, self._timeout_s)
        except AuditUnavailable as error:
            raise AuditUnavailable(
                f"{subject} could not be recorded, and audit_mode is 'required': no unrecorded answer is returned. "
                f"{error}{'' if str(error).endswith('.') else '.'} 'context-engine doctor' tests the ledger"
            ) from error
