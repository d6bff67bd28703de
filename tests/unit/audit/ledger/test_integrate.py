"""Records move from waiting into the log: in order, without a gap, under one tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import EMPTY_ROOT, leaf_hash, node_hash, root
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import log, pending, tile
from context_engine.audit.ledger.signing import row_mac
from context_engine.audit.values import Composed, Draft
from context_engine.errors import LedgerCorrupt

Draws = Callable[..., Draft]
Opens = Callable[..., Ledger]


def leaves(ledger: Ledger) -> list[bytes]:
    return [stored.leaf for stored in ledger.entries(0, ledger.size)]


def test_an_empty_log_has_the_root_of_nothing(ledger: Ledger) -> None:
    assert (ledger.size, ledger.root(), ledger.integrate()) == (0, EMPTY_ROOT, 0)


def test_records_get_indices_in_the_order_in_which_they_came(ledger: Ledger, draft: Draws) -> None:
    for name in ("b", "a", "c"):
        ledger.append([draft(name)])
    assert ledger.integrate() == 3 and ledger.pending_count() == 0
    found = [ledger.entry(name) for name in ("b", "a", "c")]
    assert [stored.index for stored in found if stored] == [0, 1, 2]
    one, two, three = leaves(ledger)
    assert ledger.root() == node_hash(node_hash(one, two), three)
    assert ledger.root(2) == node_hash(one, two) and ledger.root(0) == EMPTY_ROOT


def test_each_row_has_the_mac_of_its_place(ledger: Ledger, draft: Draws, keyring: Keyring) -> None:
    ledger.append([draft("a"), draft("b")])
    ledger.integrate()
    key = keyring.mac_key(keyring.key_id)
    assert key is not None
    for stored in ledger.entries(0, 2):
        assert stored.entry is not None and stored.index is not None
        assert stored.leaf == leaf_hash(stored.entry) and stored.mac == row_mac(key, stored.index, stored.leaf)


@pytest.mark.parametrize("sizes", [(255, 1, 1), (256, 257), (1, 600, 255, 300)])
def test_tiles_grow_across_their_borders(ledger: Ledger, draft: Draws, sizes: tuple[int, ...]) -> None:
    for batch, size in enumerate(sizes):
        ledger.append([draft(f"{batch}-{n}") for n in range(size)])
        assert ledger.integrate() == size
    total = sum(sizes)
    naive = leaves(ledger)
    assert ledger.size == total == len(naive)
    for size in {1, 2, 255, 256, total - 1, total}:
        assert ledger.root(size) == root(naive[:size]) == TileTree(ledger.tile, size).root()


def test_a_limit_leaves_the_rest_waiting(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft(f"{n:03}") for n in range(600)])
    assert ledger.integrate(limit=300) == 300
    assert (ledger.size, ledger.pending_count()) == (300, 300)
    assert ledger.integrate() == 300
    last = ledger.entry("599")
    assert last is not None and last.index == 599


def test_a_row_of_a_lower_number_that_is_committed_later_is_not_lost(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("a"), draft("b"), draft("c")])
    with ledger.database.begin() as connection:
        late = connection.execute(select(pending).where(pending.c.record_id == "a")).mappings().one()
        connection.execute(delete(pending).where(pending.c.record_id == "a"))
    assert ledger.integrate() == 2
    with ledger.database.begin() as connection:  # what a slow transaction of PostgreSQL does: its number is 1
        connection.execute(insert(pending), dict(late))
    assert ledger.integrate() == 1
    stored = ledger.entry("a")
    assert stored is not None and stored.index == 2 and ledger.root() == root(leaves(ledger))


def test_a_record_that_two_appended_at_once_stands_in_the_log_once(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("a")])
    with ledger.database.connect() as connection:
        row = dict(connection.execute(select(pending)).mappings().one())
    ledger.integrate()
    with ledger.database.begin() as connection:
        connection.execute(insert(pending), row)
    ledger.append([draft("b")])
    assert ledger.integrate() == 1
    assert (ledger.size, ledger.pending_count()) == (2, 0)


class TestWhatDoesNotCheckStaysWhereItIs:
    def test_an_entry_that_was_edited_while_it_waited(self, ledger: Ledger, draft: Draws) -> None:
        ledger.append([draft("a"), draft("b"), draft("c")])
        self.change(ledger, "b", entry=b'{"v": 1, "kind": "search", "id": "b", "decision": "answered"}')
        assert ledger.integrate() == 2 and ledger.pending_count() == 1
        assert [json.loads(stored.entry or b"")["id"] for stored in ledger.entries(0, 2)] == ["a", "c"]
        assert ledger.integrate() == 0

    def test_one_that_was_edited_with_its_leaf(self, ledger: Ledger, draft: Draws) -> None:
        ledger.append([draft("a")])
        self.change(ledger, "a", entry=b"{}", leaf=leaf_hash(b"{}"))
        assert ledger.integrate() == 0

    def test_one_without_a_mac_in_a_log_that_has_them(self, ledger: Ledger, open_ledger: Opens, draft: Draws) -> None:
        ledger.append([draft("a")])
        ledger.integrate()
        open_ledger(None).append([draft("b")])
        assert ledger.integrate() == 0 and ledger.pending_count() == 1

    def test_one_of_a_key_that_is_not_here(self, ledger: Ledger, open_ledger: Opens, draft: Draws) -> None:
        ledger.append([draft("a")])
        unsigned, other = open_ledger(None), open_ledger(Keyring(SigningKey("other", bytes(32))))
        assert unsigned.integrate() == 0 and other.integrate() == 0
        assert ledger.integrate() == 1

    def test_more_of_them_than_a_batch_do_not_hold_up_the_rest(self, ledger: Ledger, draft: Draws) -> None:
        ledger.append([draft(f"{n:03}") for n in range(300)])
        with ledger.database.begin() as connection:
            connection.execute(update(pending).values(mac=bytes(32)))
        ledger.append([draft("right")])
        assert ledger.integrate() == 1 and ledger.pending_count() == 300

    def change(self, ledger: Ledger, record_id: str, **values: Any) -> None:
        with ledger.database.begin() as connection:
            connection.execute(update(pending).where(pending.c.record_id == record_id).values(**values))


def test_rows_without_a_mac_are_moved_as_they_are_when_a_key_comes(open_ledger: Opens, draft: Draws) -> None:
    open_ledger(None).append([draft("a")])
    keyed = open_ledger()
    assert keyed.integrate() == 1
    keyed.append([draft("b")])
    keyed.integrate()
    assert [stored.mac is None for stored in keyed.entries(0, 2)] == [True, False]


def test_a_former_key_vouches_for_what_waited_when_the_key_was_changed(
    ledger: Ledger, open_ledger: Opens, draft: Draws, keyring: Keyring
) -> None:
    ledger.append([draft("a")])
    changed = Keyring(SigningKey(keyring.current.name, bytes(32)), (keyring.current,))
    later = open_ledger(changed)
    assert later.integrate() == 1
    stored = later.entry("a")
    assert stored is not None and stored.key_id == changed.key_id


def test_a_tile_that_does_not_fit_the_log_stops_the_integration(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("a"), draft("b")])
    ledger.integrate()
    with ledger.database.begin() as connection:
        connection.execute(update(tile).values(hashes=bytes(32)))
    ledger.append([draft("c")])
    with pytest.raises(LedgerCorrupt, match="audit verify"):
        ledger.integrate()
    with pytest.raises(LedgerCorrupt, match="tile 0/0 of the ledger has 1 hashes of 2"):
        ledger.root()
    assert (ledger.size, ledger.pending_count()) == (2, 1)


@pytest.mark.parametrize(
    "entry", [b"", b"\xff\xfe", b"[1]", b'"text"', b'{"kind": 3, "chunks": {"a": 1}}', b'{"time": 5}']
)
def test_an_entry_of_any_bytes_is_integrated(ledger: Ledger, entry: bytes) -> None:
    ledger.append([Draft(record_id="odd", contents=(), compose=lambda _: Composed(entry))])
    assert ledger.integrate() == 1
    stored = ledger.entry("odd")
    assert stored is not None and stored.entry == entry
    with ledger.database.connect() as connection:
        assert connection.scalar(select(log.c.leaf)) == leaf_hash(entry)


def test_a_record_that_is_put_a_second_time_under_another_id_stays_where_it_is(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("s-1")])
    with ledger.database.begin() as connection:
        (row,) = connection.execute(select(pending)).mappings().all()
    assert ledger.integrate() == 1
    with ledger.database.begin() as connection:
        connection.execute(insert(pending).values({**row, "record_id": "s-2"}))
    assert ledger.integrate() == 0
    assert (ledger.size, ledger.pending_count()) == (1, 1)
