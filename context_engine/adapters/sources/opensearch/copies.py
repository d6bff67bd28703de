"""Copies of a store in other indices of its server, for trials (`stores.copies`)."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from context_engine.adapters.sources.opensearch.conditions import StoreView
from context_engine.adapters.sources.opensearch.documents import ShapedStore
from context_engine.adapters.sources.opensearch.server import Calls
from context_engine.adapters.sources.opensearch.state import (
    IndexClass,
    LearntDocument,
    StateDocument,
    make_index,
    rows_of,
)
from context_engine.adapters.sources.stores.copies import StoreName
from context_engine.errors import SourceBusy, SourceError


def copy_store(calls: Calls, store: ShapedStore, target: str) -> None:
    """Copy the visible rows of a store, and what it has learnt, to indices with another prefix.

    Raises:
        SourceNotFound: nothing was ever ingested.
        SourceError: the server failed, or documents changed meanwhile; nothing is left of the copy.
    """
    view = StoreView.read(calls, store.prefix)
    try:
        classes = tuple(_copied(calls, view, store, each, target) for each in view.classes)
        if StateDocument(calls, store.prefix).read().generation != view.state.generation:
            raise SourceBusy("its documents changed meanwhile: try again", retryable=True)
        document = StateDocument(calls, target)
        document.read_or_make()
        document.write(replace(view.state, classes=classes, writer="", until=0.0))
        learnt = LearntDocument(calls, target, {})
        learnt.adopt(view.learnt)
        learnt.write()
    except SourceError:
        remove_store(calls, target)
        raise


def remove_store(calls: Calls, prefix: str) -> None:
    """Remove every index of a store."""
    for name in sorted(calls.ask("GET", f"{prefix}-*/_alias")):
        calls.ask("DELETE", name)


def copies_of(calls: Calls, store: StoreName) -> list[str]:
    """Return the prefixes of the copies of a store."""
    names = [name.removesuffix("-state") for name in calls.ask("GET", f"{store.begin_of_copies}*-state/_alias")]
    return sorted(filter(re.compile(store.copies).match, names))


def _copied(calls: Calls, view: StoreView, store: ShapedStore, access_class: IndexClass, target: str) -> IndexClass:
    """Copy the rows of an access class to a new index."""
    index = f"{target}-{access_class.key}-{secrets.token_hex(4)}"
    make_index(calls, index, store.shape, view.state.dimension)
    rows = calls.snapshot([access_class.index_name], view.state.visible, ["*"])
    while some := list(islice(rows, store.at_once)):
        calls.bulk([_line(index, row) for row in some])
    calls.ask("POST", f"{index}/_refresh")
    return access_class._replace(index_name=index)


def _line(index: str, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a row as the server reads it; that it ends with the next commit of its store does not count."""
    fields = {name: value for name, value in row.items() if name not in ("_id", "_index", "died")}
    return json.dumps({"index": {"_index": rows_of(index), "_id": row["_id"]}}), json.dumps(fields)
