"""Twenty-five tamperings by three knowledges, checked alone and with a checkpoint kept outside.

An editor changes rows by hand. The database's administrator also recomputes all that follows without the key. The
machine's administrator has the key too and writes the log anew with the program itself. The table of the guide
"Audit" says the same: `alone` is found by the ledger itself, `head` only with a checkpoint kept outside, `never` is
not found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import pytest

from context_engine.audit.checks.verify import Outside, verify
from context_engine.audit.formats.keys import SigningKey
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.publish import Rhythm, publish
from context_engine.audit.values import Draft
from context_engine.testing.fakes import FixedClock
from tests.unit.audit.checks.attacks import ATTACKS, Case
from tests.unit.audit.checks.logs import KEY, STOLEN_NAME, Hand, copied, make_log, open_log, search

RECORDS = 40
Result = Literal["alone", "head", "never"]
Do = Callable[[Case], object]
FORGET = "DELETE FROM meta WHERE name = 'publication'"


class Tampering(NamedTuple):
    """What is done by each knowledge, and where it is found; None: the knowledge changes nothing about it."""

    editor: tuple[Do, Result]
    database: tuple[Do, Result] | None = None
    machine: tuple[Do, Result] | None = None


def _drafts() -> list[Draft]:
    return [search(number) for number in range(1, RECORDS)]


def _by_program(change: Callable[[list[Draft]], Sequence[Draft]], key: SigningKey = KEY) -> Do:
    """Write the ledger anew with the program and a key."""

    def do(case: Case) -> None:
        for suffix in ("", "-wal", "-shm"):
            case.hand.place.with_name(case.hand.place.name + suffix).unlink(missing_ok=True)
        make_log(case.hand.place, 1, key=key, checkpoints=1)
        with open_log(case.hand.place, key) as ledger:
            drafts = list(change(_drafts()))
            if drafts:
                ledger.append(drafts)
            ledger.checkpoint()

    return do


def _attack(name: str) -> Do:
    (attack,) = [attack for attack in ATTACKS if attack.name == name]
    return attack.do


def _sql(statement: str, *more: str) -> Do:
    def do(case: Case) -> None:
        for one in (statement, *more):
            case.hand(one)

    return do


def _both(*steps: Do) -> Do:
    def do(case: Case) -> None:
        for step in steps:
            step(case)

    return do


def _put_back(case: Case) -> None:
    assert case.erased is not None
    salt, data, kind = case.erased
    digest = hashlib.sha256(salt + data).digest()
    case.hand("INSERT INTO addendum VALUES (?, ?, ?, ?, NULL)", digest, kind, salt, data)


def _cut(case: Case) -> None:
    """Cut five records off, with everything that only they name."""
    case.hand.cut(RECORDS - 5)
    case.hand(FORGET)
    with open_log(case.hand.place) as ledger:
        unnamed = [
            finding.where.name or "" for finding in verify(ledger).findings if finding.code == "addendum_unnamed"
        ]
    case.hand.many("DELETE FROM addendum WHERE digest = ?", [(bytes.fromhex(digest),) for digest in unnamed])


def _go_on(case: Case) -> None:
    with open_log(case.hand.place) as ledger:
        ledger.append([search(999)])
        ledger.checkpoint()


def _other_text(drafts: list[Draft]) -> list[Draft]:
    return [search(number, shared=39) for number in range(1, len(drafts) + 1)]


OLD = _attack("bring an old copy back")
GROWN = _attack("bring an old copy back, and let it grow again")

TAMPERINGS: dict[str, Tampering] = {
    "edit a record": Tampering(
        (_attack("edit an entry"), "alone"),
        (_attack("edit an entry, its leaf hash, its look-up row and all tiles"), "alone"),
        (_by_program(lambda drafts: [*drafts[:9], search(999), *drafts[10:]]), "head"),
    ),
    "delete a record": Tampering(
        (_attack("delete a row in the middle"), "alone"),
        (_attack("delete a row, its look-up rows, and close the gap"), "alone"),
        (_by_program(lambda drafts: drafts[:9] + drafts[10:]), "head"),
    ),
    "insert a record": Tampering(
        (_attack("put a row far behind the others"), "alone"),
        (_attack("put a row in, and move those behind it"), "alone"),
        (_by_program(lambda drafts: [*drafts[:9], search(999), *drafts[9:]]), "head"),
    ),
    "swap two records": Tampering(
        (_attack("swap two rows"), "alone"),
        (_attack("swap two rows"), "alone"),
        (_by_program(lambda drafts: [*drafts[:9], drafts[10], drafts[9], *drafts[11:]]), "head"),
    ),
    "write a record twice": Tampering(
        (_attack("write a record down a second time"), "alone"),
        (_attack("add a row at the end, with the MAC of another"), "alone"),
        (_by_program(lambda drafts: [*drafts[:9], search(998), *drafts[9:]]), "head"),
    ),
    "add an invented record at the end": Tampering(
        (_attack("let a record wait that nobody wrote"), "alone"),
        (_attack("add a row at the end, with the MAC of another"), "alone"),
        (_go_on, "never"),
    ),
    "cut off the last records": Tampering(
        (_attack("delete the last rows alone"), "alone"),
        (_cut, "head"),
        (_by_program(lambda drafts: drafts[:20]), "head"),
    ),
    "cut off everything": Tampering(
        (_sql("DELETE FROM log"), "alone"),
        (_both(_attack("cut everything off"), _sql(FORGET)), "head"),
        (_by_program(lambda _: []), "head"),
    ),
    "restore an older copy": Tampering((OLD, "head"), (OLD, "head"), (OLD, "head")),
    "restore an older copy and go on": Tampering((GROWN, "head"), (GROWN, "head"), (GROWN, "head")),
    "write the log anew under another key": Tampering(
        (_attack("write everything anew under another key"), "alone"),
        (_attack("write everything anew under another key"), "alone"),
        (_by_program(lambda drafts: drafts, STOLEN_NAME), "head"),
    ),
    "take the signatures away": Tampering(
        (_attack("take every MAC and signature away"), "alone"),
        (_attack("take every MAC and signature away"), "alone"),
    ),
    "edit a question": Tampering(
        (_attack("edit the data of an addendum"), "alone"),
        (_attack("swap the data of two addenda"), "alone"),
        (_by_program(lambda drafts: [*drafts[:9], search(997), *drafts[10:]]), "head"),
    ),
    "delete a question": Tampering(
        (_attack("delete a question silently"), "alone"),
        (_attack("delete a question and say that an entry erased it"), "alone"),
        (_by_program(lambda drafts: [*drafts[:9], search(10, small=True), *drafts[10:]]), "head"),
    ),
    "edit the text of a chunk": Tampering(
        (_attack("edit the text of a chunk"), "alone"),
        (_attack("let a text be named in the place of another"), "alone"),
        (_by_program(_other_text), "head"),
    ),
    "put an erased question back": Tampering((_put_back, "alone")),
    "edit a look-up row": Tampering((_attack("edit a look-up row"), "alone")),
    "delete a look-up row": Tampering((_attack("delete a look-up row"), "alone")),
    "add a look-up row": Tampering((_attack("put a look-up row in"), "alone")),
    "delete a published checkpoint": Tampering(
        (_sql(f"DELETE FROM checkpoint WHERE size >= {RECORDS}"), "alone"),
        (_sql(f"DELETE FROM checkpoint WHERE size >= {RECORDS}", FORGET), "never"),
    ),
    "change the time of the newest checkpoint": Tampering(
        (_sql(f"UPDATE checkpoint SET written = 1 WHERE size >= {RECORDS}"), "alone"),
        (_sql(f"UPDATE checkpoint SET written = 1 WHERE size >= {RECORDS}", FORGET), "never"),
    ),
    "forge a checkpoint": Tampering(
        (_attack("forge a checkpoint without a signature"), "alone"),
        (_attack("forge a checkpoint with a signature of one's own"), "alone"),
    ),
    "edit or delete a tile": Tampering((_attack("delete a tile"), "alone")),
    "remove a record that waits": Tampering((_sql("DELETE FROM pending"), "never")),
    "add a trigger": Tampering((_attack("have rows changed as they are written"), "alone")),
}
KNOWLEDGES = ("editor", "database", "machine")
CASES = [
    (name, knowledge)
    for name, tampering in TAMPERINGS.items()
    for knowledge in KNOWLEDGES
    if getattr(tampering, knowledge)
]


class Made(NamedTuple):
    place: Path
    early: Path
    head: str
    erased: tuple[bytes, bytes, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A ledger with an erased question, published checkpoints, an older copy, and its head kept outside."""
    folder = tmp_path_factory.mktemp("ledger")
    place, early = folder / "ledger.db", folder / "early.db"
    make_log(place, RECORDS // 2, checkpoints=1)
    copied(place, early)
    ((salt, data, kind),) = Hand(place)("SELECT salt, data, kind FROM addendum WHERE kind = 'question' LIMIT 1")
    assert isinstance(salt, bytes) and isinstance(data, bytes)
    with open_log(place) as ledger:
        name = f"search-{int(data.split()[-1].rstrip(b'?')):07d}"
        erase(ledger, Wanted(record_ids=(name,)), reason="asked for", by="the officer", clock=FixedClock())
    make_log(place, RECORDS, checkpoints=1)
    with open_log(place) as ledger:
        published = publish(ledger, Rhythm(records=1, seconds=1.0), ledger.clock, at_once=True)
    assert published is not None and published.size == RECORDS
    return Made(place, early, published.note, (salt, data, str(kind)))


def test_the_list_has_twenty_five_tamperings() -> None:
    assert len(TAMPERINGS) == 25


@pytest.mark.slow
@pytest.mark.parametrize(("name", "knowledge"), CASES)
def test_a_tampering_is_found_where_the_table_says(made: Made, tmp_path: Path, name: str, knowledge: str) -> None:
    do, result = getattr(TAMPERINGS[name], knowledge)
    hand = copied(made.place, tmp_path / "ledger.db")
    do(Case(hand, Random(f"{name} {knowledge}"), made.early, made.erased))
    anew = name == "write the log anew under another key" and knowledge == "machine"
    with open_log(hand.place, STOLEN_NAME if anew else KEY) as ledger:
        alone, with_head = verify(ledger), verify(ledger, outside=[Outside("kept", made.head)])
    assert (alone.consistent, with_head.consistent) == {
        "alone": (False, False),
        "head": (True, False),
        "never": (True, True),
    }[result]


@pytest.mark.slow
def test_a_log_made_anew_on_the_machine_is_found_by_the_key_of_the_old_one(made: Made, tmp_path: Path) -> None:
    hand = copied(made.place, tmp_path / "ledger.db")
    _by_program(lambda drafts: drafts, STOLEN_NAME)(Case(hand, Random(1), made.early, made.erased))
    with open_log(hand.place, STOLEN_NAME) as ledger:
        assert verify(ledger).verdict == "self-consistent"
        assert verify(ledger, trusted=[KEY.verifier]).verdict == "not sound"
