"""Records are kept once, whole or not at all, and what they share is kept once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import addendum, log, pending
from context_engine.audit.ledger.signing import pending_mac
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.errors import AuditError, LedgerCorrupt

Draws = Callable[..., Draft]


def entry_of(ledger: Ledger, record_id: str) -> dict[str, Any]:
    stored = ledger.entry(record_id)
    assert stored is not None and stored.entry is not None
    return dict(json.loads(stored.entry))


def addenda_of(ledger: Ledger) -> int:
    with ledger.database.connect() as connection:
        return int(connection.scalar(select(func.count()).select_from(addendum)) or 0)


def test_a_record_waits_with_its_leaf_and_mac_until_it_is_integrated(
    ledger: Ledger, draft: Draws, keyring: Any
) -> None:
    ledger.append([draft("s-1", domain="NPA")])
    stored = ledger.entry("s-1")
    assert stored is not None and stored.entry is not None
    assert stored.index is None and ledger.size == 0 and ledger.pending_count() == 1
    assert stored.leaf == hashlib.sha256(b"\x00" + stored.entry).digest()
    assert stored.key_id == keyring.key_id
    assert stored.mac == pending_mac(keyring.mac_key(keyring.key_id), stored.leaf)


@pytest.mark.parametrize("integrated", [False, True], ids=["waiting", "in the log"])
def test_an_altered_record_is_not_read_as_if_it_were_whole(ledger: Ledger, draft: Draws, integrated: bool) -> None:
    ledger.append([draft("s-1", domain="NPA"), draft("s-2")])
    if integrated:
        ledger.integrate()
    stored, table = ledger.entry("s-1"), log if integrated else pending
    assert stored is not None and stored.entry is not None
    with ledger.database.begin() as connection:
        edited = stored.entry.replace(b"NPA", b"ORM")
        connection.execute(update(table).where(table.c.leaf == stored.leaf).values(entry=edited))
    with pytest.raises(LedgerCorrupt, match=r"'s-1' was altered.*audit verify"):
        ledger.entry("s-1")
    assert ledger.entry("s-2") is not None


def test_what_was_appended_is_there_when_the_ledger_is_opened_again(
    ledger: Ledger, open_ledger: Callable[..., Ledger], draft: Draws
) -> None:
    ledger.append([draft("s-1"), draft("s-2")])
    ledger.close()
    again = open_ledger()
    assert again.pending_count() == 2 and entry_of(again, "s-2")["id"] == "s-2"
    assert again.pseudonym_salt == ledger.pseudonym_salt and len(again.pseudonym_salt) == 32


def test_content_that_records_share_is_kept_once_under_one_digest(ledger: Ledger, draft: Draws) -> None:
    rule, limit = Content("text", b"A rule."), Content("text", b"A limit.")
    ledger.append([draft("s-1", contents=(rule, limit)), draft("s-2", contents=(rule,))])
    ledger.append([draft("s-3", contents=(limit, rule))])
    first, second, third = (entry_of(ledger, name)["shared"] for name in ("s-1", "s-2", "s-3"))
    assert second == first[:1] and third == first[::-1]
    assert addenda_of(ledger) == 2
    kept = ledger.addendum(bytes.fromhex(first[0]))
    assert kept is not None and kept.data == b"A rule." and kept.digest.hex() == first[0]


def test_equal_bytes_of_another_kind_are_another_content(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("s-1", contents=(Content("text", b"{}"), Content("card", b"{}")))])
    assert addenda_of(ledger) == 2


def test_two_ledgers_never_have_the_same_digest_for_a_content(
    open_at: Callable[..., Ledger], draft: Draws, tmp_path: Any
) -> None:
    rule = Content("text", b"yes")
    one, other = open_at(tmp_path / "one.db"), open_at(tmp_path / "other.db")
    for ledger in (one, other):
        ledger.append([draft("s-1", contents=(rule,))])
    assert entry_of(one, "s-1")["shared"] != entry_of(other, "s-1")["shared"]


def test_an_addendum_of_a_record_alone_is_found_by_its_digest(ledger: Ledger, draft: Draws) -> None:
    question = Addendum.of("question", b"may I?")
    ledger.append([draft("s-1", addenda=(question,))])
    assert ledger.addendum(question.digest) == question
    assert ledger.addenda([question.digest, bytes(32)]) == {question.digest: question}
    assert ledger.addendum(bytes(32)) is None


def test_a_record_that_is_there_is_left_out_whether_it_waits_or_not(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("s-1", domain="first"), draft("s-1", domain="second")])
    ledger.append([draft("s-1", domain="third")])
    assert ledger.pending_count() == 1 and ledger.integrate() == 1
    ledger.append([draft("s-1", domain="fourth"), draft("s-2")])
    assert ledger.pending_count() == 1
    assert entry_of(ledger, "s-1")["domain"] == "first"


def test_of_a_batch_that_fails_nothing_is_kept(ledger: Ledger, draft: Draws) -> None:
    too_long = Draft(record_id="s-2", contents=(), compose=lambda _: Composed(b"x" * 65_536))
    with pytest.raises(AuditError, match="s-2 has 65536 bytes; the maximum is 65535"):
        ledger.append([draft("s-1", contents=(Content("text", b"A rule."),)), too_long])
    assert ledger.pending_count() == 0 and addenda_of(ledger) == 0
    ledger.append([Draft(record_id="s-3", contents=(), compose=lambda _: Composed(b"x" * 65_535))])
    assert ledger.pending_count() == 1


def test_a_batch_of_more_records_and_contents_than_a_statement_takes(ledger: Ledger, draft: Draws) -> None:
    contents = tuple(Content("text", b"text %d" % n) for n in range(900))
    ledger.append([draft(f"s-{n}", contents=contents[n : n + 1]) for n in range(900)])
    assert ledger.pending_count() == 900 and addenda_of(ledger) == 900
    ledger.append([draft("all", contents=contents)])
    assert len(entry_of(ledger, "all")["shared"]) == 900 and addenda_of(ledger) == 900


def test_without_a_key_rows_have_no_mac(open_ledger: Callable[..., Ledger], draft: Draws) -> None:
    unsigned = open_ledger(None)
    unsigned.append([draft("s-1")])
    assert unsigned.integrate() == 1
    stored = unsigned.entry("s-1")
    assert stored is not None and (stored.mac, stored.key_id) == (None, None)


def test_an_entry_is_stored_as_it_is_and_readable(ledger: Ledger, draft: Draws, url: str) -> None:
    ledger.append([draft("s-1", domain="NPA")])
    readable = "CAST(entry AS TEXT)" if "://" not in url else "convert_from(entry, 'UTF8')"
    with ledger.database.connect() as connection:
        assert '"domain": "NPA"' in str(connection.scalar(text(f"SELECT {readable} FROM pending")))
