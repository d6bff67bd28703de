"""Which rows a commit shows, and who writes next."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
import respx

from context_engine.adapters.sources.opensearch.conditions import FieldTable, any_of, found_by, in_force
from context_engine.adapters.sources.opensearch.server import OpenSearchServer
from context_engine.adapters.sources.opensearch.state import LEASE_S, IndexState, StateDocument, stepped
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import Chunk
from context_engine.errors import StoreLocked
from context_engine.settings.connections import Connection

BASE = "http://search.bank.example:9200"
STATE = IndexState(base_id="b", generation=4, writing=5, given_up=(2,))


def shown(query: Any, row: dict[str, int]) -> bool:
    """Return whether a row matches a query, as the server decides it."""
    ((kind, inner),) = query.items()
    if kind == "bool":
        return all(shown(part, row) for part in inner.get("filter", ())) and not any(
            shown(part, row) for part in inner.get("must_not", ())
        )
    ((field, wanted),) = inner.items()
    if field not in row:
        return False
    return row[field] <= wanted["lte"] if kind == "range" else row[field] in wanted


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"born": 3}, True),
        ({"born": 5}, False),
        ({"born": 2}, False),
        ({"born": 1, "died": 4}, False),
        ({"born": 1, "died": 5}, True),
        ({"born": 1, "died": 2}, True),
    ],
)
def test_a_commit_shows_what_was_written_and_not_removed_until_then(row: dict[str, int], expected: bool) -> None:
    assert shown(STATE.visible, row) is expected


def test_a_number_of_a_commit_is_given_once() -> None:
    finished, unfinished = stepped(STATE, unfinished=False), stepped(STATE, unfinished=True)
    assert (finished.generation, finished.writing, finished.given_up) == (5, 6, (2,))
    assert (unfinished.generation, unfinished.writing, unfinished.given_up) == (4, 6, (2, 5))
    assert not shown(stepped(unfinished, unfinished=False).visible, {"born": 5})


def documents(state: dict[str, Any]) -> dict[str, Any]:
    found = {"_id": "state", "found": True, "_seq_no": 7, "_primary_term": 1, "_source": state}
    return {"docs": [found, {"_id": "learnt", "found": False}]}


@respx.mock
def test_a_writer_takes_over_after_the_lease() -> None:
    fields = {"base_id": "b", "layout": 1, "generation": 4, "writing": 5, "given_up": [], "sources": [], "classes": []}
    respx.post(f"{BASE}/kb-state/_mget").respond(json=documents({**fields, "writer": "w", "until": 100.0}))
    written = respx.put(url__startswith=f"{BASE}/kb-state/_doc/state").respond(json={"_seq_no": 8, "_primary_term": 1})
    connection = Connection.model_validate({"base_url": BASE})
    store = StateDocument(OpenSearchServer(lambda: connection, SystemClock()).writing(), "kb")
    with pytest.raises(StoreLocked):
        store.take(99.0)
    state, unclean = store.take(101.0)
    assert unclean and (state.writing, state.given_up, state.until) == (6, (5,), 101.0 + LEASE_S)
    assert "if_seq_no=7&if_primary_term=1" in str(written.calls.last.request.url)
    assert json.loads(written.calls.last.request.content)["writer"] == state.writer

    written.respond(409, json={})
    with pytest.raises(StoreLocked):
        store.write(state)


def test_dates_are_bounds_where_they_are_given() -> None:
    day = date(2026, 3, 2)
    late, over = in_force(day)["bool"]["must_not"]
    assert late == {"range": {"from_day": {"gt": day.toordinal()}}}
    assert over == {"range": {"to_day": {"lte": day.toordinal()}}}
    row = found_by(Chunk(content="-", effective_from=day))
    assert row["from_day"] == day.toordinal() and "to_day" not in row


def test_long_values_are_indexed_by_their_digest() -> None:
    row = found_by(Chunk(content="-", metadata={"note": "x" * 9_000, "desk": 7}))
    assert "=desk\x007" in row["attributes"] and "desk" in row["fields_held"]
    (note,) = [text for text in row["attributes"] if text.startswith("=note\0")]
    assert note.startswith("=note\0#") and len(note) == len("=note\0#") + 64


def test_many_values_are_asked_in_parts() -> None:
    parts = any_of("row", range(120_000))["bool"]["should"]
    assert [len(part["terms"]["row"]) for part in parts] == [50_000, 50_000, 20_000]
    assert any_of("row", ()) == FieldTable.nothing
