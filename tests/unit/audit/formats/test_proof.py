"""The two files that prove: an entry in a log, and a log that only grew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from context_engine.audit.formats.checkpoint import Checkpoint, cosign, parse_checkpoint, parse_note
from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.merkle import leaf_hash, root
from context_engine.audit.formats.strict import FormatError, to_base64
from context_engine.audit.formats.tiles import TileTree, append_leaves
from context_engine.audit.ledger.prove import (
    ConsistencyProof,
    InclusionProof,
    parse_consistency,
    parse_proof,
    verify_growth,
    verify_proof,
)

KEY = SigningKey("audit.bank.example/log", bytes(range(32)))
WITNESS = SigningKey("witness.example/w1", bytes(32))
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE)
ENTRIES = [f'{{"id":"s{number}"}}'.encode() for number in range(600)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
TILES = append_leaves(lambda *_: b"", 0, LEAVES)


def tree(size: int) -> TileTree:
    return TileTree(lambda level, index, width: TILES[level, index][: width * 32], size)


def checkpoint(size: int) -> Checkpoint:
    return Checkpoint(KEY.name, size, root(LEAVES[:size]))


def inclusion(index: int, size: int) -> InclusionProof:
    return InclusionProof(ENTRIES[index], index, tree(size).inclusion_proof(index), checkpoint(size).signed(KEY))


def consistency(old: int, size: int) -> ConsistencyProof:
    return ConsistencyProof(old, tree(size).consistency_proof(old), checkpoint(size).signed(KEY))


def test_a_proof_of_an_entry_has_the_published_form() -> None:
    made = inclusion(2, 5)
    assert made.text == (
        "c2sp.org/tlog-proof@v1\n"
        f"extra {to_base64(ENTRIES[2])}\n"
        "index 2\n"
        f"{to_base64(LEAVES[3])}\n"
        f"{to_base64(root(LEAVES[:2]))}\n"
        f"{to_base64(LEAVES[4])}\n"
        "\n"
        f"{checkpoint(5).signed(KEY)}"
    )
    assert parse_proof(made.text) == made


def test_an_entry_is_proved_under_the_key_of_the_log() -> None:
    found, signed = verify_proof(parse_proof(inclusion(399, 600).text), [KEY.verifier])
    assert found == checkpoint(600)
    assert [one.key for one in signed] == [KEY.verifier]


def test_without_a_known_key_nobody_is_named() -> None:
    assert verify_proof(inclusion(3, 5), []) == (checkpoint(5), ())
    unsigned = InclusionProof(ENTRIES[3], 3, tree(5).inclusion_proof(3), checkpoint(5).signed())
    assert verify_proof(parse_proof(unsigned.text), [KEY.verifier]) == (checkpoint(5), ())


def test_a_log_of_one_entry_is_proved_by_no_hash() -> None:
    made = inclusion(0, 1)
    assert made.path == () and parse_proof(made.text) == made
    verify_proof(made, [KEY.verifier])


def test_cosignatures_are_verified_with_the_rest() -> None:
    made = inclusion(3, 5)
    note = str(cosign(parse_note(made.note), WITNESS, 1_700_000_000))
    _, signed = verify_proof(replace(made, note=note), [WITNESS_KEY, KEY.verifier])
    assert [(one.key.name, one.time) for one in signed] == [(WITNESS.name, 1_700_000_000), (KEY.name, None)]


def test_another_entry_or_index_or_path_proves_nothing() -> None:
    good = inclusion(3, 5)
    for bad in (
        replace(good, entry=ENTRIES[2]),
        replace(good, index=2),
        replace(good, path=good.path[::-1]),
        replace(good, note=checkpoint(6).signed(KEY)),
    ):
        with pytest.raises(FormatError, match="is not at index"):
            verify_proof(bad, [KEY.verifier])


def test_a_proof_that_a_log_grew_has_the_form_a_witness_is_sent() -> None:
    made = consistency(3, 5)
    # from 3 leaves: the third, its sibling, the first two, the fifth
    hashes = (LEAVES[2], LEAVES[3], root(LEAVES[:2]), LEAVES[4])
    assert made.text == "\n".join(("old 3", *map(to_base64, hashes), "", checkpoint(5).signed(KEY)))
    assert parse_consistency(made.text) == made


@pytest.mark.parametrize(("old", "size"), [(0, 600), (1, 600), (255, 256), (256, 600), (257, 600), (600, 600)])
def test_a_log_is_proved_to_have_grown(old: int, size: int) -> None:
    made = parse_consistency(consistency(old, size).text)
    found, signed = verify_growth(made, parse_checkpoint(checkpoint(old).signed(KEY)), [KEY.verifier])
    assert found == checkpoint(size) and len(signed) == 1


def test_a_log_that_did_not_grow_from_there_is_found_out() -> None:
    good, before = consistency(300, 600), checkpoint(300)
    for bad, kept, words in (
        (good, before._replace(root=root(LEAVES[1:301])), "does not begin"),
        (good, before._replace(origin="other"), "of two logs"),
        (good, checkpoint(299), "begins at size 300"),
        (consistency(299, 600), before, "begins at size 299"),
        (replace(good, path=good.path[1:]), before, "does not begin"),
    ):
        with pytest.raises(FormatError, match=words):
            verify_growth(bad, kept, [KEY.verifier])


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("@v1", "@v2"),
        ("extra ", "other "),
        ("extra ", ""),
        ("index 2", "index 02"),
        ("index 2", "index -2"),
        ("index 2\n", ""),
        ("index 2\n", "index 2\n\n"),
        ("index 2\n", "index 2\nAAEC\n"),
        ("\n\n", "\n"),
        ("c2sp", "\nc2sp"),
    ],
)
def test_what_is_no_proof_is_refused(was: str, becomes: str) -> None:
    text = inclusion(2, 5).text.replace(was, becomes, 1)
    with pytest.raises(FormatError):
        verify_proof(parse_proof(text), [KEY.verifier])


@pytest.mark.parametrize(("was", "becomes"), [("old ", "new "), ("old 3", "old 03"), ("old 3\n", "old 3\n\n")])
def test_what_is_no_proof_of_growth_is_refused(was: str, becomes: str) -> None:
    text = consistency(3, 5).text.replace(was, becomes, 1)
    with pytest.raises(FormatError):
        verify_growth(parse_consistency(text), checkpoint(3), [KEY.verifier])
