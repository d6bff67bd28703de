"""All datasets of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from context_engine.adapters.sources.dify.dataset import DatasetInfo, read_info
from context_engine.adapters.sources.dify.fanout import Ticket
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.protocols import Clock
from context_engine.errors import SourceProtocolError

_TIME_S: Final = 60.0
_MOST_PAGES: Final = 1000


def list_datasets(workspace: Workspace, clock: Clock, *, attempts: int = 3) -> list[DatasetInfo]:
    """Return the datasets of a workspace, in Dify's order.

    Pages are asked for until the total is reached: `has_more` is wrong in some versions.

    Raises:
        ConfigError: the connection cannot be used.
        SourceError: Dify gave no usable answer.
    """
    access = workspace.access()
    due = clock.monotonic() + _TIME_S
    ticket = Ticket(lambda: due - clock.monotonic())
    found: dict[str, DatasetInfo] = {}
    for number in range(1, _MOST_PAGES):
        body = workspace.page(number, access, ticket, attempts=attempts)
        rows = body.get("data") if isinstance(body, Mapping) else None
        if not isinstance(rows, list):
            raise SourceProtocolError("Dify's list of datasets cannot be read")
        found |= {info.dataset_id: info for info in map(read_info, rows)}
        total = body.get("total")
        if not rows or not isinstance(total, int) or number * 100 >= total:
            return list(found.values())
    raise SourceProtocolError("Dify's list of datasets does not end")
