"""Checkpoints against a log: which match, which do not, and what each finding says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from context_engine.audit.checks.checkpoints import (
    CheckedCheckpoints,
    CheckedLog,
    CheckpointNote,
    check_checkpoints,
    signed_size,
    size_of,
)
from context_engine.audit.checks.findings import Place
from context_engine.audit.checks.keys import Trust
from context_engine.audit.formats.checkpoint import Checkpoint, cosign, parse_note
from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from tests.unit.audit.checks.logs import KEY, ORIGIN, STOLEN_NAME

ROOTS = {size: bytes([size]) * 32 for size in (2, 4, 6, 8)}
KEYED = Trust(verifiers=(KEY.verifier,), keyed_from=0, named=frozenset(), findings=())
UNKEYED = Trust(verifiers=(), keyed_from=None, named=frozenset(), findings=())
WITNESS = SigningKey("witness.example/w1", bytes(range(3, 35)))
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE)


def log(roots: Mapping[int, bytes] = ROOTS, *, size: int = 8, minimum: int = 0) -> CheckedLog:
    return CheckedLog(origin=ORIGIN, size=size, minimum=minimum, roots={at: (root,) for at, root in roots.items()})


def note(size: int, *keys: SigningKey, root: bytes | None = None, origin: str = ORIGIN) -> str:
    return Checkpoint(origin, size, ROOTS.get(size, bytes(32)) if root is None else root).signed(*keys)


def own(size: int, text: str) -> CheckpointNote:
    return CheckpointNote("checkpoint", size, text)


def outside(text: str) -> CheckpointNote:
    return CheckpointNote("outside", None, text, "kept")


def checked(*notes: CheckpointNote, trust: Trust = KEYED, of: CheckedLog | None = None) -> CheckedCheckpoints:
    return check_checkpoints(notes, of or log(), trust, [WITNESS_KEY])


def findings(*notes: CheckpointNote, trust: Trust = KEYED, of: CheckedLog | None = None) -> list[tuple[str, str]]:
    return [(one.code, str(one.where)) for one in checked(*notes, trust=trust, of=of).findings]


def test_checkpoints_that_match_are_no_finding_and_the_largest_is_told() -> None:
    result = checked(own(4, note(4, KEY)), own(2, note(2, KEY)), outside(note(6, KEY)))
    assert result.findings == []
    assert (result.fitting, result.outside, result.signed, result.unchecked) == ([2, 4], [6], 6, 0)


def test_an_unsigned_checkpoint_of_a_log_without_a_key_matches_and_proves_no_signature() -> None:
    result = checked(own(4, note(4)), trust=UNKEYED)
    assert (result.findings, result.fitting, result.signed) == ([], [4], None)


@pytest.mark.parametrize("text", ["rubbish", "a\nb\n", note(4) + "\n"])
def test_a_note_that_is_malformed_is_found(text: str) -> None:
    assert findings(own(4, text)) == [("checkpoint_format", "checkpoint 4")]


def test_a_checkpoint_under_another_size_is_found_and_counts_for_nothing() -> None:
    result = checked(own(5, note(4, KEY)))
    assert [(one.code, one.where, one.problem) for one in result.findings] == [
        ("checkpoint_format", Place("checkpoint", 5), "the checkpoint is stored under another size than its own, 4")
    ]
    assert result.fitting == []


def test_a_checkpoint_of_another_log_is_found() -> None:
    assert findings(outside(note(4, KEY, origin="other.example/log"))) == [("checkpoint_origin", "outside 4 (kept)")]


def keyed_from(index: int) -> Trust:
    return Trust(verifiers=(KEY.verifier,), keyed_from=index, named=frozenset(), findings=())


@pytest.mark.parametrize("text", [note(6), note(6, STOLEN_NAME), note(4, KEY).replace("\n4\n", "\n6\n")])
def test_a_checkpoint_without_a_valid_signature_of_a_trusted_key_is_found(text: str) -> None:
    assert findings(own(6, text)) == [("checkpoint_signature", "checkpoint 6")]


def test_a_signature_is_needed_once_the_log_has_a_key() -> None:
    assert findings(own(4, note(4)), trust=keyed_from(4)) == []
    assert findings(own(6, note(6)), trust=keyed_from(4)) == [("checkpoint_signature", "checkpoint 6")]


def test_an_unsigned_checkpoint_kept_elsewhere_proves_nothing_once_keys_are_trusted() -> None:
    assert findings(own(4, note(4)), trust=keyed_from(9)) == []
    assert findings(outside(note(4)), trust=keyed_from(9)) == [("checkpoint_signature", "outside 4 (kept)")]
    assert findings(outside(note(4)), trust=UNKEYED) == []


def test_cosignatures_tell_how_far_a_witness_has_seen_and_a_false_one_is_found() -> None:
    seen = [str(cosign(parse_note(note(size, KEY)), WITNESS, 1_800_000_000)) for size in (2, 6)]
    assert checked(own(6, seen[1]), own(2, seen[0])).witnessed == {WITNESS_KEY: 6}
    assert checked(own(2, seen[0])).witnessed == {WITNESS_KEY: 2}
    false = str(cosign(parse_note(note(4, KEY)), WITNESS, 1_800_000_000)).split("\n")
    false[-2] = seen[0].split("\n")[-2]
    result = checked(own(4, "\n".join(false)))
    assert [(one.code, str(one.where)) for one in result.findings] == [("cosignature", "checkpoint 4")]
    assert (result.fitting, result.witnessed) == ([4], {})


def test_a_checkpoint_of_more_records_than_there_are_shows_how_many_were_cut_off() -> None:
    (one,) = checked(outside(note(11, KEY))).findings
    assert (one.code, one.where) == ("truncated", Place("outside", 11, name="kept"))
    assert "had 11 records and has 8: the last 3 were cut off" in one.problem
    assert findings(outside(note(8, KEY))) == []


def test_a_checkpoint_of_a_pruned_size_is_not_checked_unless_its_root_can_be_computed() -> None:
    pruned = log({6: ROOTS[6], 8: ROOTS[8]}, minimum=5)
    result = checked(own(4, note(4, KEY)), own(6, note(6, KEY)), of=pruned)
    assert (result.findings, result.fitting, result.unchecked) == ([], [6], 1)
    result = checked(own(4, note(4, KEY, root=bytes(32))), of=log(minimum=5))
    assert ([one.code for one in result.findings], result.unchecked) == (["checkpoint_root"], 0)
    assert findings(own(4, note(4, KEY)), of=log({}, minimum=4)) == [("checkpoint_root", "checkpoint 4")]


def wrong(size: int, *keys: SigningKey) -> str:
    return note(size, *keys, root=bytes(32))


def test_a_mismatch_is_narrowed_by_the_largest_firm_checkpoint_before_it() -> None:
    (one,) = checked(own(2, note(2, KEY)), own(4, note(4, KEY)), own(6, wrong(6, KEY)), own(8, note(8, KEY))).findings
    assert (one.code, one.where) == ("checkpoint_root", Place("checkpoint", 6))
    assert "some of the records 4 to 5 are not" in one.problem


def test_an_unsigned_checkpoint_of_the_ledger_narrows_nothing_and_one_kept_elsewhere_does() -> None:
    (one,) = checked(own(4, note(4)), own(6, wrong(6)), trust=UNKEYED).findings
    assert "records 0 to 5" in one.problem
    (one,) = checked(outside(note(4)), own(6, wrong(6)), trust=UNKEYED).findings
    assert "records 4 to 5" in one.problem


def test_a_match_at_the_same_size_does_not_vouch_for_the_records_before_it() -> None:
    (one,) = checked(outside(note(6, KEY)), own(6, wrong(6, KEY))).findings
    assert "records 0 to 5" in one.problem


def test_neighbouring_mismatches_are_one_finding_and_those_kept_elsewhere_are_a_fork() -> None:
    result = checked(own(4, wrong(4, KEY)), own(6, wrong(6, KEY)), outside(wrong(8, KEY)))
    assert [(one.code, one.where) for one in result.findings] == [
        ("checkpoint_root", Place("checkpoint", 4, 6)),
        ("fork", Place("outside", 8, name="kept")),
    ]


def test_the_size_that_keys_have_signed_is_the_largest_that_matches() -> None:
    keys = [KEY.verifier]
    notes = [own(6, note(6, KEY)), own(2, note(2, KEY)), own(4, "rubbish"), own(8, wrong(8, KEY))]
    assert signed_size(notes, log(), keys) == 6
    assert signed_size([own(8, note(8, STOLEN_NAME)), own(4, note(4))], log(), keys) == 0
    assert signed_size([own(8, note(8, KEY, origin="other.example/log"))], log(), keys) == 0
    assert signed_size([], log(), keys) == 0
    assert (size_of(note(4)), size_of("rubbish")) == (4, None)
