"""The version of a base as one caller sees it: it changes with every write that may change an answer, and no other.

A write where the caller may not read leaves it unchanged: otherwise a caller could tell from the age of answers in the
cache that somebody wrote there.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Final

from context_engine.adapters.sources.local.adapter_store import READABLE
from context_engine.adapters.sources.local.partitions import readable
from context_engine.adapters.sources.local.schema import BaseState, model_of
from context_engine.core.models import AccessScope

_CALIBRATIONS: Final = (
    "SELECT * FROM calibrations WHERE partition_key IN (SELECT value FROM json_each(:partitions))"
    " ORDER BY domain, model_id, partition_key"
)
_ADAPTERS: Final = (
    f"SELECT domain, adapter_id, model_id, digest FROM adapters WHERE {READABLE} ORDER BY domain, adapter_id"
)
_SWITCHES: Final = (
    "SELECT adapter_switches.domain, adapters.learnt_from, adapter_switches.adapter_id FROM adapter_switches"
    f" JOIN adapters USING (domain, learnt_from) WHERE {READABLE} ORDER BY number, adapters.adapter_id"
)


def version_of(connection: sqlite3.Connection, state: BaseState, access: AccessScope | None) -> str:
    """Return the version of a base in a snapshot, 64 hex digits.

    Args:
        state: read in the same snapshot; its generation is left out, since every write raises it.
        access: of the caller; None admits everything.
    """
    parts = readable(connection, access)
    asked = {"partitions": json.dumps([part.key for part in parts])}
    rows = [connection.execute(query, asked).fetchall() for query in (_CALIBRATIONS, _ADAPTERS, _SWITCHES)]
    seen = (state.base_id, state.index_number, state.analyser, model_of(connection), parts, rows)
    return hashlib.sha256(repr(seen).encode()).hexdigest()
