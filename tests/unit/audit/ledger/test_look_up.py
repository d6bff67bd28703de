"""What an auditor finds: records by their fields, chunks by the records that name them, erasures, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from context_engine.audit.formats.checkpoint import parse_checkpoint
from context_engine.audit.formats.keys import Keyring
from context_engine.audit.formats.merkle import EMPTY_ROOT
from context_engine.audit.ledger.derive import derive_record, moment_text
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria, MentionCriteria, naming
from context_engine.audit.ledger.schema import chunk, mention
from context_engine.audit.values import Draft

Draws = Callable[..., Draft]
Opens = Callable[..., Ledger]


def ids(ledger: Ledger, **criteria: object) -> list[str]:
    return [row.record_id for row in ledger.rows(Criteria(**criteria))]  # type: ignore[arg-type]


@pytest.fixture
def filled(ledger: Ledger, draft: Draws) -> Ledger:
    ledger.append(
        [
            draft("s-1", time="2026-03-02T10:00:00Z", domain="NPA", caller={"pseudonym": "p1"}, decision="answered"),
            draft("s-2", time="2026-03-02T10:00:00.5Z", domain="NPA", caller={"pseudonym": "p2"}, decision="no_match"),
            draft("c-1", time="2026-03-02T10:00:01Z", kind="context", search="s-1"),
            draft("s-3", time="2026-03-02T11:00:00+01:00", domain="HR", status="degraded", decision="answered"),
            draft("e-1", time="2026-03-03T00:00:00Z", kind="erasure", digests=["ab" * 32, "cd" * 32]),
        ]
    )
    assert ledger.integrate() == 5
    return ledger


class TestRecords:
    def test_stand_in_the_order_of_time_the_newest_first(self, filled: Ledger) -> None:
        assert ids(filled) == ["e-1", "c-1", "s-2", "s-3", "s-1"]
        assert ids(filled, newest_first=False, limit=3) == ["s-1", "s-3", "s-2"]

    def test_are_found_by_each_field_and_by_several(self, filled: Ledger) -> None:
        assert ids(filled, domain="NPA") == ["s-2", "s-1"]
        assert ids(filled, caller="p2") == ["s-2"]
        assert ids(filled, kind="erasure") == ["e-1"]
        assert ids(filled, status="degraded") == ["s-3"]
        assert ids(filled, search_id="s-1") == ["c-1"]
        assert ids(filled, decision="answered", domain="NPA") == ["s-1"]
        assert ids(filled, decision="answered", caller="p2") == []

    def test_are_found_from_a_moment_to_before_another(self, filled: Ledger) -> None:
        def at(second: float) -> datetime:
            return datetime(2026, 3, 2, 10, 0, int(second), int(second % 1 * 1_000_000), tzinfo=UTC)

        assert ids(filled, since=at(0), until=at(1)) == ["s-2", "s-3", "s-1"]
        assert ids(filled, since=at(0.5), until=at(1)) == ["s-2"]
        assert ids(filled, until=at(0.5)) == ["s-3", "s-1"]

    def test_say_what_they_are_looked_up_by(self, filled: Ledger) -> None:
        (row,) = filled.rows(Criteria(caller="p1"))
        assert (row.index, row.record_id, row.kind, row.time) == (0, "s-1", "search", "2026-03-02T10:00:00.000000Z")
        assert (row.domain, row.status, row.decision, row.search_id) == ("NPA", None, "answered", None)

    def test_that_wait_are_found_by_id_alone(self, filled: Ledger, draft: Draws) -> None:
        filled.append([draft("s-4", domain="NPA")])
        stored = filled.entry("s-4")
        assert stored is not None and stored.index is None
        assert ids(filled, domain="NPA") == ["s-2", "s-1"]
        assert filled.entry("s-5") is None and filled.entry_at(5) is None

    def test_are_read_by_index_in_batches(self, filled: Ledger) -> None:
        assert [stored.index for stored in filled.entries(0, 5, batch=2)] == [0, 1, 2, 3, 4]
        assert [stored.index for stored in filled.entries(1, 3, batch=2)] == [1, 2]
        assert list(filled.entries(5, 9)) == []
        assert filled.entry_at(3) == next(filled.entries(3, 4))


class TestMentions:
    @pytest.fixture
    def named(self, ledger: Ledger, draft: Draws) -> Ledger:
        def given(name: str, document: str | None, version: str | None) -> dict[str, object]:
            return {"source": "rules", "chunk": name, "document": document, "version": version, "sha256": name * 32}

        ledger.append(
            [
                draft("s-1", domain="NPA", chunks=[given("c1", "D1", "1"), given("c2", "D2", None)]),
                draft("s-2", domain="NPA", chunks=[given("c1", "D1", "2")]),
                draft("c-1", kind="context", chunks=[given("c1", "D1", "1")]),
            ]
        )
        ledger.integrate()
        return ledger

    def found(self, ledger: Ledger, **criteria: object) -> list[tuple[str, str]]:
        rows = ledger.mentions(MentionCriteria(**criteria))  # type: ignore[arg-type]
        return [(row.record.record_id, row.chunk_id) for row in rows]

    def test_are_found_by_document_version_content_and_chunk(self, named: Ledger) -> None:
        assert self.found(named, document_id="D1") == [("s-1", "c1"), ("s-2", "c1")]
        assert self.found(named, document_id="D1", document_version="2") == [("s-2", "c1")]
        assert self.found(named, content_sha256="c2" * 32) == [("s-1", "c2")]
        assert self.found(named, source_id="rules", chunk_id="c2") == [("s-1", "c2")]
        assert self.found(named, source_id="elsewhere") == []

    def test_are_found_by_fate(self, named: Ledger) -> None:
        assert len(self.found(named, fates=("returned", "merged"))) == 3
        assert self.found(named, fates=("dropped",)) == []

    def test_of_more_records_than_are_searched_at_once_come_all(
        self, ledger: Ledger, draft: Draws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("context_engine.audit.ledger.ledger._TILES", 1)
        chunks = [{"source": "rules", "chunk": f"{n}", "document": "D1"} for n in range(3)]
        ledger.append([draft(f"s-{n}", chunks=chunks[: n % 4]) for n in range(600)])
        ledger.integrate()
        found = self.found(ledger, document_id="D1")
        assert found == [(f"s-{n}", f"{one}") for n in range(600) for one in range(n % 4)]
        assert self.found(ledger, chunk_id="2") == [(f"s-{n}", "2") for n in range(3, 600, 4)]

    def test_a_chunk_that_many_records_name_is_kept_once(self, ledger: Ledger, draft: Draws) -> None:
        def versions(number: int) -> list[dict[str, str]]:
            return [{"source": "rules", "chunk": "c1", "document": "D1", "version": f"{number % 3}"}]

        for number in range(9):
            ledger.append([draft(f"s-{number}", chunks=versions(number))])
            ledger.integrate()
        with ledger.database.connect() as connection:
            assert connection.execute(select(chunk.c.id, chunk.c.document_version).order_by(chunk.c.id)).all() == [
                (1, "0"),
                (2, "1"),
                (3, "2"),
            ]
        assert [one for one, _ in self.found(ledger, document_version="1")] == ["s-1", "s-4", "s-7"]

    def test_each_tile_is_searched_for_each_chunk_and_none_is_read_through(
        self, open_at: Opens, tmp_path: Path
    ) -> None:
        named = open_at(tmp_path / "ledger.db")
        statement = select(mention.c.idx).where(naming(range(3), chunk.c.document_id == "D1"))
        with named.database.connect() as connection:
            said = statement.compile(connection, compile_kwargs={"literal_binds": True})
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}")]
        assert plan[0] == "SEARCH mention USING PRIMARY KEY (tile=? AND chunk=?)"

    def test_a_text_that_is_no_hash_finds_nothing(self, named: Ledger) -> None:
        assert self.found(named, content_sha256="no hash") == []


class TestDerived:
    @pytest.mark.parametrize("time", ["yesterday", None, 5, "", "2026-13-01T00:00:00Z"])
    def test_a_time_that_is_none_is_empty(self, time: object) -> None:
        assert derive_record(0, "s", {"time": time}).time == ""

    def test_a_time_of_any_precision_and_zone_stands_in_order(self) -> None:
        assert derive_record(0, "s", {"time": "2026-03-02T10:00:00+01:00"}).time == "2026-03-02T09:00:00.000000Z"
        assert moment_text(datetime(2026, 3, 2, 10, tzinfo=UTC)) == "2026-03-02T10:00:00.000000Z"

    def test_what_no_database_stores_is_replaced(self) -> None:
        assert derive_record(0, "s", {"domain": "a\x00b\ud800"}).domain == "a\ufffdb?"

    def test_an_unknown_kind_is_kept(self) -> None:
        assert derive_record(0, "s", {"kind": "later"}).kind == "later" and derive_record(0, "s", {}).kind == "unknown"


class TestErasures:
    def test_an_erased_addendum_names_the_entry_that_says_so(self, filled: Ledger) -> None:
        assert filled.erased(bytes.fromhex("cd" * 32)) == 4
        assert filled.erased(bytes(32)) is None

    def test_the_first_entry_that_says_so_counts(self, filled: Ledger, draft: Draws) -> None:
        filled.append([draft("e-2", kind="erasure", digests=["ab" * 32, "ef" * 32, "ef" * 32])])
        filled.integrate()
        assert [filled.erased(bytes.fromhex(text * 32)) for text in ("ab", "ef")] == [4, 5]

    def test_other_kinds_and_odd_digests_erase_nothing(self, ledger: Ledger, draft: Draws) -> None:
        ledger.append([draft("s-1", digests=["ab" * 32]), draft("e-1", kind="erasure", digests=["no hex", 5])])
        assert ledger.integrate() == 2 and ledger.erased(bytes.fromhex("ab" * 32)) is None


class TestCheckpoints:
    def test_one_says_what_the_log_holds_and_is_signed(self, ledger: Ledger, draft: Draws, keyring: Keyring) -> None:
        ledger.append([draft("a"), draft("b")])
        made = ledger.checkpoint()
        found = parse_checkpoint(made.note)
        assert (found.origin, found.size, found.root) == (ledger.origin, 2, ledger.root())
        assert made.written == datetime(2026, 3, 2, 10, tzinfo=UTC).timestamp()
        assert f"— {keyring.current.name} " in made.note

    def test_of_one_size_there_is_one(self, ledger: Ledger, draft: Draws) -> None:
        first = ledger.checkpoint()
        assert parse_checkpoint(first.note).root == EMPTY_ROOT
        assert ledger.checkpoint() == first
        ledger.append([draft("a")])
        second = ledger.checkpoint()
        assert ledger.checkpoints() == [first, second]

    def test_without_a_key_it_has_no_signature(self, open_ledger: Opens, draft: Draws) -> None:
        unsigned = open_ledger(None)
        unsigned.append([draft("a")])
        assert "—" not in unsigned.checkpoint().note


def test_the_newest_checkpoints_alone_are_read(ledger: Ledger, draft: Draws) -> None:
    for name in ("a", "b", "c"):
        ledger.append([draft(name)])
        ledger.checkpoint()
    assert [one.size for one in ledger.checkpoints()] == [1, 2, 3]
    assert [one.size for one in ledger.checkpoints(newest=2)] == [2, 3]
