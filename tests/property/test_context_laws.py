"""Laws of a context: never over budget, nothing lost, nothing repeated, the same labels for the same input."""

import zlib
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.context import ApproxTokenCounter, Context, assemble, parse_fences
from context_engine.core.context.render import FORMS
from context_engine.core.models import (
    TIER_OF,
    Chunk,
    Classification,
    Confidence,
    Decision,
    ProvenanceTag,
    RankedChunk,
    SourceType,
    Status,
    TrustClass,
)

NONCE = "7f3a9c21"
ALPHABET = "ab .\n<>\u241b&gt;7f3a9c21"


class Counter:
    """A token counter made of a function."""

    name = "made"

    def __init__(self, function: Callable[[str], int]) -> None:
        self.count = function


COUNTERS = st.sampled_from(
    [
        ApproxTokenCounter(),
        Counter(len),
        Counter(lambda text: len(text.split()) or bool(text)),
        Counter(lambda text: -(-len(text.encode()) // 4)),
        Counter(lambda text: len(text) ** 2 // 500),  # the whole is more than its parts
        Counter(lambda text: 40 * bool(text) + len(text) // 10),  # the whole is less than its parts
        Counter(lambda text: zlib.crc32(text.encode()) % 300),  # no law at all
    ]
)


def ranked(rank: int, chunk: Chunk, source: str, trust: TrustClass) -> RankedChunk:
    tag = ProvenanceTag(
        source_id=source,
        source_type="bank_sop",
        authority_tier=2,
        trust_class=str(trust),
        fetched_at="2025-06-15T05:30:00Z",
        ttl_seconds=60,
    )
    return RankedChunk(
        rank=rank,
        source_id=source,
        chunk_id=chunk.chunk_id,
        domain="ORM",
        chunk=chunk,
        source_type=SourceType.BANK_SOP,
        authority_tier=TIER_OF[SourceType.BANK_SOP],
        trust_class=trust,
        classification=Classification.INTERNAL,
        relevance=1.0 / rank,
        absolute=1.0,
        boost=0.3,
        confidence=Confidence.STRONG,
        final=0.6 / rank + 0.4 * 0.3,
        rerank_score=None,
        flags=(),
        also_in=(),
        provenance=tag,
    )


@st.composite
def results(draw: st.DrawFn) -> tuple[list[RankedChunk], dict[str, str]]:
    """Ranked chunks cut at random from up to three documents, and the documents."""
    texts = draw(st.lists(st.text(ALPHABET, min_size=1, max_size=400), min_size=1, max_size=3))
    documents = {f"D{number}": text for number, text in enumerate(texts)}
    chunks = []
    for rank in range(1, draw(st.integers(0, 8)) + 1):
        name = draw(st.sampled_from(sorted(documents)))
        start = draw(st.integers(0, len(documents[name]) - 1))
        end = draw(st.integers(start + 1, len(documents[name])))
        chunk = Chunk(
            content=documents[name][start:end],
            chunk_id=f"c{rank}",
            document_id=name,
            title=draw(st.text(ALPHABET + "[]#\u2028", max_size=30)) or None,
            span=draw(st.sampled_from([(start, end), (start, end), None])),
        )
        chunks.append(ranked(rank, chunk, "s", draw(st.sampled_from(TrustClass))))
    return chunks, documents


def made(chunks: list[RankedChunk], budget: int, counter: Counter, **given: object) -> Context:
    return assemble(chunks, budget=budget, counter=counter, nonce=NONCE, **given)  # type: ignore[arg-type]


@given(
    results(),
    st.integers(1, 3000),
    COUNTERS,
    st.sampled_from(FORMS),
    st.floats(0.0, 1.0),
    st.sampled_from(Decision),
    st.sampled_from(Status),
)
def test_never_over_budget_and_each_chunk_in_exactly_one_place(
    given_result: tuple[list[RankedChunk], dict[str, str]],
    budget: int,
    counter: Counter,
    form: str,
    share: float,
    decision: Decision,
    status: Status,
):
    chunks, _ = given_result
    context = made(
        chunks, budget, counter, form=form, max_untrusted_share=share, decision=decision, status=status, missing=["R"]
    )
    assert counter.count(context.text) == context.tokens <= budget or context.text == ""
    assert sum(block.tokens for block in context.blocks if not block.trusted) <= share * budget
    shown = [one for block in context.blocks for one in block.chunk_ids]
    left = [one.chunk_id for one in context.left_out]
    assert sorted(shown + left) == sorted(chunk.chunk_id for chunk in chunks)
    assert [citation.chunk_ids for citation in context.citations] == [block.chunk_ids for block in context.blocks]
    if decision is Decision.OUT_OF_SCOPE:
        assert context.blocks == ()


@given(results(), st.integers(1, 3000), COUNTERS, st.sampled_from(FORMS))
def test_fences_are_whole_and_give_the_untrusted_texts_back(
    given_result: tuple[list[RankedChunk], dict[str, str]], budget: int, counter: Counter, form: str
):
    context = made(given_result[0], budget, counter, form=form, max_untrusted_share=1.0)
    assert parse_fences(context.text, NONCE) == [block.text for block in context.blocks if not block.trusted]


@given(results())
def test_a_block_is_the_document_from_its_first_to_its_last_character(
    given_result: tuple[list[RankedChunk], dict[str, str]],
):
    chunks, documents = given_result
    context = made(chunks, 10**6, Counter(len), max_untrusted_share=1.0)
    by_id = {chunk.chunk_id: chunk.chunk for chunk in chunks}
    assert context.left_out == ()
    places: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for block in context.blocks:
        parts = [by_id[chunk_id] for chunk_id in block.chunk_ids]
        name = str(parts[0].document_id)
        if block.span is None:
            assert len(parts) == 1
            continue
        spans = [part.span for part in parts if part.span]
        assert block.span == (min(span[0] for span in spans), max(span[1] for span in spans))
        assert block.text == documents[name][slice(*block.span)]
        places.setdefault((name, block.trusted), []).append(block.span)
    for spans in places.values():
        spans.sort()
        assert all(before[1] < after[0] for before, after in pairwise(spans))


@given(results(), st.integers(1, 3000), st.randoms(use_true_random=False))
def test_labels_rise_with_rank_and_do_not_depend_on_the_order_given(
    given_result: tuple[list[RankedChunk], dict[str, str]], budget: int, random: object
):
    chunks, _ = given_result
    context = made(chunks, budget, ApproxTokenCounter())
    assert [block.label for block in context.blocks] == [f"[{n}]" for n in range(1, len(context.blocks) + 1)]
    assert [block.rank for block in context.blocks] == sorted(block.rank for block in context.blocks)
    shuffled = list(chunks)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert made(shuffled, budget, ApproxTokenCounter()) == context


@given(results(), st.integers(200, 3000))
def test_what_is_left_out_did_not_fit_when_its_turn_came(
    given_result: tuple[list[RankedChunk], dict[str, str]], budget: int
):
    context = made(given_result[0], budget, Counter(len), max_untrusted_share=1.0)
    for left in context.left_out:
        assert left.tokens is not None
        assert left.room is not None
        # What was taken back, because all together were too long, may lie within another block, and add nothing to it.
        assert left.tokens > left.room or left.tokens == left.room == 0
