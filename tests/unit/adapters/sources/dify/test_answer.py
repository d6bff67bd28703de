"""Several answers as one list."""

from context_engine.adapters.sources.dify.answer import Part, fused_legs, merged
from context_engine.core.models import Chunk, Score, ScoreKind


def chunk(name, value=None, kind=ScoreKind.COSINE, scorer="m", text=None):
    scores = () if value is None else (Score(kind, value, scorer),)
    return Chunk(content=text or f"text {name}", chunk_id=name, scores=scores)


def ids(chunks):
    return [one.chunk_id for one in chunks]


def test_one_answer_with_an_order_keeps_it():
    part = Part("d", (chunk("b", 0.1), chunk("a", 0.9)), True)
    assert ids(merged([part, Part("e", (), True)], "text a")) == ["b", "a"]


def test_scores_of_one_model_are_compared():
    parts = [Part("d", (chunk("a", 0.9), chunk("b", 0.2)), True), Part("e", (chunk("c", 0.5),), True)]
    assert ids(merged(parts, "b")) == ["a", "c", "b"]


def test_scores_of_two_models_are_not():
    parts = [
        Part("d", (chunk("a", 0.9, scorer="m", text="cake"),), True),
        Part("e", (chunk("b", 0.1, scorer="n", text="approval limit"),), True),
    ]
    assert ids(merged(parts, "approval limit")) == ["b", "a"]


def test_an_order_that_means_nothing_is_replaced_by_the_engines_own_measure():
    texts = {"a": "cake", "b": "the limit", "c": "approval limit"}
    chunks = [chunk(name, text=text) for name, text in texts.items()]
    for shuffled in (chunks, chunks[::-1], [chunks[1], chunks[0], chunks[2]]):
        assert ids(merged([Part("d", tuple(shuffled), False)], "approval limit")) == ["c", "b", "a"]


def test_two_legs_are_fused_by_reciprocal_ranks_and_keep_both_scores():
    semantic = Part("d", (chunk("a", 0.9), chunk("b", 0.8)), True)
    text = Part(
        "d", (chunk("b", 7.0, ScoreKind.FULLTEXT, "dify:d"), chunk("c", 6.0, ScoreKind.FULLTEXT, "dify:d")), True
    )
    fused = fused_legs("d", [semantic, text])
    assert ids(fused.chunks) == ["b", "a", "c"]
    assert fused.chunks[0].score(ScoreKind.RRF) == 1 / 62 + 1 / 61
    assert fused.chunks[1].score(ScoreKind.RRF) == 1 / 61
    assert fused.chunks[0].score(ScoreKind.COSINE) == 0.8
    assert fused.chunks[0].score(ScoreKind.FULLTEXT) == 7.0


def test_one_leg_stays_as_it_is():
    part = Part("d", (chunk("a", 0.9),), True)
    assert fused_legs("d", [part]) is part
