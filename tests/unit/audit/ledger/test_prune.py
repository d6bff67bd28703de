"""Records go by age, up to a border between tiles; what is left is whole and proves."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from context_engine.audit.formats.merkle import verify_consistency, verify_inclusion
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger import prune as pruning
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import MentionCriteria
from context_engine.audit.ledger.prune import Retention, plan_pruning, prune
from context_engine.audit.ledger.schema import addendum, chunk, mention, record
from context_engine.audit.values import Addendum, Draft
from context_engine.core.models import utc_text
from context_engine.testing.fakes import FixedClock

NOW = FixedClock().now()
YEAR = Retention(365, {})
Draws = Callable[..., Draft]


def aged(draft: Draws, count: int, days: int, first: int = 0, **fields: Any) -> list[Draft]:
    """Records of that age, each with a question of its own."""
    fields.setdefault("domain", "NPA")
    time = utc_text(NOW - timedelta(days=days))
    return [
        draft(f"s-{index}", addenda=(Addendum.of("question", b"Question %d." % index),), time=time, **fields)
        for index in range(first, first + count)
    ]


def filled(ledger: Ledger, *drafts: Draft) -> Ledger:
    ledger.append(drafts)
    ledger.integrate()
    return ledger


def count(ledger: Ledger, table: Any) -> int:
    with ledger.database.connect() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


@pytest.fixture
def unsigned(open_ledger: Callable[..., Ledger]) -> Ledger:
    return open_ledger(None)


def test_old_records_go_up_to_the_border_of_a_tile(unsigned: Ledger, draft: Draws, tmp_path: Path) -> None:
    filled(unsigned, *aged(draft, 300, 400), *aged(draft, 40, 10, 300))
    root = unsigned.root()
    done = prune(unsigned, YEAR, clock=FixedClock())
    assert (done.plan.minimum, done.plan.border, done.addenda) == (0, 256, 256)
    assert done.plan.holder is not None and done.plan.holder.position == 300
    assert unsigned.minimum_index == 256 and unsigned.root(340) == root
    last = json.loads(unsigned.entry_at(unsigned.size - 1).entry)  # type: ignore[union-attr, arg-type]
    assert (last["kind"], last["minimum"]) == ("pruning", 256)
    assert last["before"].startswith(utc_text(NOW - timedelta(days=400)).removesuffix("Z"))
    assert count(unsigned, record) == 340 - 256 + 1 and count(unsigned, addendum) == 340 - 256
    if done.overwritten is not None:
        data = b"".join(path.read_bytes() for path in (tmp_path / "audit").iterdir())
        assert b"Question 12." not in data and b"Question 256." in data


def test_what_is_left_proves_and_grows_out_of_what_was(unsigned: Ledger, draft: Draws) -> None:
    filled(unsigned, *aged(draft, 700, 400), *aged(draft, 5, 10, 700))
    old = {size: unsigned.root(size) for size in (1, 255, 600, 705)}
    prune(unsigned, YEAR, clock=FixedClock())
    tree, root, size = TileTree(unsigned.tile, unsigned.size), unsigned.root(), unsigned.size
    assert unsigned.minimum_index == 512
    for index in range(512, size):
        stored = unsigned.entry_at(index)
        assert stored is not None and stored.entry is not None
        assert verify_inclusion(stored.leaf, index, size, tree.inclusion_proof(index), root)
    for before, its_root in old.items():
        assert verify_consistency(before, its_root, size, root, tree.consistency_proof(before))
    gone = unsigned.entry_at(511)
    assert gone is not None and gone.entry is None


def test_a_domain_that_is_kept_longer_holds_the_border(unsigned: Ledger, draft: Draws) -> None:
    filled(unsigned, *aged(draft, 290, 400), *aged(draft, 1, 400, 290, domain="ORM"), *aged(draft, 300, 400, 291))
    plan = plan_pruning(unsigned, Retention(365, {"ORM": 3650}), NOW)
    assert plan.border == 256 and plan.holder is not None
    assert (plan.holder.record_id, plan.holder.domain, plan.holder.days) == ("s-290", "ORM", 3650)
    assert plan_pruning(unsigned, Retention(365, {"ORM": 30}), NOW).border == 512
    assert plan_pruning(unsigned, Retention(365, {"ORM": None}), NOW).border == 256
    assert plan_pruning(unsigned, Retention(None, {}), NOW).border == 0


def test_a_context_is_kept_as_long_as_the_search_it_is_of(unsigned: Ledger, draft: Draws) -> None:
    search, *_ = aged(draft, 1, 400, domain="ORM")
    context = draft("c-1", kind="context", search="s-0", time=utc_text(NOW - timedelta(days=400)))
    filled(unsigned, search, context, *aged(draft, 300, 400, 2))
    assert plan_pruning(unsigned, Retention(3650, {"ORM": 30, "NPA": 30}), NOW).border == 256


def test_what_the_ledger_says_of_itself_holds_nothing_for_ever(unsigned: Ledger, draft: Draws) -> None:
    old = utc_text(NOW - timedelta(days=400))
    filled(unsigned, draft("e-1", kind="erasure", digests=[], time=old), *aged(draft, 300, 400, 1))
    assert plan_pruning(unsigned, Retention(None, {"NPA": 365}), NOW).border == 256
    assert plan_pruning(unsigned, Retention(None, {"NPA": 365, "ORM": 500}), NOW).border == 0


def test_a_text_that_a_younger_record_names_stays(
    unsigned: Ledger, draft: Draws, searched: Callable[..., Any], chunk_of: Callable[..., Any]
) -> None:
    """The fixed clock says 2026; seen from 2028 the first search is two years old, and so is the second's twin."""
    rule, limit = (chunk_of(name, 0.9, f"The {name} of the harbour loan.") for name in ("rule", "limit"))
    searched(unsigned, "the harbour loan", chunks=[rule, limit])
    filled(unsigned, *aged(draft, 300, 400, 1))
    later = utc_text(datetime(2028, 1, 1, tzinfo=UTC))
    filled(unsigned, draft("young", time=later, domain="NPA"))
    with unsigned.database.connect() as connection:
        texts = select(addendum.c.data).where(addendum.c.kind == "text")
        assert len(connection.execute(texts).all()) == 2
    assert count(unsigned, mention) == count(unsigned, chunk) == 2
    searched(unsigned, "the rule again", chunks=[rule])

    class Later(FixedClock):
        def now(self) -> datetime:
            return datetime(2028, 2, 1, tzinfo=UTC)

    assert prune(unsigned, YEAR, clock=Later()).plan.border == 256
    with unsigned.database.connect() as connection:
        assert [bytes(row[0]) for row in connection.execute(texts)] == [rule.content.encode()]
    assert count(unsigned, mention) == 1
    with unsigned.database.connect() as connection:
        assert connection.scalars(select(chunk.c.chunk_id)).all() == ["rule"]


