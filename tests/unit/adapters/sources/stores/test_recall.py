"""The recall of approximate searches is watched for each access class alone."""

from __future__ import annotations

import pytest

from context_engine.adapters.sources.stores.recall import LEAST_MEASURED, RecallWatch, SearchWay


def given_up(watch: RecallWatch, class_key: int) -> None:
    for _ in range(LEAST_MEASURED):
        watch.add(class_key, 0.5)


def test_each_class_is_watched_alone() -> None:
    watch = RecallWatch()
    assert watch.recall([1, 2]) is None and not watch.is_low(1)
    watch.add(1, 0.9)
    watch.add(1, 1.0)
    given_up(watch, 2)
    assert watch.recall([1]) == (0.9 + 1.0) / 2 and watch.recall([1, 2]) == 0.5
    assert not watch.is_low(1) and watch.is_low(2) and not watch.is_low(3)


def test_one_search_in_fifty_is_run_both_ways() -> None:
    watch = RecallWatch()
    ways = [watch.next_way(1) for _ in range(101)]
    assert [number for number, way in enumerate(ways) if way is SearchWay.BOTH] == [0, 50, 100]
    assert {*ways} == {SearchWay.BOTH, SearchWay.INDEX}
    assert watch.next_way(2) is SearchWay.BOTH, "the first of each class"


def test_one_hard_question_does_not_condemn_an_index() -> None:
    """.5 first: the next searches are measured too, until five are; 4.5 / 5 = .9 is below the limit of .95."""
    watch = RecallWatch()
    watch.next_way(1)
    for measured, recall in enumerate((0.5, 1.0, 1.0, 1.0, 1.0)):
        assert not watch.is_low(1)
        watch.add(1, recall)
        assert watch.next_way(1) is (SearchWay.BOTH if measured < 4 else SearchWay.EXACT)
    assert watch.recall([1]) == pytest.approx(0.9) and watch.is_low(1)


def test_an_index_that_was_given_up_is_tried_again() -> None:
    watch = RecallWatch()
    watch.next_way(1)
    given_up(watch, 1)
    ways = [watch.next_way(1) for _ in range(50)]
    assert ways == [SearchWay.EXACT] * 49 + [SearchWay.BOTH]
    watch.add(1, 0.9)
    assert watch.is_low(1)
    watch.add(1, 0.96)
    assert not watch.is_low(1) and watch.recall([1]) == 0.96, "judged anew"
    assert watch.next_way(1) is SearchWay.INDEX


def test_the_lowest_is_that_of_the_worst_class() -> None:
    watch = RecallWatch()
    assert watch.lowest() is None
    for class_key, recall in ((1, 0.9), (1, 1.0), (2, 0.97)):
        watch.add(class_key, recall)
    assert watch.lowest() == (0.9 + 1.0) / 2
