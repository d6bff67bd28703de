"""Every chunk of baseline or answer has one place in the comparison, and a way that begins and ends where they say."""

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine.comparison import compare
from context_engine.service.comparing import compare as published

TEXTS = (
    "A proposal above the materiality limit goes to the product committee for approval.",
    "A proposal above the materiality limit goes to the product committee for approval today.",
    "Quote NPA-SOP-001 where a limit is breached.",
    "The desk head reports the breach of a limit.",
    "Nothing about the question at all.",
)
CHUNK = st.tuples(st.sampled_from(TEXTS), st.floats(0.0, 1.0).map(lambda one: round(one, 2)), st.booleans())
POOLS = st.dictionaries(st.integers(1, 5), st.lists(CHUNK, max_size=5), min_size=1, max_size=4)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "stage2_top_k": st.integers(1, 6),
        "min_relevance_score": st.sampled_from([0.0, 0.3, 0.6]),
        "min_chunks": st.integers(0, 4),
        "dedup_method": st.sampled_from(["near", "exact", "off"]),
        "authority_weight": st.sampled_from([0.0, 0.2, 0.4]),
        "max_per_document": st.sampled_from([None, 1, 2]),
        "mmr_lambda": st.sampled_from([None, 0.5]),
        "expired": st.sampled_from(["flag", "demote", "refuse"]),
        "rerank_top_n": st.sampled_from([None, 2]),
    },
)
FEW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@FEW
@given(pool=POOLS, values=SETTINGS, reranked=st.booleans(), query=st.sampled_from(["limit", '"NPA-SOP-001" approval']))
def test_nothing_is_lost_and_every_way_is_whole(ask, chunk_of, pool, values, reranked, query):
    given_chunks = [
        (tier, [chunk_of(f"{tier}-{n}", score, text, document_id="d" if one else None) for n, (text, score, one) in x])
        for tier, x in ((tier, list(enumerate(chunks))) for tier, chunks in pool.items())
    ]
    reranker = CallableReranker(lambda _query, texts: [len(text) % 7 / 7 for text in texts]) if reranked else None
    result = ask(given_chunks, query, engine={"reranker": reranker}, **values)
    found = compare(result)
    top_k = result.settings.values.stage2_top_k
    shown = {"baseline": found.baseline.chunks, "answer": result.chunks}
    ranks = {name: {(one.source_id, one.chunk_id): one.rank for one in chunks} for name, chunks in shown.items()}

    keys = [one.key for one in found.changes]
    assert len(keys) == len(set(keys))
    assert set(keys) == set(ranks["baseline"]) | set(ranks["answer"])
    for change in found.changes:
        before, after = (ranks[name].get(change.key) for name in ("baseline", "answer"))
        expected = {
            "entered": before is None,
            "left": after is None,
            "same": before == after,
            "moved": None not in (before, after) and before != after,
        }
        assert expected[change.turn]
        assert before is None or before == change.before
        assert after is None or after == change.after
        assert after is not None or change.after is None or change.after > top_k
        way = [change.before, *(step.after for step in change.steps)]
        assert way[-1] == change.after
        assert all(step.before == place for step, place in zip(change.steps, way))
        assert (change.cause is None) == (change.turn == "same")
    by_relevance = [one.relevance for one in found.baseline.chunks]
    assert all(first >= second for first, second in pairwise(by_relevance))


@FEW
@given(pool=POOLS, values=SETTINGS)
def test_the_published_form_says_the_same(ask, chunk_of, pool, values):
    chunks = [
        (tier, [chunk_of(f"{tier}-{n}", score, text) for n, (text, score, _) in enumerate(x)])
        for tier, x in pool.items()
    ]
    result = ask(chunks, **values)
    said = published(result)
    parts = (said.difference.moved, said.difference.entered, said.difference.left)
    names = [*said.difference.same, *(f"{one.namespace}/{one.chunk_id}" for part in parts for one in part)]
    union = {f"{one.namespace}/{one.chunk_id}" for one in (*said.baseline.chunks, *said.enhanced.chunks)}
    assert sorted(names) == sorted(union)
    assert said.difference.tokens == said.enhanced.context.tokens - said.baseline.context.tokens
    assert type(said).model_validate_json(said.model_dump_json()) == said
