"""What a gold id names, and the places a ranking has."""

import hashlib

import pytest

from context_engine.core.models import Chunk
from context_engine.evaluation.gold import GoldIndex, gold_of, identity_of, ranked_ids, resolved

CHUNK = Chunk(content="Rule.", document_id="SOP-1", document_version="3.2", section="4.2.1")
SHA = hashlib.sha256(b"Rule.").hexdigest()


@pytest.mark.parametrize(
    "name",
    [
        *("c-1", "SOP-1", "SOP-1@3.2", "SOP-1#4", "SOP-1#4.2", "SOP-1#4.2.1", "SOP-1@3.2#4.2"),
        *(SHA[:12], SHA, f"sha256:{SHA[:8]}"),
    ],
)
def test_a_chunk_is_named_by(name):
    identity = identity_of("s", "c-1", CHUNK)
    assert gold_of(identity, (name,)) == [name]
    assert GoldIndex([identity]).knows(name)


@pytest.mark.parametrize(
    "name", ["c", "SOP-1@3", "SOP-1#4.2.1.1", "SOP-1#4.20", "SOP-1@3.1#4.2", SHA[1:13], SHA[:8], ""]
)
def test_a_chunk_is_not_named_by(name):
    identity = identity_of("s", "c-1", CHUNK)
    assert gold_of(identity, (name,)) == []
    assert not GoldIndex([identity]).knows(name)


def test_a_text_without_a_section_stands_for_the_headings_in_it():
    chunk = CHUNK._replace(section=None, content="Intro.\n\n## 5 Duties\n\nA.\n\n### 5.1 Reports\n\nB.")
    assert gold_of(identity_of("s", "c", chunk), ("SOP-1#5", "SOP-1@3.2#5.1", "SOP-1#6")) == [
        "SOP-1#5",
        "SOP-1@3.2#5.1",
    ]


def names(places):
    return [name for name, _ in places]


def test_a_gold_answer_counts_once_and_what_repeats_it_takes_no_place(hit):
    hits = [hit("x"), hit("d1", "D"), hit("d2", "D"), hit("y")]
    assert names(ranked_ids(hits, {"D": 1})) == ["x", "D", "y"]


def test_a_merged_gold_copy_takes_the_place_after_its_survivor(hit):
    hits = [hit("a", copies=(hit("b"), hit("c"))), hit("x")]
    assert names(ranked_ids(hits, {"a": 1, "b": 1})) == ["a", "b", "x"]


def test_a_gold_copy_speaks_for_a_survivor_that_is_not_gold(hit):
    assert ranked_ids([hit("x"), hit("a", copies=(hit("b"),))], {"b": 1}) == [("x", "x"), ("b", "b")]


def test_a_chunk_with_two_gold_ids_takes_two_places(hit):
    assert names(ranked_ids([hit("a", "D", "D#1"), hit("x")], {"D": 1, "D#1": 1})) == ["D", "D#1", "x"]


def test_a_chunk_judged_by_its_id_is_not_what_stands_below_it(hit):
    """The chunk of section 4.2 is called as the section is, which takes in 4.2.1."""
    whole, below = hit("SOP@3#4.2", "SOP@3#4.2", "SOP@3#4"), hit("SOP@3#4.2.1", "SOP@3#4.2.1", "SOP@3#4.2", "SOP@3#4")
    assert [name for name, _ in ranked_ids([below, whole], {"SOP@3#4.2": 1})] == ["SOP@3#4.2"]
    assert [name for name, _ in ranked_ids([below, whole], {"=SOP@3#4.2": 1})] == ["SOP@3#4.2.1", "=SOP@3#4.2"]


def test_a_chunk_that_is_gone_is_still_a_section():
    assert resolved({"=SOP@3#4.2": 2, "=SOP@3#5": 0, "SOP": 1}, {"SOP@3#5"}) == {
        "SOP@3#4.2": 2,
        "=SOP@3#5": 0,
        "SOP": 1,
    }
