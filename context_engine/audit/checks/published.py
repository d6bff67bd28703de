"""Compare what the ledger says in two places of the checkpoints that it published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, select

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.ledger.publish import Publication, read_publication
from context_engine.audit.ledger.schema import checkpoint


def check_published(connection: Connection, minimum: int) -> Iterator[Finding]:
    """Yield the published checkpoints that the ledger no longer has, and the last one if its time was changed.

    Args:
        minimum: records below this index were pruned.
    """
    published = read_publication(connection)
    rows = connection.execute(select(checkpoint.c.size, checkpoint.c.written))
    written = {size: at for size, at in rows if isinstance(size, int)}
    yield from _missing(published, written, minimum)
    if published.made is not None:
        size, at = published.made
        if written.get(size, at) != at:
            problem = "the time of the checkpoint is not the one that the ledger noted when it published it"
            yield Finding("checkpoint_time", Place("checkpoint", size), problem)


def _missing(published: Publication, written: Mapping[int, object], minimum: int) -> Iterator[Finding]:
    for size in sorted({size for size in published.done.values() if size > minimum and size not in written}):
        ways = ", ".join(sorted(way for way, done in published.done.items() if done == size))
        problem = f"the ledger published this checkpoint ({ways[:200]}) and no longer has it"
        yield Finding("checkpoint_missing", Place("checkpoint", size), problem)
