"""How much of each source a caller may read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from context_engine.adapters.sources.local.partitions import readable
from context_engine.adapters.sources.local.stats import SourceStats
from context_engine.core.models import AccessScope

__all__ = ["read_held"]


def read_held(connection: sqlite3.Connection, access: AccessScope | None) -> Mapping[str, SourceStats]:
    """Return how much each source holds for a caller; a source is left out of which there is nothing.

    Args:
        connection: a reader's, in a transaction.
        access: of the caller; None: everything.
    """
    keys = [one.key for one in readable(connection, access)]
    rows = connection.execute(
        "SELECT source_id, count(*), sum(chunk_count) FROM documents JOIN sources USING (source_key)"
        f" WHERE removed IS NULL AND partition_key IN ({','.join('?' * len(keys))}) GROUP BY source_id",
        keys,
    )
    return {source: SourceStats(documents, chunks) for source, documents, chunks in rows}
