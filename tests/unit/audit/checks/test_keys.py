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
        judged([entries[0], entries[1]._replace(sealed=KEY.key_id)], KEY, signed=0),
    ):
        assert vouched.findings == ()
        assert vouched.key_ids == {KEY.key_id, STOLEN_NAME.key_id}


def test_a_signature_that_is_no_base64_does_not_endorse_a_change() -> None:
    entry = change(9, KEY, LATER_KEY, endorsed_by=KEY)
    assert codes(judged([FIRST, entry._replace(endorsed="!")], KEY)) == [("key_changed", 9)]
    assert codes(judged([FIRST, entry._replace(endorsed="")], KEY, LATER_KEY)) == [("key_changed", 9)]


def test_a_pruned_log_begins_with_the_key_that_its_first_change_names() -> None:
    third = SigningKey(KEY.name, bytes(range(4, 36)))
    entries = [change(300, KEY, LATER_KEY, endorsed_by=KEY), change(400, LATER_KEY, third, endorsed_by=LATER_KEY)]
    trust = judged(entries, KEY, minimum=256)
    assert trust.findings == ()
    assert trust.key_ids == {KEY.key_id, LATER_KEY.key_id, third.key_id}
    assert trust.keyed_from == 256
    assert codes(judged(entries, KEY)) == [("key_changed", 300), ("key_unknown", 300)]


def test_without_a_trusted_key_the_keys_of_the_log_are_accepted() -> None:
    trust = judged([FIRST, change(9, KEY, LATER_KEY, endorsed_by=KEY)])
    assert trust.findings == ()
    assert trust.verifiers == (KEY.verifier, LATER_KEY.verifier)
    assert trust.keyed_from == 0


def test_macs_of_a_log_that_names_no_key_are_found_unless_the_entry_may_be_lost() -> None:
    assert codes(judged([])) == [("key_changed", 0)]
    assert judged([]).keyed_from is None
    assert codes(judged([], keyed=False)) == []
    assert codes(judged([], minimum=256)) == []
    lost = judge_keys([], [], 0, keyed=True, lost=True, signed=lambda _keys: 0)
    assert lost.findings == ()


def test_a_trusted_key_that_the_log_does_not_name_is_found_unless_the_entry_may_be_lost() -> None:
    assert [(one.code, one.where.first) for one in judged([], KEY).findings] == [("key_unknown", None)]
    assert codes(judged([FIRST], LATER_KEY)) == [("key_unknown", 0)]
    assert codes(judged([], KEY, minimum=256)) == []
    assert codes(judged([], KEY, minimum=256, keyed=False)) == [("key_unknown", None)]
    assert judged([], KEY, minimum=256).keyed_from == 256
    assert judge_keys([], [KEY.verifier], 0, keyed=True, lost=True, signed=lambda _keys: 0).findings == ()


def test_runs_under_no_key_or_a_foreign_one_are_told_from_those_that_are_right() -> None:
    unkeyed = judged([], keyed=False)
    assert list(judge_key_runs([KeyRun(None, 0, 5), KeyRun("other", 5, 6)], unkeyed)) == []
    trust = judged([FIRST._replace(idx=10)], KEY)
    runs = [KeyRun(None, 8, 10), KeyRun(None, 9, 11)]
    assert [(one.where.first, one.where.last) for one in judge_key_runs(runs, trust)] == [(10, None)]
