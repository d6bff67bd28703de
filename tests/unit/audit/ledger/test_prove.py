"""Proofs from a ledger are checked before they are given away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import update

from context_engine.audit.formats.checkpoint import Checkpoint, parse_checkpoint
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.prove import (
    parse_consistency,
    parse_proof,
    prove_growth,
    prove_record,
    verify_growth,
    verify_proof,
)
from context_engine.audit.ledger.schema import log, meta, tile
from context_engine.audit.values import Draft
from context_engine.errors import AuditError, LedgerCorrupt, RecordNotFound

Open = Callable[..., Ledger]
DraftOf = Callable[..., Draft]


def filled(open_ledger: Open, draft: DraftOf, count: int, keyring: Keyring | None) -> Ledger:
    ledger = open_ledger(keyring)
    ledger.append([draft(f"s{number}") for number in range(count)])
    return ledger


def test_a_record_is_proved(open_ledger: Open, draft: DraftOf, keyring: Keyring) -> None:
    ledger = filled(open_ledger, draft, 300, keyring)
    checkpoint = ledger.checkpoint()
    for index in (0, 255, 256, 299):
        proof = parse_proof(prove_record(ledger, f"s{index}", checkpoint).text)
        found, signed = verify_proof(proof, keyring.verifiers)
        assert (proof.index, found.size, len(signed)) == (index, 300, 1)


def test_without_a_key_a_record_is_proved_under_what_nobody_signed(open_ledger: Open, draft: DraftOf) -> None:
    ledger = filled(open_ledger, draft, 3, None)
    proof = prove_record(ledger, "s1", ledger.checkpoint())
    assert verify_proof(proof, [])[1] == ()


def test_there_is_no_proof_of_what_is_not_there_or_newer_than_the_checkpoint(
    open_ledger: Open, draft: DraftOf, keyring: Keyring
) -> None:
    ledger = filled(open_ledger, draft, 3, keyring)
    checkpoint = ledger.checkpoint()
    with pytest.raises(RecordNotFound):
        prove_record(ledger, "s3", checkpoint)
    ledger.append([draft("s3")])
    with pytest.raises(AuditError, match="is newer than the newest checkpoint, of 3 records"):
        prove_record(ledger, "s3", checkpoint)
    ledger.integrate()
    with pytest.raises(AuditError, match="is newer than the newest checkpoint, of 3 records"):
        prove_record(ledger, "s3", checkpoint)
    prove_record(ledger, "s3", ledger.checkpoint())


def test_there_is_no_proof_of_a_record_that_was_pruned(open_ledger: Open, draft: DraftOf, keyring: Keyring) -> None:
    ledger = filled(open_ledger, draft, 3, keyring)
    checkpoint = ledger.checkpoint()
    with ledger.database.begin() as connection:
        connection.execute(update(log).where(log.c.idx == 1).values(entry=None))
    with pytest.raises(AuditError, match="was pruned"):
        prove_record(ledger, "s1", checkpoint)


def test_what_was_tampered_with_is_not_proved(open_ledger: Open, draft: DraftOf, keyring: Keyring) -> None:
    ledger = filled(open_ledger, draft, 3, keyring)
    checkpoint = ledger.checkpoint()
    edited = b'{"v":1,"id":"s1","edited":1}'
    with ledger.database.begin() as connection:
        connection.execute(update(log).where(log.c.idx == 1).values(entry=edited))
    with pytest.raises(LedgerCorrupt, match="was altered"):
        prove_record(ledger, "s1", checkpoint)
    with ledger.database.begin() as connection:
        connection.execute(update(log).where(log.c.idx == 1).values(leaf=leaf_hash(edited)))
    with pytest.raises(LedgerCorrupt, match="is not at index 1"):
        prove_record(ledger, "s1", checkpoint)
    with ledger.database.begin() as connection:
        connection.execute(update(tile).values(hashes=b"x" * 96))
    with pytest.raises(LedgerCorrupt):
        prove_record(ledger, "s0", checkpoint)


def test_growth_is_proved_from_every_checkpoint(open_ledger: Open, draft: DraftOf, keyring: Keyring) -> None:
    ledger = open_ledger(keyring)
    kept = [ledger.checkpoint()]
    for number in (1, 255, 1, 1, 60):
        ledger.append([draft(f"s{ledger.size}-{place}") for place in range(number)])
        kept.append(ledger.checkpoint())
    assert [one.size for one in kept] == [0, 1, 256, 257, 258, 318]
    for one in kept:
        before = parse_checkpoint(one.note)
        proof = parse_consistency(prove_growth(ledger, before, kept[-1]).text)
        after, signed = verify_growth(proof, before, keyring.verifiers)
        assert (after.size, len(signed)) == (318, 1)


def test_a_log_that_was_cut_or_rewritten_is_not_proved_to_have_grown(
    open_ledger: Open, draft: DraftOf, keyring: Keyring
) -> None:
    ledger = filled(open_ledger, draft, 5, keyring)
    checkpoint = ledger.checkpoint()
    before = parse_checkpoint(checkpoint.note)
    with pytest.raises(LedgerCorrupt, match="has 5 records and had 6"):
        prove_growth(ledger, before._replace(size=6), checkpoint)
    with pytest.raises(LedgerCorrupt, match="does not begin with"):
        prove_growth(ledger, before._replace(size=4), checkpoint)
    with pytest.raises(LedgerCorrupt, match="does not begin with"):
        prove_growth(ledger, before._replace(root=bytes(32)), checkpoint)
    with pytest.raises(AuditError, match=r"is of the log 'other\.example'"):
        prove_growth(ledger, Checkpoint("other.example", 5, before.root), checkpoint)


def test_growth_from_below_what_was_pruned_cannot_be_proved(
    open_ledger: Open, draft: DraftOf, keyring: Keyring
) -> None:
    ledger = filled(open_ledger, draft, 300, keyring)
    checkpoint = ledger.checkpoint()
    with ledger.database.begin() as connection:
        connection.execute(update(meta).where(meta.c.name == "minimum_index").values(value="256"))
    with pytest.raises(AuditError, match="below 256 were pruned"):
        prove_growth(ledger, Checkpoint(ledger.origin, 100, bytes(32)), checkpoint)


def test_a_checkpoint_that_another_key_signed_is_proved_under_a_former_key(
    open_ledger: Open, draft: DraftOf, keyring: Keyring
) -> None:
    filled(open_ledger, draft, 3, keyring).checkpoint()
    new = SigningKey.generate(keyring.current.name)
    ledger = open_ledger(Keyring(new, (keyring.current,)))
    proof = prove_record(ledger, "s1", ledger.checkpoint())  # of a size that was signed before
    assert [one.key for one in verify_proof(proof, ledger.keyring.verifiers)[1]] == [keyring.current.verifier]
