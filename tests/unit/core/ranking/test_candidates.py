"""The pool: identity, legs, one id over two texts, independence of order."""

from datetime import UTC, datetime
from itertools import permutations

from context_engine.core.models import Chunk, NoticeCode, RawAnswer, Score, ScoreKind
from context_engine.core.ranking.candidates import pool
from context_engine.core.text import content_sha256

AT = datetime(2026, 3, 2, tzinfo=UTC)


def answer(spec, *chunks):
    return spec, RawAnswer(source_id=spec.id, chunks=chunks, retrieved_at=AT)


def keys(candidates):
    return [candidate.key for candidate in candidates]


def test_the_identity_is_source_and_chunk_id(spec_of):
    same = Chunk(content="text", chunk_id="c")
    found, notices = pool([answer(spec_of(2, "b"), same), answer(spec_of(1, "a"), same)])
    assert keys(found) == [("a", "c"), ("b", "c")]
    assert [candidate.tier for candidate in found] == [1, 2]
    assert notices == []


def test_without_an_id_the_text_is_the_identity(spec_of):
    found, _ = pool([answer(spec_of(2), Chunk(content="one"), Chunk(content="two"), Chunk(content="one"))])
    assert sorted(keys(found)) == sorted(("t2", content_sha256(text)[:32]) for text in ("one", "two"))


def test_two_legs_join_with_all_their_scores_the_higher_of_one_kind(spec_of):
    legs = [
        Chunk(content="text", chunk_id="c", scores=(Score(ScoreKind.COSINE, 0.7, "e5"), Score(ScoreKind.BM25, 4.0))),
        Chunk(content="text", chunk_id="c", scores=(Score(ScoreKind.COSINE, 0.8, "e5"),)),
        Chunk(content="text", chunk_id="c", scores=(Score(ScoreKind.RRF, 0.03),)),
    ]
    for order in permutations(legs):
        [candidate], notices = pool([answer(spec_of(2), *order)])
        assert candidate.chunk.scores == (
            Score(ScoreKind.BM25, 4.0),
            Score(ScoreKind.COSINE, 0.8, "e5"),
            Score(ScoreKind.RRF, 0.03),
        )
        assert notices == []


def test_where_legs_disagree_the_least_authoritative_speaks_in_any_order(spec_of):
    legs = [
        Chunk(content="text", chunk_id="c", title="A"),
        Chunk(content="text", chunk_id="c", title="B", authority_tier=4),
    ]
    for order in permutations(legs):
        [candidate], _ = pool([answer(spec_of(2), *order)])
        assert (candidate.tier, candidate.chunk.title) == (4, "B")


def test_one_id_over_several_texts_keeps_them_all_in_any_order(spec_of):
    chunks = [Chunk(content=text, chunk_id="c") for text in ("one", "two", "three")] + [
        Chunk(content="x", chunk_id="d")
    ]
    expected = None
    for order in permutations(chunks):
        found, notices = pool([answer(spec_of(2, "s"), *order)])
        texts = {candidate.key: candidate.chunk.content for candidate in found}
        expected = expected or texts
        assert texts == expected
        assert keys(found) == sorted(texts)
        (notice,) = notices
        assert (notice.code, notice.subject) == (NoticeCode.CHUNK_ID_REUSED, "s")
        assert notice.detail == {"chunk_id": "c", "texts": 3}
    first = min(("one", "two", "three"), key=content_sha256)
    assert expected[("s", "c")] == first
    for text in {"one", "two", "three"} - {first}:
        assert expected[("s", f"c~{content_sha256(text)[:8]}")] == text


def test_a_text_that_has_its_new_id_already_is_the_same_candidate(spec_of):
    """As where two earlier answers, in which the id was told apart, are ranked together with their source's own."""
    first, second = sorted(("one", "two"), key=content_sha256)
    told_apart = f"c~{content_sha256(second)[:8]}"
    chunks = [Chunk(content=first, chunk_id="c"), Chunk(content=second, chunk_id="c")]
    same, other = Chunk(content=second, chunk_id=told_apart), Chunk(content="three", chunk_id=told_apart)
    for extra, expected in (
        ([same], {"c": first, told_apart: second}),
        ([same, same], {"c": first, told_apart: second}),
        ([other], {"c": first, told_apart: "three", f"{told_apart}~": second}),
    ):
        for order in permutations([*chunks, *extra]):
            found, _ = pool([answer(spec_of(2, "s"), *order)])
            assert keys(found) == sorted(("s", name) for name in expected)
            assert {one.key[1]: one.chunk.content for one in found} == expected


def test_a_source_id_of_the_chunk_counts_only_where_the_source_speaks_for_others(spec_of):
    chunk = Chunk(content="text", chunk_id="c", source_id="ledger")
    assert keys(pool([answer(spec_of(2, "s"), chunk)])[0]) == [("s", "c")]
    trusted = spec_of(2, "s", trust_document_metadata=True)
    assert keys(pool([answer(trusted, chunk, Chunk(content="text", chunk_id="c"))])[0]) == [("ledger", "c"), ("s", "c")]


def test_an_empty_pool():
    assert pool([]) == ([], [])


def test_two_texts_of_one_id_are_said_with_their_number(spec_of):
    chunks = [Chunk(content=text, chunk_id="c") for text in ("one", "two")]
    found, [notice] = pool([answer(spec_of(2, "s"), *chunks)])
    assert len(found) == 2
    assert notice.detail == {"chunk_id": "c", "texts": 2}
