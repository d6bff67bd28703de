"""What a base learns from its own pairs: what helps on documents held aside, else nothing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from random import Random
from typing import Any

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")
import numpy as np

from context_engine.adapters.sources.stores.adapter_rows import Origin
from context_engine.core.models import Chunk, HeldVectors
from context_engine.errors import InvalidRequest
from context_engine.evaluation.learning.own_start import OwnStart, _asides, learn_own
from context_engine.learning.contrast import lessons_of
from context_engine.learning.pairs import TrainingPairs, own_pairs
from context_engine.testing import FakeEmbedder

DIMENSION = 64
AWAY = np.where(np.random.default_rng(2).random(DIMENSION) < 0.5, -1.0, 1.0) / np.sqrt(DIMENSION)
WORDS = [first + second for first in "bdfgklmnprst" for second in ("ank", "eed", "ill", "oom", "uze", "arp", "isk")]


class Leaning(FakeEmbedder):
    """Knows words, but leans all questions, and every other passage, towards one direction that says nothing."""

    def __init__(self) -> None:
        super().__init__(DIMENSION)

    def embed_query(self, text: str) -> Sequence[float]:
        return self._leant(text, 1.0)

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self._leant(text, sha256(text.encode()).digest()[0] % 2) for text in texts]

    def _leant(self, text: str, share: float) -> Sequence[float]:
        vector = np.asarray(super().embed_query(text)) + share * AWAY
        return list(vector / np.linalg.norm(vector))


E = Leaning()


class Chance(FakeEmbedder):
    """Puts every text anywhere."""

    def embed_query(self, text: str) -> Sequence[float]:
        vector = np.random.default_rng(list(sha256(text.encode()).digest())).standard_normal(self.dimension)
        return list(vector / np.linalg.norm(vector))


def held(embedder: FakeEmbedder, count: int = 80, sentences: int = 4) -> HeldVectors:
    """Documents of one chunk, each of some sentences of nine words."""
    random = Random(9)
    texts = [". ".join(" ".join(random.sample(WORDS, 9)) for _ in range(sentences)) for _ in range(count)]
    parts = np.asarray(embedder.embed_documents(texts), np.float32)
    chunks = [Chunk(text, chunk_id=str(place), document_id=f"SOP-{place}") for place, text in enumerate(texts)]
    return HeldVectors(["sops"] * count, chunks, np.ones(count, np.int64), parts, Origin(1, (1,)))


@pytest.fixture(scope="module")
def learnt() -> OwnStart:
    embedder = Leaning()
    return learn_own(held(embedder), embedder)


def test_what_misleads_the_model_is_unlearnt_from_pieces_of_the_texts(learnt: OwnStart):
    assert learnt.maps is not None
    assert learnt.rounds > 0
    assert learnt.gain.low > 0.0
    assert learnt.gain.mean > 0.02
    before, after = (float(AWAY @ one @ AWAY) for one in (np.eye(DIMENSION), learnt.maps.query))
    assert after < 0.8 * before, "the direction that says nothing counts less"


def test_the_evidence_names_every_kind_and_what_was_held_aside(learnt: OwnStart):
    told = learnt.evidence()

    assert set(told["pairs"]) == {"sentence", "window"}
    total = sum(told["pairs"].values())
    assert 0.1 * total - 8 <= told["held_aside"] <= 0.1 * total + 8, "whole documents, a tenth of the pairs"
    assert 0.1 * total - 8 <= told["rounds_chosen_on"] <= 0.1 * total + 8, "and others that choose"
    assert (told["measure"], told["before"], told["low"]) == ("AP@10", learnt.before, learnt.gain.low)


@pytest.mark.slow
def test_the_same_base_teaches_the_same(learnt: OwnStart):
    embedder = Leaning()
    again = learn_own(held(embedder), embedder)

    assert again.maps is not None
    assert learnt.maps is not None
    assert again.maps.query.tobytes() == learnt.maps.query.tobytes()
    assert again.evidence() == learnt.evidence()


def test_of_vectors_that_say_nothing_nothing_is_taken_over():
    embedder = Chance(8)
    found = learn_own(held(embedder), embedder)

    assert found.maps is None
    assert not (found.gain.beyond_noise and found.gain.mean > 0.0)


def test_a_small_base_is_told_how_many_pairs_it_makes():
    embedder = Leaning()
    with pytest.raises(InvalidRequest, match=r"texts give 40 pairs, and at least 500 are needed"):
        learn_own(held(embedder, 10, 2), embedder)


def asides(some: HeldVectors) -> tuple[list[set[int]], list[set[str]]]:
    """The passages and the documents of the pairs that choose, that report, and that are learnt from."""
    pairs = own_pairs(some.chunks)
    lessons = lessons_of(TrainingPairs([one.question for one in pairs], [list(one.answers) for one in pairs]), some, E)
    choosing, aside = _asides(lessons, some)
    rest = [place for place in range(len(pairs)) if place not in {*choosing, *aside}]
    passages = [{row for place in places for row in pairs[place].answers} for places in (choosing, aside, rest)]
    return passages, [{some.document_ids[row] for row in rows} for rows in passages]


def apart(sets: Sequence[set[Any]]) -> bool:
    return all(sets) and not any(one & other for one, other in combinations(sets, 2))


def test_the_pairs_that_choose_report_and_teach_share_no_document():
    _, documents = asides(held(E))
    assert apart(documents)


@pytest.mark.slow
def test_of_a_single_document_they_share_no_passage():
    some = held(E)
    one = some._replace(chunks=[chunk._replace(document_id="SOP-1") for chunk in some.chunks])
    passages, _ = asides(one)
    assert apart(passages)
    assert 0 < learn_own(one, E).aside < 0.2 * 80 * 8


def test_a_document_of_most_pairs_is_parted_by_its_passages():
    some = held(E)
    most = some._replace(
        chunks=[chunk._replace(document_id="SOP-1") if place > 10 else chunk for place, chunk in enumerate(some.chunks)]
    )
    passages, documents = asides(most)
    assert apart(passages)
    assert all("SOP-1" in names for names in documents)
