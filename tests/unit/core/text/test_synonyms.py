"""Words that stand for one thing."""

from __future__ import annotations

from context_engine.core.text import stems, synonyms


def test_the_words_of_a_group_stand_for_each_other_and_a_word_of_several_groups_for_all_of_them():
    (keep,) = stems(["kept"])
    assert {"retain", "store"} <= {*synonyms(keep).values()}
    (approval,) = stems(["approval"])
    assert {"sign-off", "permission"} <= {*synonyms(approval).values()}


def test_a_word_is_no_synonym_of_itself_in_another_form():
    for stem in stems(["approve", "terminate", "incident"]):
        assert stem not in synonyms(stem)


def test_an_unknown_word_has_none():
    assert synonyms("zeppelin") == {}
