"""The passages of a search as the evidence of an answer, labelled as in the context that a model reads."""

from __future__ import annotations

from context_engine.answer.values import Evidence
from context_engine.core.models import Context, ContextBlock, Decision, RankedChunk, SearchResult
from context_engine.core.policy.injection import INJECTION_SUSPECTED


def evidence_of(result: SearchResult, context: Context) -> tuple[Evidence, ...]:
    """Return the evidence in a context of a result, one for each block, best first.

    Passages that read like instructions to a model are left out: nothing may rest on them. Outside the domain's scope
    there is no evidence.
    """
    if result.decision is Decision.OUT_OF_SCOPE:
        return ()
    chunks = {(chunk.source_id, chunk.chunk_id): chunk for chunk in result.chunks}
    pairs = ((block, _best(block, chunks)) for block in context.blocks)
    return tuple(_evidence(block, chunk) for block, chunk in pairs if INJECTION_SUSPECTED not in chunk.flags)


def _best(block: ContextBlock, chunks: dict[tuple[str, str], RankedChunk]) -> RankedChunk:
    return min((chunks[block.source_id, chunk_id] for chunk_id in block.chunk_ids), key=lambda chunk: chunk.rank)


def _evidence(block: ContextBlock, chunk: RankedChunk) -> Evidence:
    known = chunk.chunk
    return Evidence(
        label=block.label,
        source_id=block.source_id,
        chunk_id=chunk.chunk_id,
        text=block.text,
        headings=tuple(dict.fromkeys(filter(None, (known.title, *known.heading_path)))),
        rank=block.rank,
        absolute=chunk.absolute,
        tier=chunk.authority_tier,
        effective_from=None if known.effective_from is None else known.effective_from.isoformat(),
    )
