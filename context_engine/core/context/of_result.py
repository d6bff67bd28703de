"""The context of a search result: one text, or numbered parts that together hold every passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from context_engine.core.context.assemble import assemble
from context_engine.core.context.passage import passage_of
from context_engine.core.context.render import Form
from context_engine.core.models import Context, Decision, Key, NoticeCode, OmittedPassage, RankedChunk, SearchResult
from context_engine.core.policy.masking import with_masked_chunks
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

_FOR_A_MODEL: Final = (
    NoticeCode.QUERY_CORRECTED,
    NoticeCode.PHRASE_NOT_FOUND,
    NoticeCode.FILTER_LEFT_NOTHING,
    NoticeCode.DATES_UNKNOWN,
)
"""Notices that a model must know besides the decision; their sentences hold no words of documents except spelling
suggestions."""
_AHEAD: Final = 12
"""How many of the chunks that are left a later part looks through for what fits."""


class ContextPart(NamedTuple):
    """One of the texts in which an answer is read.

    Attributes:
        keys: the chunks of this part, best first; each chunk of the answer belongs to one part.
    """

    context: Context
    keys: tuple[Key, ...]


def from_result(
    result: SearchResult,
    *,
    counter: TokenCounter,
    budget: int | None = None,
    form: Form = "markdown",
    nonce: str | None = None,
    mask: Mask | None = None,
    part: int = 1,
) -> Context:
    """Return the context of a search result.

    Args:
        budget: tokens; None takes the result's `context_max_tokens`.
        nonce: of the fences; None derives it from the search id, which no document can know beforehand.
        mask: masks personal data if the domain sets `mask_contexts` (`Engine.mask`); otherwise it is not used.
        part: the number of a part of `parts_of_result`; part 1 holds the chunks that fit the budget.

    Raises:
        InvalidRequest: as `assemble`; also if the domain masks contexts and no mask is given, or the part does not
            exist.
        MaskingError: a masker failed.
    """
    if isinstance(part, bool) or not isinstance(part, int) or part < 1:
        raise InvalidRequest(f"part must be a whole number, 1 or more, got {part!r}")
    parts = parts_of_result(result, counter=counter, budget=budget, form=form, nonce=nonce, mask=mask)
    wanted = next(islice(parts, part - 1, None), None)
    if wanted is None:
        raise InvalidRequest(f"search {result.search_id}: there is no part {part} of its answer under this budget")
    return wanted.context


def parts_of_result(
    result: SearchResult,
    *,
    counter: TokenCounter,
    budget: int | None = None,
    form: Form = "markdown",
    nonce: str | None = None,
    mask: Mask | None = None,
) -> Iterator[ContextPart]:
    """Yield an answer as texts of at most `budget` tokens each, until every chunk is in one of them.

    The first text is the context of the whole answer. Each later text is made in the same way from the best twelve
    chunks that had no room before; its labels continue the count, so that a label names one passage in all texts. A
    chunk that is longer than a whole part is cut at its end. If not even one word of a chunk fits, the chunk has a part
    of its own, whose text says so. `context_untrusted_share` applies to every part; a later part without a waiting
    trusted chunk may be filled completely. With a share of 0 no part contains untrusted text.

    Args:
        budget, nonce, mask: see `from_result`.

    Raises:
        InvalidRequest, MaskingError: see `from_result`.
    """
    mask = _context_mask(result, mask)
    notes = [_plain(notice.message, mask) for notice in result.notices if notice.code in _FOR_A_MODEL]
    missing = [source.title or source.source_id for source in result.sources if source.state in ("failed", "partial")]
    left = sorted(result.chunks, key=lambda chunk: chunk.rank)
    number, first = 1, 1
    while left or number == 1:
        considered, later = (left, []) if number == 1 else (left[:_AHEAD], left[_AHEAD:])
        made = assemble(
            considered,
            decision=result.decision,
            status=result.status,
            missing=missing,
            notes=notes,
            budget=result.settings.values.context_max_tokens if budget is None else budget,
            counter=counter,
            form=form,
            nonce=content_sha256(result.search_id)[:16] if nonce is None else nonce,
            mask=mask,
            max_untrusted_share=_share(result, considered, number),
            part=number,
            first=first,
        )
        waiting = tuple(OmittedPassage(chunk.source_id, chunk.chunk_id, chunk.rank, "budget") for chunk in later)
        made = replace(made, left_out=(*made.left_out, *waiting))
        dealt = _dealt(considered, made, result.decision)
        left = [chunk for chunk in left if _key(chunk) not in dealt]
        yield ContextPart(made, tuple(dealt))
        number, first = number + 1, first + len(made.blocks)


def _share(result: SearchResult, chunks: Sequence[RankedChunk], number: int) -> float:
    share = result.settings.values.context_untrusted_share
    return share if number == 1 or not share or any(passage_of(chunk).trusted for chunk in chunks) else 1.0


def for_a_model(result: SearchResult, mask: Mask | None) -> SearchResult:
    """Return the result with passages that may go to a model: masked if the domain sets `mask_contexts`.

    Raises:
        InvalidRequest: its domain masks contexts, and no mask is given.
        MaskingError: a masker failed.
    """
    mask = _context_mask(result, mask)
    return result if mask is None else with_masked_chunks(result, mask)


def _dealt(chunks: Sequence[RankedChunk], made: Context, decision: Decision) -> dict[Key, None]:
    """Return the chunks in a text, in their order; if the question is out of scope, all chunks count as taken."""
    shown = {(block.source_id, chunk_id) for block in made.blocks for chunk_id in block.chunk_ids}
    keys = list(map(_key, chunks))
    if decision is not Decision.OUT_OF_SCOPE:
        keys = [key for key in keys if key in shown] or keys[:1]
    return dict.fromkeys(keys)


def _key(chunk: RankedChunk) -> Key:
    return (chunk.source_id, chunk.chunk_id)


def _context_mask(result: SearchResult, mask: Mask | None) -> Mask | None:
    """Return the mask for the texts of a result; None if its domain masks nothing.

    Raises:
        InvalidRequest: its domain masks contexts, and no mask is given.
    """
    if not result.settings.values.mask_contexts:
        return None
    if mask is None:
        raise InvalidRequest(
            f"domain {result.domain!r} masks personal data in contexts (mask_contexts): pass mask=engine.mask"
        )
    return mask


def _plain(text: str, mask: Mask | None) -> str:
    return text if mask is None else mask(text)
