"""What is erased is gone from every stored byte; the log says so, and every record still proves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.formats.merkle import verify_inclusion
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.erase import Erased, Wanted, erase, erasure_drafts, find_erasable
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.read import StoredEntry
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.values import MOST_ENTRY_BYTES, Addendum
from context_engine.core.text import content_sha256
from context_engine.errors import AuditError, InvalidRequest, RecordNotFound
from context_engine.testing.fakes import FixedClock

Searches = Callable[..., Any]
SECRET = "May Johanna Overmeer approve the harbour loan?"
TEXT = "The harbour loan of Overmeer is approved by two officers, each within the limit of the desk."


def gone(ledger: Ledger, **wanted: Any) -> Erased:
    return erase(ledger, Wanted(**wanted), reason="request of the person", by="data protection", clock=FixedClock())


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def entry_at(ledger: Ledger, index: int) -> StoredEntry:
    found = ledger.entry_at(index)
    assert found is not None
    return found


def entries(ledger: Ledger) -> list[dict[str, Any]]:
    return [json.loads(one.entry or b"{}") for one in ledger.entries(0, ledger.size)]


def proves(ledger: Ledger) -> bool:
    """Whether every record stands under the root, and erasures are known by their entries."""
    tree, size = TileTree(ledger.tile, ledger.size), ledger.size
    return all(
        verify_inclusion(entry_at(ledger, index).leaf, index, size, tree.inclusion_proof(index), ledger.root())
        for index in range(size)
    )


def test_no_stored_byte_holds_a_question_that_was_erased(ledger: Ledger, searched: Searches, tmp_path: Path) -> None:
    first, second = searched(ledger, SECRET, "Which limit applies?")
    before = entry_at(ledger, 0)
    told = gone(ledger, record_ids=(first.search_id,))
    assert (told.questions, told.texts, told.cards, told.records) == (1, 0, 0, 1)
    if told.overwritten is not None:  # PostgreSQL's files are its own
        assert told.overwritten and b"Overmeer" not in stored_bytes(tmp_path)
        assert b"Which limit applies?" in stored_bytes(tmp_path)
    assert entry_at(ledger, 0) == before and proves(ledger)
    (said,) = [one for one in entries(ledger) if one["kind"] == "erasure"]
    digest = bytes.fromhex(entries(ledger)[0]["addenda"]["question"])
    assert said["digests"] == [digest.hex()] and said["reason"] == "request of the person"
    assert ledger.addendum(digest) is None and ledger.erased(digest) == ledger.size - 1
    assert ledger.addendum(bytes.fromhex(entries(ledger)[1]["addenda"]["question"])) is not None
    assert second.search_id in {one["id"] for one in entries(ledger)}


def test_a_text_that_many_records_share_is_lost_to_all_of_them(
    ledger: Ledger, searched: Searches, chunk_of: Callable[..., Any], tmp_path: Path
) -> None:
    chunks = [
        chunk_of("r-1", 0.9, TEXT, document_id="sop-7", document_version="3"),
        chunk_of("r-2", 0.8, "Trade limits are reviewed each quarter.", document_id="sop-8"),
    ]
    searched(ledger, "harbour loan approved", "officers of the desk", chunks=chunks)
    told = gone(ledger, texts=(content_sha256(TEXT),))
    assert (told.questions, told.texts, told.cards, told.records) == (0, 1, 1, 2)
    if told.overwritten is not None:
        assert b"Overmeer" not in stored_bytes(tmp_path) and b"reviewed each quarter" in stored_bytes(tmp_path)
    assert proves(ledger)


@pytest.mark.parametrize(("version", "texts"), [(None, 2), ("3", 1), ("9", 0)])
def test_a_document_is_erased_whole_or_in_one_version(
    ledger: Ledger, searched: Searches, chunk_of: Callable[..., Any], version: str | None, texts: int
) -> None:
    chunks = [
        chunk_of("r-1", 0.9, TEXT, document_id="sop-7", document_version="3"),
        chunk_of(
            "r-2", 0.8, "The loan desk approves a harbour loan of 2 m.", document_id="sop-7", document_version="2"
        ),
        chunk_of("r-3", 0.7, "Another loan on the harbour.", document_id="sop-8"),
    ]
    searched(ledger, "harbour loan approved", chunks=chunks)
    told = gone(ledger, documents=(("sop-7", version),))
    assert (told.texts, told.cards) == (texts, texts)
    assert bool(told.record_ids) is bool(texts)


def test_a_caller_is_erased_from_what_they_asked_and_what_was_asked_on_their_behalf(
    ledger: Ledger, searched: Searches, tmp_path: Path
) -> None:
    assert ledger.keyring is not None
    searched(ledger, "What is the limit?", caller="ada")
    searched(ledger, "What is the desk?", caller="bert", on_behalf_of="ada")
    searched(ledger, "What is the rule?", caller="bert")
    told = gone(ledger, callers=(Pseudonyms(ledger.keyring.pseudonym_key).of_caller("ada"),))
    assert (told.questions, told.records) == (2, 2)
    if told.overwritten is not None:
        assert b"What is the rule?" in stored_bytes(tmp_path) and b"What is the desk?" not in stored_bytes(tmp_path)


def test_to_erase_twice_is_recorded_once(ledger: Ledger, searched: Searches) -> None:
    (result,) = searched(ledger, SECRET)
    gone(ledger, record_ids=(result.search_id,))
    size = ledger.size
    again = gone(ledger, record_ids=(result.search_id,))
    assert (again.record_ids, again.questions, ledger.size) == ((), 0, size)


def test_what_would_be_erased_is_told_without_erasing_it(ledger: Ledger, searched: Searches) -> None:
    (result,) = searched(ledger, SECRET)
    size = ledger.size
    told = erase(
        ledger, Wanted(record_ids=(result.search_id,)), reason="trial", by="me", clock=FixedClock(), dry_run=True
    )
    assert (told.questions, told.record_ids, ledger.size) == (1, (), size)
    digest = bytes.fromhex(entries(ledger)[0]["addenda"]["question"])
    assert ledger.addendum(digest) is not None


@pytest.mark.parametrize("wanted", ["search", "answer", "text"])
@pytest.mark.parametrize("waits", [False, True])
def test_the_words_of_an_answer_go_with_what_it_was_composed_from(
    ledger: Ledger, searched: Searches, draft: Any, chunk_of: Callable[..., Any], wanted: str, waits: bool
) -> None:
    (found,) = searched(ledger, "harbour loan approved", chunks=[chunk_of("r-1", 0.9, TEXT, document_id="sop-7")])
    words = Addendum.of("answer", json.dumps({"sentences": [{"text": TEXT}]}).encode())
    ledger.append([draft("a-1", kind="answer", search=found.search_id, addenda=(words,))])
    if not waits:
        ledger.integrate()
    named = {
        "search": {"record_ids": (found.search_id,)},
        "answer": {"record_ids": ("a-1",)},
        "text": {"texts": (content_sha256(TEXT),)},
    }
    gone(ledger, **named[wanted])

    assert ledger.addenda([words.digest]) == {}
    assert ledger.erased(words.digest) is not None


def test_a_record_that_waits_is_found_too(ledger: Ledger, searched: Searches, tmp_path: Path) -> None:
    """A record whose MAC no key here vouches for stays where it is; its question is a question all the same."""
    (result,) = searched(ledger, SECRET)
    with ledger.database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO pending (record_id, entry, leaf, mac, key_id, written) "
            "SELECT 'waits', entry, leaf, leaf, 'deadbeef', 0 FROM log WHERE idx = 0"
        )
    told = gone(ledger, record_ids=("waits",))
    assert told.questions == 1 and told.records == 0
    assert result.search_id


def test_an_id_that_is_not_there_erases_nothing(ledger: Ledger, searched: Searches) -> None:
    (result,) = searched(ledger, SECRET)
    with pytest.raises(RecordNotFound, match="no record missing"):
        gone(ledger, record_ids=(result.search_id, "missing"))
    assert ledger.addendum(bytes.fromhex(entries(ledger)[0]["addenda"]["question"])) is not None


@pytest.mark.parametrize("words", ["", "  ", "x" * 201, "a\x00b"])
def test_a_reason_is_short_and_printable(ledger: Ledger, words: str) -> None:
    with pytest.raises(InvalidRequest, match="reason"):
        erase(ledger, Wanted(), reason=words, by="me", clock=FixedClock())


def test_many_digests_stand_in_several_entries_of_the_usual_length() -> None:
    digests = [index.to_bytes(32, "big") for index in range(150)]
    drafts = list(erasure_drafts(digests, "𝕏" * 200, "𝕐" * 200, FixedClock()))
    entries = [draft.compose({}).entry for draft in drafts]
    assert len(entries) == 3 and max(map(len, entries)) <= MOST_ENTRY_BYTES
    assert [one for entry in entries for one in json.loads(entry)["digests"]] == [one.hex() for one in digests]


def test_deletion_and_entry_are_committed_together(
    ledger: Ledger, searched: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = searched(ledger, SECRET)

    def fails(*_: Any) -> int:
        raise AuditError("the disk is full")

    monkeypatch.setattr("context_engine.audit.ledger.erase.append", fails)
    with pytest.raises(AuditError, match="disk is full"):
        gone(ledger, record_ids=(result.search_id,))
    assert ledger.addendum(bytes.fromhex(entries(ledger)[0]["addenda"]["question"])) is not None


def test_what_comes_while_the_log_is_read_is_erased_too(
    ledger: Ledger, searched: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = searched(ledger, SECRET, "Which limit applies?")
    caller = json.loads(entry_at(ledger, 0).entry or b"")["caller"]["pseudonym"]
    sought: list[int] = []

    def find(connection: Any, wanted: Wanted, since: int = 0) -> Any:
        found = find_erasable(connection, wanted, since)
        sought.append(since)
        if len(sought) == 1:  # while it is read, somebody asks, and somebody else erases
            searched(ledger, f"{SECRET} Once more.")
            gone(ledger, record_ids=(first.search_id,))
        return found

    monkeypatch.setattr("context_engine.audit.ledger.erase.find_erasable", find)
    # Who reads keeps the file as it was, and erasing waits for that: not here, where both are one thread.
    monkeypatch.setattr("context_engine.audit.ledger.erase.overwrite_freed", lambda _database: False)
    told = gone(ledger, callers=(caller,))
    assert told.questions == 2  # one of the first two is gone already, and one came
    asked = [bytes.fromhex(one["addenda"]["question"]) for one in entries(ledger) if one["kind"] == "search"]
    assert [ledger.addendum(digest) for digest in asked] == [None, None, None]
