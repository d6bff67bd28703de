"""Contrast: the gradient is that of the loss, what answers is no negative, equal examples give equal maps."""

from itertools import islice

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")
import numpy as np

from context_engine.learning.contrast import (
    Contrast,
    Examples,
    Maps,
    hard_negatives,
    loss_and_gradient,
    trained,
)

SMALL = Contrast(hard=2, pool=6, batch=8, rate=0.05, pull=0.01, share=1.0)


def rows(count, dimension, seed):
    found = np.random.default_rng(seed).standard_normal((count, dimension))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def turned(seed=5, count=30, dimension=6):
    """Questions that are their answers, turned: no question is like its own answer until the turn is learnt."""
    passages = rows(count, dimension, seed)
    turn, _ = np.linalg.qr(np.random.default_rng(seed + 1).standard_normal((dimension, dimension)))
    questions, passages = (passages @ turn).astype(np.float32), passages.astype(np.float32)
    texts, answers = np.arange(count), [[place] for place in range(count)]
    return Examples(questions, passages, texts, answers, hard_negatives(questions, passages, texts, answers, 6))


def pairs_of(examples, *places):
    chosen = places or range(len(examples.answers))
    return np.array([(place, row) for place in chosen for row in examples.answers[place]], np.int64)


def found(examples, maps, places):
    """How many of some questions have their answer first."""
    asked, passages = examples.questions[places] @ maps.query, examples.passages @ maps.passage
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    return int(((asked @ passages.T).argmax(axis=1) == places).sum())


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_gradient_is_that_of_the_loss(temperature):
    random = np.random.default_rng(3)
    maps = np.stack([np.eye(4)] * 2) + 0.1 * random.standard_normal((2, 4, 4))
    questions, passages = rows(3, 4, 1), rows(5, 4, 2)
    left_out = np.zeros((3, 5), bool)
    left_out[0, 4] = left_out[2, 1] = True
    _, gradient = loss_and_gradient(maps, questions, passages, left_out, temperature)
    step = 1e-6
    for place in np.ndindex(maps.shape):
        moved = [maps.copy(), maps.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (loss_and_gradient(one, questions, passages, left_out, temperature)[0] for one in moved)
        assert gradient[place] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-7)


def test_the_loss_of_two_questions_written_out():
    """Cosines 1 and 0 at temperature 1: -ln(e / (e + 1)) for each."""
    maps, both = np.stack([np.eye(2)] * 2), np.eye(2)
    loss, _ = loss_and_gradient(maps, both, both, np.zeros((2, 2), bool), 1.0)
    assert loss == pytest.approx(np.log((np.e + 1) / np.e))


def test_what_is_left_out_changes_neither_loss_nor_gradient():
    maps, questions = np.stack([np.eye(4)] * 2), rows(2, 4, 1)
    left_out = np.array([[False, False, True], [False, False, True]])
    some = [np.concatenate([rows(2, 4, 2), other]) for other in (rows(1, 4, 3), rows(1, 4, 4))]
    first, second = (loss_and_gradient(maps, questions, passages, left_out, 0.05) for passages in some)
    assert first[0] == second[0]
    assert np.array_equal(first[1], second[1])


def test_hard_negatives_are_the_nearest_that_neither_are_nor_read_like_an_answer():
    questions = np.array([[1.0, 0.0]], np.float32)
    passages = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [1.0, 0.0], [0.0, 1.0]], np.float32)
    texts = np.array([7, 1, 2, 7, 3])
    assert hard_negatives(questions, passages, texts, [[0]], 4).tolist() == [[2, 1, -1, -1]]
    assert hard_negatives(questions, passages, texts, [[4]], 9).tolist()[0][:4] in ([0, 3, 2, 1], [3, 0, 2, 1])
    assert hard_negatives(questions, passages, texts, [[4]], 9).tolist()[0][4:] == [-1] * 5


def test_what_is_learnt_of_some_questions_holds_for_others():
    examples = turned()
    learnt, others = np.arange(24), np.arange(24, 30)
    maps = next(islice(trained(examples, pairs_of(examples, *learnt), SMALL, seed=1), 3, None))
    alone = Maps(np.eye(6, dtype=np.float32), np.eye(6, dtype=np.float32))
    assert found(examples, alone, others) <= 1
    assert found(examples, maps, others) >= 5


def test_the_same_examples_and_seed_give_the_same_maps_another_seed_others():
    examples = turned()
    first, again, other = (
        next(islice(trained(examples, pairs_of(examples), SMALL, seed=seed), 1, None)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.query, again.query)
    assert np.array_equal(first.passage, again.passage)
    assert not np.array_equal(first.query, other.query)
    assert first.query.dtype == np.float32


def test_the_maps_are_pulled_back_to_where_they_began():
    examples = turned()
    begun = Maps(*(2.0 * np.eye(6, dtype=np.float32) for _ in range(2)))
    distances = []
    for pull in (0.0, 100.0):
        maps = next(
            islice(trained(examples, pairs_of(examples), SMALL._replace(pull=pull), seed=1, first=begun), 1, None)
        )
        distances.append(float(np.linalg.norm(maps.query - begun.query)))
    assert distances[1] < 0.2 * distances[0]


def test_another_answer_of_a_question_is_never_a_negative():
    """One question with two answers and nothing else: there is nothing to be told from, so nothing is learnt."""
    questions, passages = rows(1, 4, 1).astype(np.float32), rows(2, 4, 2).astype(np.float32)
    examples = Examples(questions, passages, np.arange(2), [[0, 1]], np.full((1, 4), -1))
    maps = next(trained(examples, pairs_of(examples), SMALL, seed=1))
    assert np.allclose(maps.query, np.eye(4), atol=1e-6)
