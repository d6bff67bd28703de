"""Whatever the order of appending and integrating, the tree is that of the entries in the order of their indices."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash, root, verify_consistency, verify_inclusion
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.signing import row_mac
from context_engine.audit.values import Composed, Content, Draft
from context_engine.testing.fakes import FixedClock

ORIGIN = "audit.bank.example/retrieval"
KEYRING = Keyring(SigningKey(ORIGIN, bytes(32)))
APPENDS = st.tuples(st.just("append"), st.integers(0, 40), st.lists(st.integers(0, 6), max_size=4))
INTEGRATES = st.tuples(st.just("integrate"), st.none() | st.integers(1, 60), st.just([]))
REOPENS = st.tuples(st.just("reopen"), st.none(), st.just([]))


def draft_of(record_id: str, texts: list[int]) -> Draft:
    contents = tuple(Content("text", b"text %d" % number) for number in texts)

    def compose(digests: object) -> Composed:
        assert isinstance(digests, dict)
        shared = [digests[content.key].hex() for content in contents]
        return Composed(json.dumps({"kind": "search", "id": record_id, "shared": shared}).encode())

    return Draft(record_id=record_id, contents=contents, compose=compose)


def open_ledger(folder: str) -> Ledger:
    return Ledger.open(str(Path(folder, "ledger.db")), origin=ORIGIN, keyring=KEYRING, clock=FixedClock())


@settings(max_examples=8)
@given(st.lists(APPENDS | INTEGRATES | REOPENS, max_size=14))
def test_any_order_of_appending_and_integrating_gives_the_tree_of_the_entries(
    steps: list[tuple[str, int | None, list[int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(folder)
        appended: list[str] = []
        roots = {0: ledger.root()}
        for step, number, texts in steps:
            if step == "append":
                names = [f"{len(appended) + place}" for place in range(number or 0)]
                ledger.append([draft_of(name, texts) for name in names])
                appended += names
            elif step == "integrate":
                before = ledger.size
                waiting = len(appended) - before
                assert ledger.integrate(number) == (waiting if number is None else min(number, waiting))
                roots[ledger.size] = ledger.root()
            else:
                ledger.close()
                ledger = open_ledger(folder)
        ledger.integrate()
        check(ledger, appended, roots)
        ledger.close()


def check(ledger: Ledger, appended: list[str], roots: dict[int, bytes]) -> None:
    stored = list(ledger.entries(0, ledger.size))
    assert [json.loads(one.entry or b"")["id"] for one in stored] == appended
    assert [one.index for one in stored] == list(range(len(appended)))
    leaves = [leaf_hash(one.entry or b"") for one in stored]
    assert [one.leaf for one in stored] == leaves
    key = KEYRING.mac_key(KEYRING.key_id)
    assert key is not None and all(one.mac == row_mac(key, at, one.leaf) for at, one in enumerate(stored))
    size, now = len(leaves), ledger.root()
    tree = TileTree(ledger.tile, size)
    assert now == root(leaves) == tree.root()
    for old, then in roots.items():
        assert then == root(leaves[:old]) == ledger.root(old)
        assert verify_consistency(old, then, size, now, tree.consistency_proof(old))
    for index in range(0, size, 7):
        assert verify_inclusion(leaves[index], index, size, tree.inclusion_proof(index), now)
