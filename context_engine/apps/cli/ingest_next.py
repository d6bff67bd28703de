"""The commands that settle what a run of `ingest` left: the run once more, with what it lacked."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from context_engine.core.models import NoticeCode

if TYPE_CHECKING:
    from context_engine.ingest import IngestReport


_FLAGS: Final = {
    NoticeCode.NOT_PRUNED: ("--prune",),
    NoticeCode.DOCUMENTS_GONE: ("--prune",),
    NoticeCode.SOURCE_EMPTIED: ("--prune", "--allow-empty"),
}


def next_commands(report: IngestReport, arguments: Sequence[str]) -> list[str]:
    """Return the commands that remove what was kept, for a shell; the causes say when each may be given.

    Args:
        report: of the run.
        arguments: of the run, without the flags of pruning.
    """
    wanted = dict.fromkeys(_FLAGS[one.reason] for one in report.kept)
    return [shlex.join(("context-engine", "ingest", *arguments, *flags)) for flags in wanted]
