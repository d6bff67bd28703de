"""What is recorded of searches, and how firmly. Off unless a ledger is named or the mode is set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from context_engine.core.models.settings_group import SettingsGroup

QueryForm = Literal["text", "digest", "none"]


class KeptRecords(SettingsGroup):
    """What of a domain's searches is kept, and for how long, whoever searches."""

    audit_query: QueryForm = Field(
        "text",
        description="The question in the record: text (it can be erased), digest (who brings the question can replay "
        "the record; without an audit key whoever has the ledger can guess at it), none (no replay).",
    )
    audit_retention_days: Annotated[int, Field(strict=True, ge=1, le=36_500)] | None = Field(
        None, description="Age in days from which 'audit prune' removes records; null: nothing is removed."
    )


class AuditSettings(KeptRecords):
    """The record of searches; no call, persona or domain can turn it off."""

    audit_mode: Literal["off", "best_effort", "required"] | None = Field(
        None,
        description="off; best_effort: an answer does not wait for its record, and losses are counted; required: no "
        "answer without a record. Null: best_effort where CONTEXT_ENGINE_AUDIT_LEDGER names a ledger, else off.",
    )
    audit_origin: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")] = Field(
        "context-engine/audit", description="Name of the log in its checkpoints, e.g. audit.bank.example/retrieval."
    )
    audit_buffer: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        1000, description="Records that may wait to be written under best_effort; what comes then is lost and counted."
    )
    audit_timeout_s: Annotated[float, Field(strict=True, gt=0.0, le=60.0, allow_inf_nan=False)] = Field(
        5.0, description="Seconds that an answer waits for its record under required."
    )
    audit_checkpoint_records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = Field(
        1000, description="A checkpoint is made after so many records ..."
    )
    audit_checkpoint_s: Annotated[float, Field(strict=True, gt=0.0, le=86_400.0, allow_inf_nan=False)] = Field(
        300.0, description="... or after so many seconds, where there are new ones."
    )
    audit_checkpoint_file: str | None = Field(
        None, description="File that each checkpoint is appended to; keep it where the ledger's writers cannot write."
    )
    audit_checkpoint_command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = Field(
        None, description="Program and arguments that are given each checkpoint on standard input."
    )
    audit_witnesses: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="tlog-witness servers that cosign each checkpoint, as CONNECTION=NAME+HASH+KEY: how each is "
        "reached, and the verifier key that its operator publishes.",
    )
