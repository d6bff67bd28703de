"""The refill: when it runs, which sources it calls again, and what it never takes away."""

from __future__ import annotations

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import Chunk, NoticeCode, Outcome
from context_engine.errors import RerankerError, SourceUnavailable

COMMON = {"stage1_top_k": 4, "stage2_top_k": 3}
FEW = {**COMMON, "max_per_document": 1}
WORDS = ["alder", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "ironwood", "juniper"]


class Shelf:
    """A source that gives its best chunks, as many as requested, and remembers how many those were."""

    def __init__(self, chunks, fails_when_called_again=False):
        self.chunks, self.requested, self.fails = list(chunks), [], fails_when_called_again

    def __call__(self, _query, _domain, top_k):
        self.requested.append(top_k)
        if self.fails and len(self.requested) > 1:
            raise SourceUnavailable("HTTP 503", retryable=True)
        return self.chunks[:top_k]


def books(chunk_of, *documents):
    """One chunk for each name, of that document, ever less relevant."""
    return [
        chunk_of(f"{name}{place}", 0.9 - 0.05 * place, f"The {WORDS[place]} rule of {name}.", document_id=name)
        for place, name in enumerate(documents)
    ]


def ids(result):
    return [chunk.chunk_id for chunk in result.chunks]


def test_a_limit_per_document_is_refilled_from_deeper_down(ask, chunk_of):
    """Of the first four three are of A: with one each, two remain. 5 x 4 = 20 candidates have a third document."""
    shelf = Shelf(books(chunk_of, "A", "A", "A", "B", "A", "A", "C"))
    result = ask([(2, shelf)], **FEW)
    assert shelf.requested == [4, 20]
    assert ids(result) == ["A0", "B3", "C6"]
    assert len(result.fates) == 7 and (result.sources[0].asked, result.sources[0].chunks) == (20, 7)
    assert [stage.entered for stage in result.stages if stage.name == "recall"] == [7]
    assert recompute(result).chunks == result.chunks and stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_merged_copies_are_refilled(ask, chunk_of):
    same = "Each approval is written down by the desk that gives it."
    copies = [chunk_of(f"copy{place}", 0.95, same) for place in range(4)]
    shelf = Shelf([*copies, *books(chunk_of, "A", "B", "C")])
    result = ask([(2, shelf)], **COMMON)
    assert shelf.requested == [4, 20] and ids(result) == ["copy0", "A0", "B1"]


@pytest.mark.parametrize(
    ("documents", "settings", "why"),
    [
        ("AABCDE", {"max_per_document": 1}, "full: A, B and C are among the first four"),
        ("AAA", {"max_per_document": 1}, "the source has given all it has"),
        ("AAAAB", {}, "nothing is taken away"),
        (
            "AAAAB",
            {"max_per_document": 1, "min_relevance_score": 0.82},
            "two are below .82, one is taken away",
        ),
    ],
)
def test_one_pass_is_enough(ask, chunk_of, documents, settings, why):
    shelf = Shelf(books(chunk_of, *documents))
    ask([(2, shelf)], **{**COMMON, **settings})
    assert shelf.requested == [4], why


def test_only_sources_with_more_to_give_are_called_again(ask, chunk_of):
    large, small = Shelf(books(chunk_of, *"AAAAAB")), Shelf(books(chunk_of, "X"))
    result = ask([(2, large), (3, small)], **FEW)
    assert (large.requested, small.requested) == ([4, 20], [4])
    assert [source.asked for source in result.sources] == [20, 4]
    assert ids(result) == ["A0", "X0", "B5"]


def test_a_source_that_fails_the_second_time_keeps_its_first_answer_and_says_so(ask, chunk_of):
    shelf = Shelf(books(chunk_of, *"AAAAAB"), fails_when_called_again=True)
    result = ask([(2, shelf)], **FEW)
    assert ids(result) == ["A0"] and result.sources[0].state == "ok"
    (notice,) = result.notices
    assert (notice.code, notice.subject) == (NoticeCode.REFILL_FAILED, "t2")
    assert notice.detail == {"problem": "source 't2': HTTP 503"}


def test_a_second_pass_that_gives_fewer_is_not_taken(ask, chunk_of):
    shelf = Shelf(books(chunk_of, *"AABAC"))
    forgetful = Shelf(books(chunk_of, *"AABAC"))
    result = ask([(2, lambda *arguments: forgetful(*arguments)[: 4 if len(forgetful.requested) == 1 else 1])], **FEW)
    assert forgetful.requested == [4, 20] and ids(result) == ["A0", "B2"]
    assert ids(ask([(2, shelf)], **FEW)) == ["A0", "B2", "C4"]


def test_a_reranking_that_only_the_first_pass_got_is_kept(ask, chunk_of):
    """A reranker that fails the second time would leave a longer answer in a worse order."""
    calls = []

    def reversed_once(_query: str, chunks: list[Chunk]) -> list[float]:
        calls.append(len(chunks))
        if len(calls) > 1:
            raise RerankerError("HTTP 429")
        return [place / len(chunks) for place in range(len(chunks))]

    shelf = Shelf(books(chunk_of, *"ABABAC"))
    engine = {"reranker": CallableReranker(reversed_once)}
    result = ask([(2, shelf)], **FEW, rerank_weight=0.0, engine=engine)
    assert calls == [4, 6] and ids(result) == ["B3", "A2"]
    assert NoticeCode.RERANK_FAILED not in {notice.code for notice in result.notices}


def test_the_most_that_can_be_requested_is_never_exceeded(ask, chunk_of):
    shelf = Shelf([chunk_of(f"c{place}", 0.5, f"Rule {place}.", document_id="A") for place in range(1000)])
    ask([(2, shelf)], stage1_top_k=600, stage2_top_k=3, max_per_document=1, dedup_method="off")
    ask([(2, shelf)], stage1_top_k=1000, stage2_top_k=3, max_per_document=1, dedup_method="off")
    assert shelf.requested == [600, 1000, 1000]


def test_every_candidate_of_the_second_pass_has_one_fate(ask, chunk_of):
    result = ask([(2, Shelf(books(chunk_of, *"AAABABC")))], **FEW)
    assert sorted(fate.chunk_id for fate in result.fates) == ["A0", "A1", "A2", "A4", "B3", "B5", "C6"]
    assert sum(fate.outcome is Outcome.RETURNED for fate in result.fates) == 3
