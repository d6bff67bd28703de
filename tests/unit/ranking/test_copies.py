"""Copies of one text that all stay."""

from context_engine.ranking.copies import best_of_lower_copies


def test_a_copy_has_at_least_the_value_of_those_after_it():
    texts = ["The limit.", "A cake.", "the  limit.", "The limit."]
    assert best_of_lower_copies(texts, [0.5, 0.9, 0.2, 0.4]) == [0.5, 0.9, 0.4, 0.4]
    assert best_of_lower_copies(texts, [0.1, 0.2, 0.3, 0.2]) == [0.3, 0.2, 0.3, 0.2]


def test_a_copy_takes_nothing_from_those_before_it():
    assert best_of_lower_copies(["The limit.", "The limit."], [0.6, 0.5]) == [0.6, 0.5]


def test_other_texts_and_none_are_left_alone():
    assert best_of_lower_copies([], []) == []
    assert best_of_lower_copies(["", "", "A cake."], [0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]
