"""Rerankers in any form: functions, methods and classes, plain or async, over chunk dicts or chunks."""

from __future__ import annotations

import pytest

from context_engine.adapters.rerankers import reranker_of
from context_engine.core.models import Chunk
from context_engine.errors import InvalidRequest, RerankerError

CHUNKS = [Chunk(content=text, chunk_id=text) for text in ("limit", "holiday", "approval")]


def scores(rank):
    return reranker_of(rank).rerank("approval limit", CHUNKS)


class AsyncReranker:
    """The form of the third design: async, chunk dicts in, the same dicts out in another order."""

    async def rerank(self, query, chunks):
        words = [*query.split(), "holiday"]
        return sorted(chunks, key=lambda chunk: words.index(chunk["content"]))


def test_the_order_of_returned_dicts_counts_if_they_have_no_scores():
    # approval is the first of three, limit the second, holiday the third
    assert scores(AsyncReranker()) == [1 - 1 / 3, 1 - 2 / 3, 1.0]


def test_a_class_is_taken_and_its_name_is_shown():
    assert scores(AsyncReranker) == scores(AsyncReranker())
    assert reranker_of(AsyncReranker).name == "AsyncReranker"


def test_the_same_order_is_no_opinion():
    async def same(_query, chunks):
        return chunks

    assert scores(same) is None


def test_rerank_scores_of_the_dicts_are_the_scores():
    def scored(_query, chunks):
        return [{**chunk, "rerank_score": len(chunk["content"]) / 10} for chunk in reversed(chunks)]

    assert scores(scored) == [0.5, 0.7, 0.8]


def test_a_chunk_that_is_left_out_gets_nothing():
    assert scores(lambda _query, chunks: [{**chunks[2], "rerank_score": 0.9}]) == [0.0, 0.0, 0.9]


def test_a_function_may_return_scores_or_nothing():
    assert scores(lambda _query, chunks: [0.5 for _ in chunks]) == [0.5, 0.5, 0.5]
    assert scores(lambda _query, _chunks: None) is None


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (lambda chunks: [chunks[0], chunks[0]], "returned chunks other than those it was given"),
        (lambda _chunks: [{"content": "new"}], "returned chunks other than those it was given"),
        (lambda _chunks: "best", "returned str instead of a list of scores or chunks"),
    ],
)
def test_anything_else_is_an_error_that_says_what_to_return(returned, problem):
    with pytest.raises(RerankerError, match=problem):
        scores(lambda _query, chunks: returned(chunks))


def test_a_reranker_with_a_name_is_taken_as_it_is():
    class Own:
        name = "own"

        async def rerank(self, query, chunks):
            return [0.1 for _ in chunks]

    own = Own()
    assert reranker_of(own) is own


async def yielding(_query, chunks):
    for _ in chunks:
        yield 0.5


@pytest.mark.parametrize(("given", "problem"), [(yielding, "async generator"), (3, "must be a function .*, got int")])
def test_what_is_no_reranker_is_refused(given, problem):
    with pytest.raises(InvalidRequest, match=problem):
        reranker_of(given)
