"""Copies of one text that all stay."""

from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.copies import best_of_lower_copies
from context_engine.core.ranking.dedup import deduplicate


def best(texts, values):
    return best_of_lower_copies(deduplicate([AnalysedText(text) for text in texts], method="exact"), values)


def test_a_copy_has_at_least_the_value_of_those_after_it():
    texts = ["The limit.", "A cake.", "the  limit.", "The limit."]
    assert best(texts, [0.5, 0.9, 0.2, 0.4]) == [0.5, 0.9, 0.4, 0.4]
    assert best(texts, [0.1, 0.2, 0.3, 0.2]) == [0.3, 0.2, 0.3, 0.2]


def test_a_copy_takes_nothing_from_those_before_it():
    assert best(["The limit.", "The limit."], [0.6, 0.5]) == [0.6, 0.5]


def test_other_texts_and_none_are_left_alone():
    assert best([], []) == []
    assert best(["", "", "A cake."], [0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]
