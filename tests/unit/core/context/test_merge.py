"""Neighbours by span: joined once, in the document's order, and only where they truly touch."""

from collections.abc import Callable

import pytest

from context_engine.core.context.passage import document_key, joined, passage_of
from context_engine.core.models import TrustClass

DOCUMENT = "The desk reports the event. The owner rates it. The committee closes it. The file is kept."


@pytest.fixture
def piece(ranked: Callable) -> Callable:
    def make(rank: int, start: int, end: int, **given):
        given = {"document_id": "D1", "document_version": "1", "span": (start, end), **given}
        return passage_of(ranked(rank, given.pop("content", DOCUMENT[start:end]), **given))

    return make


def test_overlap_is_not_repeated(piece: Callable):
    (block,) = joined([piece(1, 28, 60), piece(2, 0, 47)])
    assert block.text == DOCUMENT[0:60]
    assert [part.chunk_id for part in block.parts] == ["c2", "c1"]
    assert block.best.rank == 1
    assert block.start == 0


def test_touching_spans_are_joined(piece: Callable):
    (block,) = joined([piece(1, 0, 28), piece(2, 28, 48)])
    assert block.text == DOCUMENT[0:48]


def test_a_gap_is_not_filled(piece: Callable):
    assert [block.text for block in joined([piece(1, 0, 27), piece(2, 28, 48)])] == [DOCUMENT[0:27], DOCUMENT[28:48]]


def test_a_passage_between_bridges_two(piece: Callable):
    (block,) = joined([piece(1, 0, 28), piece(2, 48, 73), piece(3, 20, 50)])
    assert block.text == DOCUMENT[0:73]


def test_one_inside_another_adds_nothing(piece: Callable):
    (block,) = joined([piece(1, 0, 73), piece(2, 28, 47)])
    assert block.text == DOCUMENT[0:73]
    assert len(block.parts) == 2


def test_other_words_at_the_same_place_stay_apart(piece: Callable):
    blocks = joined([piece(1, 0, 28), piece(2, 20, 48, content="X" * 28)])
    assert [block.text for block in blocks] == [DOCUMENT[0:28], "X" * 28]


def test_a_cut_passage_is_completed_by_its_neighbour(piece: Callable):
    cut = piece(1, 0, 60).cut(27)
    (alone,) = joined([cut])
    assert (alone.text, alone.truncated) == (DOCUMENT[0:27], True)
    (block,) = joined([cut, piece(2, 20, 48)])
    assert (block.text, block.truncated) == (DOCUMENT[0:48], False)


@pytest.mark.parametrize(
    "other",
    [
        {"document_id": "D2"},
        {"document_version": "2"},
        {"source": "dce_sops"},
        {"trust": TrustClass.UNTRUSTED},
        {"span": None},
        {"document_id": None},
        {"content": "not as long as its span"},
    ],
)
def test_neighbours_share_source_document_version_trust_and_an_exact_span(piece: Callable, other: dict):
    assert document_key(piece(1, 0, 28)) == document_key(piece(2, 28, 48))
    assert document_key(piece(1, 0, 28)) != document_key(piece(2, 28, 48, **other))