def test_nothing_is_done_where_no_tile_is_old_enough(unsigned: Ledger, draft: Draws) -> None:
    filled(unsigned, *aged(draft, 255, 400), *aged(draft, 1, 10, 255))
    done = prune(unsigned, YEAR, clock=FixedClock())
    assert (done.plan.border, done.addenda, unsigned.size) == (0, 0, 256)
    assert prune(filled(unsigned), YEAR, clock=FixedClock()).plan.before is None


def test_a_second_pruning_goes_on_where_the_first_ended(unsigned: Ledger, draft: Draws) -> None:
    filled(unsigned, *aged(draft, 600, 400))
    assert prune(unsigned, Retention(399, {}), clock=FixedClock()).plan.border == 512
    filled(unsigned, *aged(draft, 300, 380, 600))
    second = prune(unsigned, YEAR, clock=FixedClock())
    assert (second.plan.minimum, second.plan.border) == (512, 512)  # the entry of the first is young


def test_the_key_is_said_again_where_its_entry_went(ledger: Ledger, draft: Draws, keyring: Any) -> None:
    old = utc_text(NOW - timedelta(days=400))
    first = draft("key-1", kind="key", was=None, now=keyring.current.verifier.text, endorsed=None, time=old)
    filled(ledger, first, *aged(draft, 300, 400, 1))
    prune(ledger, YEAR, clock=FixedClock())
    entries = [json.loads(one.entry or b"{}") for one in ledger.entries(256, ledger.size)]
    (said,) = [one for one in entries if one["kind"] == "key"]
    assert said["was"] == said["now"] == keyring.current.verifier.text and said["endorsed"]


class Ended(Exception):
    """A process was ended."""


def candidates_of(draft: Draws, records: int, *chunks: str, first: int = 0, days: int = 400) -> list[Draft]:
    """Records of that age that each returned the same chunks."""
    named = [{"source": "rules", "chunk": name} for name in chunks]
    return aged(draft, records, days, first, chunks=named)


def test_the_most_rows_go_in_parts_and_the_next_process_goes_on_where_one_was_ended(
    unsigned: Ledger, draft: Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(unsigned, *candidates_of(draft, 1500, "old"), *candidates_of(draft, 100, "young", first=1500, days=10))
    tiles: list[int | None] = []
    first_tile = pruning._first_tile

    def ends(database: Any, end: int) -> int | None:
        tiles.append(first_tile(database, end))
        if len(tiles) == 2:
            raise Ended
        return tiles[-1]

    monkeypatch.setattr(pruning, "_first_tile", ends)
    with pytest.raises(Ended):
        prune(unsigned, YEAR, clock=FixedClock())
    assert unsigned.minimum_index == 1280 and tiles == [0, 4]
    assert count(unsigned, mention) == 1600 - 4 * 256 and count(unsigned, chunk) == 2
    assert {one.record.index for one in unsigned.mentions(MentionCriteria())} == set(range(1280, 1600))
    assert prune(unsigned, YEAR, clock=FixedClock()).plan.border == 1280  # no record can go
    assert tiles == [0, 4, 4, None]
    assert count(unsigned, mention) == 1600 - 1280 and count(unsigned, chunk) == 2


def test_a_chunk_that_a_record_names_again_meanwhile_stays(
    unsigned: Ledger, draft: Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(unsigned, *candidates_of(draft, 256, "again", "gone"), *aged(draft, 10, 10, 256))

    def meanwhile(gone: Any) -> Any:
        going = list(gone)
        if going and isinstance(going[0], int):  # chunks, by number; addenda go by digest
            filled(unsigned, *candidates_of(draft, 1, "again", first=900, days=0))
        yield going

    monkeypatch.setattr(pruning, "parts", meanwhile)
    prune(unsigned, YEAR, clock=FixedClock())
    with unsigned.database.connect() as connection:
        assert connection.scalars(select(chunk.c.chunk_id)).all() == ["again"]
    assert [one.chunk_id for one in unsigned.mentions(MentionCriteria())] == ["again"]
