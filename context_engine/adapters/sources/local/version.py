"""The version of a base as one caller sees it: it changes with every write that may change an answer, and no other.

A write where the caller may not read leaves it unchanged: otherwise a caller could tell from the age of answers in the
cache that somebody wrote there.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Final

from context_engine.adapters.sources.local.partitions import adapter_rows, readable
from context_engine.adapters.sources.local.schema import BaseState, model_of
from context_engine.core.models import AccessScope

_CALIBRATIONS: Final = (
    "SELECT * FROM calibrations WHERE partition_key IN (SELECT value FROM json_each(:partitions))"
    " ORDER BY domain, model_id, partition_key"
)


def version_of(connection: sqlite3.Connection, state: BaseState, access: AccessScope | None) -> str:
    """Return the version of a base in a snapshot, 64 hex digits.

    Args:
        state: read in the same snapshot; its generation is left out, since every write raises it.
        access: of the caller; None admits everything.
    """
    parts = readable(connection, access)
    keys = [part.key for part in parts]
    calibrations = connection.execute(_CALIBRATIONS, {"partitions": json.dumps(keys)}).fetchall()
    learnt = (calibrations, adapter_rows(connection).version(keys))
    seen = (state.base_id, state.index_number, state.analyser, model_of(connection), parts, learnt)
    return hashlib.sha256(repr(seen).encode()).hexdigest()
