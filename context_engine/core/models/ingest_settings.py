"""How files are read: what a file may cost, and what of it counts as its text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(strict=True, gt=0.0, le=86_400.0, allow_inf_nan=False)]
Megabytes = Annotated[int, Field(strict=True, ge=64, le=65_536)]
Count = Annotated[int, Field(strict=True, ge=1, le=10_000_000_000)]


class IngestSettings(BaseModel):
    """Every setting of reading files with its default; keys are those of `ingest.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file_timeout_s: Seconds = Field(
        30.0,
        description="Seconds one file may take to be read and cut; a file of records as long for each 128 kB it has, "
        "while it yields something in that time. Then it is skipped and reported.",
    )
    file_memory_mb: Megabytes = Field(
        512, description="Megabytes of memory one file may take to be read and cut; else it is skipped and reported."
    )
    file_max_chars: Count = Field(
        100_000_000,
        description="Characters one file may give as text for every 2 MB it has; the document that exceeds them and "
        "the rest are skipped and reported.",
    )
    file_max_chunks: Count = Field(
        1_000_000,
        description="Chunks one file may be cut into for every 2 MB it has; the document that exceeds them and the "
        "rest are skipped and reported.",
    )
    hidden_cells: Literal["skip", "read"] = Field(
        "skip", description="Hidden sheets, rows and columns of a workbook: skip (and say how many) or read."
    )
    tracked_changes: Literal["accept", "reject", "both"] = Field(
        "accept",
        description="Tracked changes of a Word file: accept (the new text), reject (the old one), or both, marked.",
    )
