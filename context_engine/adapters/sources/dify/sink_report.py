"""What is to be said of a run that wrote to Dify: what Dify took, which dataset a source got, what is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_engine.core.protocols import SinkReport

_MANY: Final = 500
"""Documents that take Dify minutes."""


def sink_report(summary: Mapping[str, Any], written: int, *, dry_run: bool) -> SinkReport:
    """Return the report of a run.

    Args:
        summary: what Dify accepted, as it is published.
        written: documents that were new or had changed.
        dry_run: nothing was written.
    """
    return SinkReport(
        place="Dify",
        outcome="" if dry_run else _outcome(summary),
        advice=tuple(_advice(summary, written, dry_run)),
        remarks=tuple(f"Dify: {note}" for note in summary["notes"]),
        problems=tuple(f"not as it was written: {_named(one)}: {one['reason']}" for one in summary["damaged"]),
        published=summary,
    )


def _advice(summary: Mapping[str, Any], written: int, dry_run: bool) -> Iterator[str]:
    for one in summary["datasets"]:
        if one["dataset_id"] is None and dry_run:
            yield f"source {one['source']}: dataset {one['name']!r} would be created"
        elif one["new"]:
            yield (
                f"source {one['source']}: dataset {one['name']!r} was created. To search it, give the source "
                f"dataset_ids: [{one['dataset_id']}]"
            )
    if dry_run and written >= _MANY:
        yield (
            f"{written} documents are {written} documents in Dify too, one for each record, with at least "
            f"{3 * written} calls; the embedded base (--to local) takes a large table in seconds"
        )


def _outcome(summary: Mapping[str, Any]) -> str:
    old = f", {_counted(summary['deleted'], 'old document')} deleted" if summary["deleted"] else ""
    left = f", {_counted(summary['leftovers'], 'leftover')} of a broken run removed" if summary["leftovers"] else ""
    twice = f", {_counted(summary['doubled'], 'doubled document')} removed" if summary["doubled"] else ""
    taken = f"Dify took {_counted(summary['documents'], 'document')} with {_counted(summary['segments'], 'chunk')}"
    return f"{taken}{old}{left}{twice}; {_counted(summary['calls'], 'call')}"


def _named(one: Mapping[str, str]) -> str:
    return " ".join(part for part in (one["source_id"], one["document_id"], one["version"]) if part)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
