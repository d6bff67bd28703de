"""An answer read in parts: the first is the context of the whole, the labels go on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from context_engine.core.context import ApproxTokenCounter, from_result, limited, parts_of_result
from context_engine.core.models import Decision
from context_engine.errors import InvalidRequest

COUNTER = ApproxTokenCounter()


class Characters:
    name = "characters"

    def count(self, text: str) -> int:
        return len(text)


def texts(chunk_of: Callable, *sizes: int) -> list:
    return [
        chunk_of(f"c{place}", 1.0 - place / 100, f"Rule {place} on approval: " + f"point{place} " * size)
        for place, size in enumerate(sizes)
    ]


def test_the_first_part_is_the_context_and_labels_go_on(ask, chunk_of):
    result = ask([(1, texts(chunk_of, 60, 60, 60, 60))], query="approval rule")
    parts = list(parts_of_result(result, counter=COUNTER, budget=450))
    assert parts[0].context == from_result(result, counter=COUNTER, budget=450)
    assert [part.context.part for part in parts] == list(range(1, len(parts) + 1))
    assert len(parts) > 1
    labels = [block.label for part in parts for block in part.context.blocks]
    assert labels == [f"[{number}]" for number in range(1, len(labels) + 1)]
    assert f"Cite by label, such as {parts[1].context.blocks[0].label}." in parts[1].context.text
    assert [key for part in parts for key in part.keys] == [(one.source_id, one.chunk_id) for one in result.chunks]
    assert from_result(result, counter=COUNTER, budget=450, part=2) == parts[1].context


def test_each_part_begins_with_the_best_that_had_no_room(ask, chunk_of):
    result = ask([(1, texts(chunk_of, 60, 120, 10))], query="approval rule")
    first, second = parts_of_result(result, counter=COUNTER, budget=450)
    assert [chunk_id for _, chunk_id in first.keys] == ["c0", "c2"]
    assert [chunk_id for _, chunk_id in second.keys] == ["c1"]


def test_a_chunk_longer_than_a_part_stands_cut_and_one_that_fits_in_none_is_said_to_be_there(ask, chunk_of):
    result = ask([(1, texts(chunk_of, 400, 400))], query="approval rule")
    parts = list(parts_of_result(result, counter=COUNTER, budget=300))
    assert [part.context.blocks[0].truncated for part in parts] == [True, True]
    tiny = list(parts_of_result(result, counter=Characters(), budget=90))
    assert [(part.context.blocks, len(part.keys)) for part in tiny] == [((), 1), ((), 1)]
    assert all(part.context.text for part in tiny)


def test_nothing_found_is_one_part(ask):
    (only,) = parts_of_result(ask([(1, [])]), counter=COUNTER)
    assert only.keys == ()
    assert only.context.blocks == ()


def test_out_of_scope_there_is_one_part_with_nothing_to_read(ask, chunk_of):
    result = ask([(1, texts(chunk_of, 5, 5))], query="approval rule")
    result = replace(result, decision=Decision.OUT_OF_SCOPE)
    (only,) = parts_of_result(result, counter=COUNTER, budget=100)
    assert len(only.keys) == len(result.chunks)


@pytest.mark.parametrize("part", [0, -1, True, 1.0, "1", 3])
def test_a_part_that_there_is_not_is_refused(ask, chunk_of, part):
    result = ask([(1, texts(chunk_of, 60, 60, 60))], query="approval rule")
    assert len(list(parts_of_result(result, counter=COUNTER, budget=450))) == 2
    with pytest.raises(InvalidRequest):
        from_result(result, counter=COUNTER, budget=450, part=part)


def test_both_limits_hold_in_every_part(ask, chunk_of):
    result = ask([(1, texts(chunk_of, *[50] * 8))], query="approval rule")
    counter, budget = limited(COUNTER, 400, 1500)
    for part in parts_of_result(result, counter=counter, budget=budget):
        assert len(part.context.text) <= 1500
        assert COUNTER.count(part.context.text) <= 400


@pytest.mark.parametrize(("share", "texts_read"), [(0.25, [True, True]), (0.0, [False, False])])
def test_untrusted_chunks_fill_a_later_part_unless_none_may_be_read(ask, chunk_of, share, texts_read):
    result = ask([(5, texts(chunk_of, 60, 60))], query="approval rule", context_untrusted_share=share)
    parts = list(parts_of_result(result, counter=COUNTER, budget=450))[-2:]
    assert [bool(part.context.blocks) for part in parts] == texts_read
    if share:
        assert parts[-1].context.blocks[0].truncated is False
        assert COUNTER.count(parts[-1].context.text) > 0.25 * 450


def test_a_long_answer_is_dealt_out_whole(ask, chunk_of):
    result = ask([(1, texts(chunk_of, *[30] * 40))], query="approval rule", stage2_top_k=40)
    parts = list(parts_of_result(result, counter=COUNTER, budget=300))
    assert sorted(key for part in parts for key in part.keys) == sorted(
        (one.source_id, one.chunk_id) for one in result.chunks
    )
    assert len(result.chunks) == 40
