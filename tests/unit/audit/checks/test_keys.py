"""Which keys count in a log: those that are trusted, and those that followed one another with their word."""

from __future__ import annotations

import json
from collections.abc import Sequence

from context_engine.audit.checks.keys import KeyEntry, Trust, judge_key_runs, judge_keys, key_entry
from context_engine.audit.checks.rows import KeyRun
from context_engine.audit.formats.keys import SigningKey
from tests.unit.audit.checks.logs import KEY, LATER_KEY, STOLEN_NAME, key_change

FIRST = KeyEntry(0, None, KEY.verifier.text, None)


def change(index: int, was: SigningKey, now: SigningKey, *, endorsed_by: SigningKey | None) -> KeyEntry:
    return key_entry(index, json.loads(key_change(was, now, endorsed_by=endorsed_by)))


def judged(
    entries: Sequence[KeyEntry], *trusted: SigningKey, minimum: int = 0, keyed: bool = True, signed: int = 1000
) -> Trust:
    keys = [key.verifier for key in trusted]
    return judge_keys(entries, keys, minimum, keyed=keyed, lost=False, signed=lambda _keys: signed)


def codes(trust: Trust) -> list[tuple[str, int | None]]:
    return [(one.code, one.where.first) for one in trust.findings]


def test_a_change_that_the_former_key_signed_holds_whichever_of_the_two_is_trusted() -> None:
    entries = [FIRST, change(9, KEY, LATER_KEY, endorsed_by=KEY)]
    for key in (KEY, LATER_KEY):
        trust = judged(entries, key)
        assert trust.findings == ()
        assert trust.key_ids == {KEY.key_id, LATER_KEY.key_id}
        assert trust.keyed_from == 0


def test_a_change_without_a_signature_is_found_and_the_new_key_does_not_count() -> None:
    trust = judged([FIRST, change(9, KEY, STOLEN_NAME, endorsed_by=None)], KEY)
    assert codes(trust) == [("key_changed", 9)]
    assert trust.key_ids == {KEY.key_id}


def test_a_change_that_the_new_key_signed_itself_is_found() -> None:
    trust = judged([FIRST, change(9, KEY, STOLEN_NAME, endorsed_by=STOLEN_NAME)], KEY)
    assert codes(trust) == [("key_changed", 9)]


def test_whoever_trusts_both_keys_vouches_for_a_change_without_a_signature() -> None:
    trust = judged([FIRST, change(9, KEY, LATER_KEY, endorsed_by=None)], KEY, LATER_KEY)
    assert trust.findings == ()


def test_a_change_from_a_key_that_was_not_in_force_is_found() -> None:
    trust = judged([FIRST, change(9, LATER_KEY, STOLEN_NAME, endorsed_by=LATER_KEY)], KEY)
    assert codes(trust) == [("key_changed", 9)]


def test_a_log_of_another_key_is_found() -> None:
    trust = judged([KeyEntry(0, None, STOLEN_NAME.verifier.text, None)], KEY)
    assert codes(trust) == [("key_unknown", 0)]
    assert trust.key_ids == {KEY.key_id}


def test_a_log_without_a_key_is_found_where_one_is_given() -> None:
    trust = judged([], KEY, keyed=False)
    assert codes(trust) == [("key_unknown", None)]


def test_an_unsigned_log_is_nothing_to_find_where_no_key_is_given() -> None:
    trust = judged([], keyed=False)
    assert (trust.findings, trust.keyed_from, trust.verifiers) == ((), None, ())


def test_without_a_trusted_key_those_of_the_log_count() -> None:
    trust = judged([FIRST])
    assert (trust.findings, trust.key_ids) == ((), {KEY.key_id})


def test_a_key_that_is_said_again_after_pruning_counts_from_the_first_record_that_is_left() -> None:
    trust = judged([change(600, KEY, KEY, endorsed_by=KEY)], KEY, minimum=512)
    assert (trust.findings, trust.keyed_from) == ((), 512)


def test_an_entry_that_names_no_key_is_found() -> None:
    assert codes(judged([FIRST, KeyEntry(5, KEY.verifier.text, "rubbish", None)], KEY)) == [("key_changed", 5)]


def test_rows_before_the_first_key_need_no_mac_and_rows_behind_it_do() -> None:
    trust = judged([FIRST._replace(idx=10)], KEY)
    runs = [KeyRun(None, 0, 10), KeyRun(KEY.key_id, 10, 20), KeyRun(None, 20, 23), KeyRun(STOLEN_NAME.key_id, 23, 24)]
    found = [(one.code, one.where.first, one.where.last) for one in judge_key_runs(runs, trust)]
    assert found == [("row_unsigned", 20, 22), ("row_key", 23, None)]


def test_a_key_that_a_log_names_counts_for_nothing_before_it_until_its_holder_has_signed_the_entry() -> None:
    entries = [FIRST._replace(now=STOLEN_NAME.verifier.text), change(9, STOLEN_NAME, KEY, endorsed_by=STOLEN_NAME)]
    trust = judged(entries, KEY, signed=9)
    assert codes(trust) == [("key_unproved", 9)]
    assert trust.key_ids == {KEY.key_id}
    for vouched in (
        judged(entries, KEY, signed=10),
        judged([entries[0], entries[1]._replace(sealed=True)], KEY, signed=0),
    ):
        assert vouched.findings == ()
        assert vouched.key_ids == {KEY.key_id, STOLEN_NAME.key_id}
