"""Look-up rows against the records they are derived from: each finding names the row and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.audit.checks.derived import ReadEntry, _differing_mentions
from context_engine.audit.checks.findings import Finding
from context_engine.audit.checks.verify import verify
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.derive import ChunkIdentity
from context_engine.audit.ledger.signing import row_mac
from tests.unit.audit.checks.logs import KEY, Hand, make_log, open_log

ROW = "INSERT INTO record (idx, record_id, kind, time) VALUES (?, ?, 'search', '')"


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    """On a ledger of the entry of its key and four searches, each of which names two chunks."""
    make_log(tmp_path / "ledger.db", 5)
    return Hand(tmp_path / "ledger.db")


def checked(hand: Hand) -> tuple[Finding, ...]:
    with open_log(hand.place) as ledger:
        return verify(ledger).findings


def found(hand: Hand) -> list[tuple[str, int | None, str]]:
    return [(one.code, one.where.first, one.problem) for one in checked(hand)]


def test_rows_as_the_ledger_writes_them_are_no_finding(hand: Hand) -> None:
    assert found(hand) == []


def test_a_row_that_differs_names_the_columns_that_do(hand: Hand) -> None:
    hand("UPDATE record SET domain = 'HRX', caller = NULL WHERE idx = 3")
    assert found(hand) == [("record_row", 3, "the look-up row differs from the record in domain and caller")]


def test_a_record_without_a_row_is_found(hand: Hand) -> None:
    hand("DELETE FROM record WHERE idx = 3")
    assert found(hand) == [("record_row", 3, "the record has no look-up row: no query finds it")]


@pytest.mark.parametrize("index", [5, 4000, -3])
def test_a_row_of_no_record_is_found(hand: Hand, index: int) -> None:
    hand(ROW, index, "x-1")
    assert set(found(hand)) == {("record_row", index, "the look-up row belongs to no record")}


def test_an_id_that_several_rows_have_is_found(hand: Hand) -> None:
    hand("UPDATE record SET record_id = CAST((SELECT record_id FROM record WHERE idx = 2) AS BLOB) WHERE idx = 4")
    assert [(code, index) for code, index, _ in found(hand)] == [("duplicate_record", 4), ("record_row", 4)]


def test_the_rows_of_a_damaged_entry_are_not_reported_as_well(hand: Hand) -> None:
    hand("UPDATE log SET entry = x'7b7d' WHERE idx = 3")
    assert [(code, index) for code, index, _ in found(hand)] == [("entry_hash", 3)]


def test_mentions_that_differ_name_the_chunks(hand: Hand) -> None:
    hand("UPDATE mention SET fate = 2 WHERE idx = 3 AND fate = 1")
    ((code, index, problem),) = found(hand)
    assert (code, index) == ("mention_row", 3)
    assert problem.startswith("the look-up rows of the chunks differ from the record, at policies/chunk-")
    assert not problem.endswith("...")


def test_the_mentions_of_a_record_without_its_candidates_are_not_compared(hand: Hand) -> None:
    ((digest,),) = hand("SELECT digest FROM addendum WHERE kind = 'candidates' ORDER BY digest LIMIT 1")
    hand("DELETE FROM addendum WHERE digest = ?", digest)
    assert {code for code, *_ in found(hand)} == {"addendum_missing", "addendum_unnamed"}


def test_of_many_chunks_that_differ_five_are_named(hand: Hand) -> None:
    hand("INSERT OR IGNORE INTO mention SELECT tile, chunk, 3, 1 FROM mention WHERE idx <> 3")
    ((code, index, problem),) = found(hand)
    assert (code, index, problem.count("policies/")) == ("mention_row", 3, 5)
    assert problem.endswith(" ...")


def test_mentions_of_numbers_that_have_no_chunk_are_found_by_record_and_by_number(hand: Hand) -> None:
    hand("INSERT INTO mention VALUES (0, 999, 3, 1)")
    assert [(code, index) for code, index, _ in found(hand)] == [("mention_row", 3), ("mention_row", 3)]
    assert any("chunk 999, which is missing" in problem for _, _, problem in found(hand))


def test_a_missing_or_changed_chunk_is_reported_once_and_its_records_are_not(hand: Hand) -> None:
    ((number,),) = hand("SELECT chunk FROM mention WHERE idx = 3 AND fate = 1")
    hand("UPDATE chunk SET document_id = 'D-9' WHERE id = ?", number)
    assert found(hand) == [("chunk_row", number, "the row of the chunk does not match its hash")]
    hand("DELETE FROM chunk WHERE id = ?", number)
    assert found(hand) == [("mention_row", 3, f"the look-up rows name chunk {number}, which is missing")]


def test_a_chunk_that_no_record_names_is_found(hand: Hand) -> None:
    hand("DELETE FROM mention WHERE idx = 3")
    assert [(code, index) for code, index, _ in found(hand)] == [("mention_row", 3)]  # the record still names them
    hand("UPDATE log SET entry = NULL WHERE idx < 5")
    hand("UPDATE chunk SET id = 500 WHERE id = 1")
    assert "chunk_row" not in [code for code, *_ in found(hand)]  # unknown, where records are damaged


@pytest.mark.parametrize(("tile", "index"), [(-1, 3), (1, 3), (7, 2000), (-7, "text")])
def test_mentions_outside_the_tiles_of_the_log_are_found(hand: Hand, tile: int, index: object) -> None:
    hand("INSERT INTO mention SELECT ?, chunk, ?, fate FROM mention WHERE idx = 3", tile, index)
    at = index if isinstance(index, int) else None
    assert set(found(hand)) == {("mention_row", at, "the look-up row belongs to no record")}


@pytest.mark.parametrize("index", [200, "text"])
def test_mentions_of_no_record_in_a_tile_of_the_log_are_found(hand: Hand, index: object) -> None:
    hand("INSERT INTO mention SELECT tile, chunk, ?, fate FROM mention WHERE idx = 3", index)
    at = index if isinstance(index, int) else None
    assert found(hand) == [("mention_row", at, "the look-up row belongs to no record")]


@pytest.mark.parametrize("entry", [b"{}", b'{"id":5}', b"rubbish", b"[" * 5000])
@pytest.mark.usefixtures("collector_off")
def test_an_entry_that_is_no_record_is_found_though_its_hash_and_mac_are_valid(hand: Hand, entry: bytes) -> None:
    leaf = leaf_hash(entry)
    values = (entry, leaf, row_mac(KEY.derived("mac"), 4, leaf))
    hand("UPDATE log SET entry = ?, leaf = ?, mac = ? WHERE idx = 4", *values)
    hand("DELETE FROM checkpoint")
    hand.retile()
    assert ("entry_format", 4) in [(code, index) for code, index, _ in found(hand)]


def test_a_row_of_no_record_is_named_by_its_id(hand: Hand) -> None:
    hand(ROW, 300, "x-1")
    hand("INSERT INTO record (idx, record_id, kind, time) VALUES (100, 'x-2', 'search', '')")
    assert "x-2" in {one.where.name for one in checked(hand)}


@pytest.mark.parametrize(("chunks", "named"), [(5, 5), (6, 5)])
def test_five_chunks_are_named_with_200_characters_each(chunks: int, named: int) -> None:
    """`policies/` has nine of them."""
    stored = {ChunkIdentity("policies", str(number) * 500, None, None, None): 1 for number in range(chunks)}
    problem = _differing_mentions(ReadEntry(3, {"id": "x"}), stored, {}, chunks).problem
    names = ", ".join(f"policies/{str(number) * 191}" for number in range(named))
    assert problem.endswith(f", at {names}{' ...' if chunks > 5 else ''}")
