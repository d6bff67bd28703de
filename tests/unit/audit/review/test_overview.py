"""What stands out in records, counted once and remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.review.overview import EXCEPTIONS, Overview, exceptions_of
from context_engine.audit.values import Addendum, Composed, Draft
from context_engine.testing.fakes import FixedClock

CHUNK = {"source": "sops", "chunk": "c", "tier": 2, "trust": "TRUSTED"}
SEARCH = {
    "v": 1,
    "kind": "search",
    "domain": "ORM",
    "status": "complete",
    "decision": "answered",
    "chunks": [CHUNK],
    "sources": [{"id": "sops", "ms": 12.5}],
    "notices": [],
}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.db"), origin="log.example", keyring=None, clock=FixedClock()) as opened:
        yield opened


def keep(ledger: Ledger, *entries: Mapping[str, Any], addendum: Addendum | None = None) -> None:
    start = ledger.size
    drafts = []
    for number, entry in enumerate(entries, start):
        data = json.dumps({**entry, "id": f"r-{number}"}).encode()
        kept = Composed(data, () if addendum is None else (addendum,))
        drafts.append(Draft(record_id=f"r-{number}", contents=(), compose=lambda _digests, kept=kept: kept))
    ledger.append(drafts)
    ledger.integrate()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, set()),
        ({"status": "degraded"}, {"degraded"}),
        ({"status": "failed"}, {"degraded"}),
        ({"denied": [["board", "no_role"]]}, {"denied"}),
        ({"withheld": [["board", "c", "secret"]]}, {"denied"}),
        ({"kind": "refusal", "chunks": [], "error": {"code": "unknown_domain"}}, {"denied"}),
        ({"kind": "refusal", "chunks": [], "error": {"code": "all_sources_failed"}}, {"degraded"}),
        ({"decision": "out_of_scope"}, {"out_of_scope"}),
        ({"decision": "incomplete"}, {"incomplete"}),
        ({"decision": "no_match"}, set()),
        ({"chunks": [{**CHUNK, "flags": ["expired"]}]}, {"stale"}),
        ({"chunks": [{**CHUNK, "flags": ["superseded", "below_threshold"]}]}, {"stale"}),
        ({"chunks": [{**CHUNK, "flags": ["below_threshold"]}]}, set()),
        ({"chunks": [CHUNK, {**CHUNK, "trust": "UNTRUSTED"}]}, {"untrusted"}),
        ({"kind": "fetch", "chunks": [{**CHUNK, "trust": "UNTRUSTED"}]}, set()),
        ({"kind": "answer", "sentences": [{"shown": True}, {"shown": False}]}, {"unsupported"}),
        ({"kind": "answer", "sentences": [{"shown": True}]}, set()),
    ],
)
def test_the_exceptions_of_a_record(fields, expected):
    assert exceptions_of({**SEARCH, **fields}) == expected
    assert expected <= set(EXCEPTIONS)


def test_records_are_read_once_and_new_ones_are_added(ledger):
    overview = Overview()
    keep(ledger, SEARCH, {**SEARCH, "status": "degraded"}, {**SEARCH, "status": "failed"})
    overview.read_on(ledger, most=2)
    assert (overview.size, overview.count("degraded")) == (2, 1)
    overview.read_on(ledger)
    keep(ledger, {**SEARCH, "status": "degraded"})
    overview.read_on(ledger)
    assert (overview.size, list(overview.newest_first("degraded"))) == (4, [3, 2, 1])
    assert list(overview.newest_first("degraded", before=3)) == [2, 1]
    assert list(overview.newest_first("degraded", before=1)) == []


def test_figures_of_a_day(ledger):
    overview = Overview()
    first = {**SEARCH, "time": "2026-03-02T10:00:00Z"}
    stale = {**CHUNK, "tier": 5, "flags": ["expired"]}
    keep(
        ledger,
        first,
        {**first, "status": "degraded", "chunks": [CHUNK, stale], "notices": [["source_failed", "sops"]]},
        {**SEARCH, "time": "2026-03-03T10:00:00Z", "sources": [{"id": "sops", "ms": 40.0}]},
        {"v": 1, "kind": "context", "time": "2026-03-03T10:00:01Z", "search": "r-2", "chunks": [{"label": "[1]"}]},
    )
    overview.read_on(ledger)
    days = overview.days(9)
    assert [(day, each.searches, each.degraded, each.stale) for day, each in days.items()] == [
        ("2026-03-02", 2, 1, 1),
        ("2026-03-03", 1, 0, 0),
    ]
    assert (dict(days["2026-03-02"].tiers), dict(days["2026-03-02"].notices)) == ({2: 2, 5: 1}, {"source_failed": 1})
    assert list(overview.days(1)) == ["2026-03-03"]
    assert overview.call_times() == {("ORM", "sops"): [12.5, 12.5, 40.0]}


def test_chunks_that_were_cut_from_an_entry_count_too(ledger):
    overview = Overview()
    addendum = Addendum.of("account", json.dumps({"chunks": [CHUNK, {**CHUNK, "trust": "UNTRUSTED"}]}).encode())
    cut = {**SEARCH, "more": {"chunks": 1}, "addenda": {"account": addendum.digest.hex()}}
    keep(ledger, cut, addendum=addendum)
    overview.read_on(ledger)
    assert overview.count("untrusted") == 1


def test_a_damaged_entry_counts_as_nothing(ledger):
    overview = Overview()
    keep(ledger, {**SEARCH, "sentences": [{"verdict": "supported"}]}, {**SEARCH, "decision": "incomplete"})
    overview.read_on(ledger)
    assert (overview.size, overview.count("incomplete"), overview.count("unsupported")) == (2, 1, 0)
