"""Limits on what is alike: at most n of a document, and maximal marginal relevance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.ranking import diversity
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.diversity import Passed

A, B, C = ("s", "a"), ("s", "b"), ("s", "c")


def choose(finals, documents, texts, **how):
    """The choice among plain texts."""
    return diversity.choose(finals, documents, [AnalysedText(text) for text in texts], **how)


def test_without_limits_the_best_are_returned():
    chosen, passed = choose([0.7, 0.6, 0.5], [A, A, A], ["x", "x", "x"], top_k=2)
    assert chosen == [0, 1]
    assert passed == {}


def test_a_place_freed_by_the_document_limit_goes_to_the_next_chunk():
    chosen, passed = choose([0.7, 0.6, 0.5, 0.4], [A, A, B, C], list("wxyz"), top_k=2, max_per_document=1)
    assert chosen == [0, 2]
    assert passed == {1: Passed("document_limit", "a", 1)}


def test_fewer_come_back_when_there_are_no_other_documents():
    chosen, passed = choose([0.7, 0.6, 0.5], [A, A, A], list("xyz"), top_k=3, max_per_document=2)
    assert chosen == [0, 1]
    assert passed == {2: Passed("document_limit", "a", 2)}


def test_chunks_without_a_document_are_never_limited():
    assert choose([0.7, 0.6], [None, None], ["x", "y"], top_k=2, max_per_document=1).chosen == [0, 1]


def test_the_same_document_id_in_two_sources_is_two_documents():
    assert choose([0.7, 0.6], [("s", "a"), ("t", "a")], ["x", "y"], top_k=2, max_per_document=1).chosen == [0, 1]


def test_marginal_relevance_by_hand():
    """Best final .60. The second place at lambda .5: text 1 shares 2 of 3 terms with text 0, text 2 none.

    value(1) = .5 * .54/.60 - .5 * 2/3 = .450 - .333 = .117; value(2) = .5 * .30/.60 - 0 = .250.
    """
    texts = ["liquidity ratio", "liquidity ratio floor", "outsourcing register"]
    chosen, passed = choose([0.60, 0.54, 0.30], [None] * 3, texts, top_k=2, mmr_lambda=0.5)
    assert chosen == [0, 2]
    assert passed == {1: Passed("too_similar", pytest.approx(2 / 3), 0.5)}
    assert choose([0.60, 0.54, 0.30], [None] * 3, texts, top_k=2, mmr_lambda=0.9).chosen == [0, 1]


def test_both_limits_together():
    texts = ["liquidity ratio", "liquidity ratio floor", "outsourcing register", "vendor exit plan"]
    chosen, passed = choose([0.6, 0.5, 0.4, 0.3], [A, B, A, C], texts, top_k=2, mmr_lambda=0.3, max_per_document=1)
    assert chosen == [0, 3]
    assert {index: why.reason for index, why in passed.items()} == {1: "too_similar", 2: "document_limit"}


@given(
    st.lists(st.tuples(st.floats(0, 0.76), st.sampled_from([A, B, None]), st.sampled_from(["x y", "y z", "q"]))),
    st.integers(1, 5),
    st.none() | st.integers(1, 3),
    st.none() | st.floats(0, 1),
)
def test_every_chunk_above_the_last_chosen_is_chosen_or_told_why_not(rows, top_k, most, mmr):
    rows.sort(key=lambda row: -row[0])
    finals, documents, texts = ([row[part] for row in rows] for part in range(3))
    chosen, passed = choose(finals, documents, texts, top_k=top_k, max_per_document=most, mmr_lambda=mmr)
    assert not {*chosen} & {*passed}
    last = max(chosen) if len(chosen) == top_k else len(rows) - 1
    assert sorted([*chosen, *passed]) == list(range(last + 1 if rows else 0))
    assert chosen == sorted(chosen) and len(chosen) <= top_k
    if most is None:
        assert len(chosen) == min(top_k, len(rows))
    if rows:
        assert chosen[0] == 0
    for document in (A, B):
        assert most is None or sum(documents[index] == document for index in chosen) <= most
    if mmr == 1.0 and most is None:
        assert chosen == list(range(min(top_k, len(rows))))
