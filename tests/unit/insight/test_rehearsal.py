"""What a draft changes of an answer: the gravest change is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from context_engine.core.models import Decision, SearchResult
from context_engine.insight.rehearsal import AnswerChange, rehearsed


@pytest.fixture
def result(ask: Any, chunk_of: Any) -> SearchResult:
    texts = ("The desk reports each excess.", "A trader confirms each trade.", "The board sets all limits.")
    made: SearchResult = ask([(2, [chunk_of(str(n), 0.9 - n / 10, text) for n, text in enumerate(texts)])])
    assert len(made.chunks) == 3
    return made


def test_the_same_answer_is_the_same(result: SearchResult) -> None:
    assert rehearsed(result, result) == (AnswerChange.SAME, ("answered", "answered"), (), ())


def test_each_change_by_its_name(result: SearchResult) -> None:
    one, two, three = result.chunks
    assert rehearsed(result, replace(result, chunks=(two, one, three))).change is AnswerChange.ORDER
    assert (
        rehearsed(result, replace(result, chunks=(replace(one, final=0.1), two, three))).change is AnswerChange.SCORES
    )
    gained = rehearsed(replace(result, chunks=(one, two)), result)
    assert (gained.change, [text.chunk_id for text in gained.gained]) == (AnswerChange.GAINED, [three.chunk_id])
    lost = rehearsed(result, replace(result, chunks=(one,)))
    assert (lost.change, [text.chunk_id for text in lost.lost]) == (AnswerChange.LOST, [two.chunk_id, three.chunk_id])
    flipped = rehearsed(result, replace(result, chunks=(), decision=Decision.OUT_OF_SCOPE))
    assert (flipped.change, flipped.decisions, len(flipped.lost)) == (
        AnswerChange.DECISION,
        ("answered", "out_of_scope"),
        3,
    )
