"""Which addenda an entry names: what is no digest is left out, and whoever asks is told the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from context_engine.audit.checks.addenda import contents_in, digests_of
from context_engine.audit.ledger.derive import named_digest, named_digests
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.named import named_by, named_contents, named_in
from context_engine.audit.values import Addendum, Draft
from context_engine.errors import LedgerCorrupt

ONE, TWO = bytes(range(32)), bytes(32)


@pytest.mark.parametrize(
    ("addenda", "named"),
    [
        ({"question": ONE.hex(), "settings": TWO.hex()}, {"question": ONE, "settings": TWO}),
        ({"question": "no digest", "settings": 7, "sources": None, "candidates": ONE.hex()}, {"candidates": ONE}),
        ([ONE.hex()], {}),
        (None, {}),
    ],
)
def test_an_entry_names_what_is_a_digest(addenda: Any, named: dict[str, bytes]) -> None:
    entry = {"addenda": addenda}
    assert named_digests(entry) == named
    assert digests_of(entry) == {digest: kind for kind, digest in named.items()}
    assert all(named_digest(entry, kind) == named.get(kind) for kind in ("question", "settings", "candidates"))


def test_records_that_wait_name_theirs_as_those_in_the_log_do(ledger: Ledger, draft: Callable[..., Draft]) -> None:
    questions = [Addendum.of("question", b"Question %d." % number) for number in range(3)]
    drafts = [draft(f"s-{number}", addenda=(one,)) for number, one in enumerate(questions)]
    ledger.append(drafts[:2])
    ledger.integrate()
    ledger.append(drafts[2:])
    with ledger.database.connect() as connection:
        assert list(named_by(connection, 0, None)) == [one.digest for one in questions]
        assert list(named_by(connection, 1, 2)) == [questions[1].digest]
        entry = json.dumps({"addenda": {"question": questions[0].digest.hex()}}).encode()
        assert named_in(connection, entry) == {"question": [questions[0].digest], "contents": []}


def test_candidates_that_cannot_be_read_are_damage_to_who_removes_and_name_nothing_to_a_check() -> None:
    assert contents_in(None) == contents_in(b"rubbish") == []
    with pytest.raises(LedgerCorrupt, match="candidates of a record cannot be read"):
        named_contents(b"rubbish")
