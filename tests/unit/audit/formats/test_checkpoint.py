"""Signed notes and checkpoints, read strictly."""

from __future__ import annotations

import pytest

from context_engine.audit.formats.checkpoint import (
    Checkpoint,
    Note,
    Signature,
    cosign,
    cosigned_message,
    parse_checkpoint,
    parse_note,
    sign_note,
    verify_note,
)
from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.strict import FormatError

PUBLISHED_KEY = VerifierKey.parse("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")

PUBLISHED_NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
"""Key and note in the specification."""

LOG = SigningKey("audit.bank.example/log", bytes(range(32)))

WITNESS = SigningKey("witness.example/w1", bytes(range(1, 33)))

WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE)

CHECKPOINT = Checkpoint("audit.bank.example/log", 20_852_163, bytes(range(32)))

SIGNED = parse_note(CHECKPOINT.signed(LOG))


def test_the_published_note_is_verified_by_the_published_key() -> None:
    note = parse_note(PUBLISHED_NOTE)
    assert str(note) == PUBLISHED_NOTE
    assert [one.key for one in verify_note(note, [PUBLISHED_KEY])] == [PUBLISHED_KEY]


def test_a_checkpoint_is_three_lines() -> None:
    assert CHECKPOINT.text == "audit.bank.example/log\n20852163\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
    assert parse_checkpoint(CHECKPOINT.signed(LOG)) == CHECKPOINT
    assert parse_checkpoint(Checkpoint("o", 0, bytes(32)).text).size == 0


def test_a_checkpoint_nobody_signed_is_its_text() -> None:
    assert CHECKPOINT.signed() == CHECKPOINT.text
    assert parse_note(CHECKPOINT.text).signatures == ()
    assert verify_note(parse_note(CHECKPOINT.text), [LOG.verifier]) == ()


def test_lines_behind_the_root_are_kept() -> None:
    long = Checkpoint("o", 1, bytes(32), ("more", "and more"))
    assert parse_checkpoint(long.signed(LOG)) == long


def test_a_note_may_hold_empty_lines() -> None:
    note = sign_note("one\n\ntwo\n", LOG)
    assert parse_note(str(note)) == note


def test_signatures_of_unknown_keys_are_ignored() -> None:
    stranger = SigningKey.generate("stranger.example")
    note = sign_note(CHECKPOINT.text, stranger, LOG)
    assert [one.key for one in verify_note(note, [LOG.verifier])] == [LOG.verifier]
    assert verify_note(note, []) == ()


def test_a_key_of_the_same_name_with_another_id_is_unknown() -> None:
    assert verify_note(SIGNED, [SigningKey.generate(LOG.name).verifier]) == ()


def test_a_signature_of_a_known_key_that_fails_rejects_the_note() -> None:
    good = SIGNED.signatures[0]
    forged = good._replace(data=bytes([good.data[0] ^ 1]) + good.data[1:])
    stranger = sign_note(CHECKPOINT.text, WITNESS).signatures[0]
    with pytest.raises(FormatError, match=r"by audit\.bank\.example/log is not valid"):
        verify_note(Note(CHECKPOINT.text, (stranger, forged)), [LOG.verifier, WITNESS.verifier])


def test_two_signatures_of_one_key_reject_the_note() -> None:
    with pytest.raises(FormatError, match="two signatures"):
        verify_note(Note(CHECKPOINT.text, SIGNED.signatures * 2), [LOG.verifier])


def test_a_witness_signs_the_text_and_the_time() -> None:
    note = cosign(SIGNED, WITNESS, 1_679_315_147)
    assert cosigned_message(note.text, 5) == f"cosignature/v1\ntime 5\n{CHECKPOINT.text}".encode()
    own, witness = verify_note(parse_note(str(note)), [LOG.verifier, WITNESS_KEY])
    assert (own.time, witness.key, witness.time) == (None, WITNESS_KEY, 1_679_315_147)


def test_a_cosignature_of_another_time_fails() -> None:
    *_, made = cosign(SIGNED, WITNESS, 1_679_315_147).signatures
    later = made._replace(data=(1_679_315_148).to_bytes(8, "big") + made.data[8:])
    with pytest.raises(FormatError):
        verify_note(Note(SIGNED.text, (later,)), [WITNESS_KEY])


def test_a_cosignature_is_no_signature_of_the_log() -> None:
    *_, made = cosign(SIGNED, LOG, 5).signatures
    assert made.key_id != LOG.verifier.id_bytes
    passed_off = Signature(LOG.name, LOG.verifier.id_bytes, made.data[8:])
    with pytest.raises(FormatError):
        verify_note(Note(SIGNED.text, (passed_off,)), [LOG.verifier])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no newline",
        "text\n\n",
        "text\n\nno dash\n",
        "text\n\n— \n",
        "text\n\n— name\n",
        "text\n\n— name !!!!\n",
        "text\n\n— name AAAAAA==\n",
        "text\n\n— name AAAAAAB=\n",
        "text\n\n— na+me AAAAAAA=\n",
        "text\n\n—  AAAAAAA=\n",
        "text\n\n– name AAAAAAA=\n",
        "text\n\n— name AAAAAAA=",
        "te\rxt\n\n— name AAAAAAA=\n",
        "text\n\n" + "— name AAAAAAA=\n" * 65,
        "text\n\n— name AAAAAAA=\x85— name AAAAAAA=\n",
    ],
)
def test_what_is_no_note_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_note(text)


ROOT = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.mark.parametrize(
    "text",
    [
        f"\n1\n{ROOT}\n",
        f"o\n01\n{ROOT}\n",
        f"o\n-1\n{ROOT}\n",
        f"o\n+1\n{ROOT}\n",
        f"o\n 1\n{ROOT}\n",
        f"o\n1_0\n{ROOT}\n",
        f"o\n١\n{ROOT}\n",
        f"o\n\n{ROOT}\n",
        f"o\n{'9' * 21}\n{ROOT}\n",
        "o\n1\n",
        f"o\n1\n{ROOT[:-1]}\n",
        f"o\n1\n{ROOT[:-2]}9=\n",
        "o\n1\nAAEC\n",
        f"o\n1\n{ROOT} \n",
        f"o\n1\n{ROOT}",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_checkpoint(text)
