"""The recall of approximate searches is watched for each access class alone."""

from __future__ import annotations

from context_engine.adapters.sources.stores.recall import RecallWatch


def test_each_class_is_watched_alone() -> None:
    watch = RecallWatch()
    assert watch.recall([1, 2]) is None and not watch.is_low(1)
    watch.add(1, 0.9)
    watch.add(1, 1.0)
    watch.add(2, 0.5)
    assert watch.recall([1]) == (0.9 + 1.0) / 2 and watch.recall([1, 2]) == 0.5
    assert not watch.is_low(1) and watch.is_low(2) and not watch.is_low(3)


def test_one_search_in_fifty_is_measured() -> None:
    watch = RecallWatch()
    assert [watch.is_due(1) for _ in range(101)].count(True) == 3
    assert watch.is_due(2), "the first of each class"


def test_the_lowest_is_that_of_the_worst_class() -> None:
    watch = RecallWatch()
    assert watch.lowest() is None
    for class_key, recall in ((1, 0.9), (1, 1.0), (2, 0.97)):
        watch.add(class_key, recall)
    assert watch.lowest() == (0.9 + 1.0) / 2
