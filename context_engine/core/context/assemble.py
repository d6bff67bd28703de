"""A ranked result as one text under a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.context.fence import checked_nonce
from context_engine.core.context.page import Frame, page
from context_engine.core.context.passage import passage_of
from context_engine.core.context.render import Form
from context_engine.core.context.values import Context, OmittedPassage
from context_engine.core.models import Decision, NoticeCode, RankedChunk, SearchResult, Status
from context_engine.core.policy.masked import with_masked_chunks
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

__all__ = ["assemble", "checked_frame", "context_mask", "for_a_model", "from_result"]

UNTRUSTED_SHARE: Final = 0.25
HEADING: Final = "Context"
_MOST_NAMES: Final = 5
_FOR_A_MODEL: Final = (
    NoticeCode.QUERY_CORRECTED,
    NoticeCode.PHRASE_NOT_FOUND,
    NoticeCode.FILTER_LEFT_NOTHING,
    NoticeCode.DATES_UNKNOWN,
)
"""What a model must know of an answer beside its decision; none of these sentences holds words of a document but those
that stand for misspelt ones."""


def from_result(
    result: SearchResult,
    *,
    counter: TokenCounter,
    budget: int | None = None,
    form: Form = "markdown",
    nonce: str | None = None,
    mask: Mask | None = None,
) -> Context:
    """Return the context of a search result.

    Args:
        budget: tokens; None takes the result's `context_max_tokens`.
        nonce: of the fences; None derives it from the search id, which no document can know beforehand.
        mask: masks personal data where the domain sets `mask_contexts`: `Engine.mask`. Elsewhere it is not used.

    Raises:
        InvalidRequest: as `assemble`, and a result of a domain that masks contexts without a mask.
        MaskingError: a masker failed.
    """
    mask = context_mask(result, mask)
    return assemble(
        result.chunks,
        decision=result.decision,
        status=result.status,
        missing=[
            source.title or source.source_id for source in result.sources if source.state in ("failed", "partial")
        ],
        notes=[_plain(notice.message, mask) for notice in result.notices if notice.code in _FOR_A_MODEL],
        budget=result.settings.values.context_max_tokens if budget is None else budget,
        counter=counter,
        form=form,
        nonce=content_sha256(result.search_id)[:16] if nonce is None else nonce,
        mask=mask,
        max_untrusted_share=result.settings.values.context_untrusted_share,
    )


def context_mask(result: SearchResult, mask: Mask | None) -> Mask | None:
    """Return what masks what goes to a model of a result; None where its domain masks nothing.

    Raises:
        InvalidRequest: its domain does, and no mask is given.
    """
    if not result.settings.values.mask_contexts:
        return None
    if mask is None:
        raise InvalidRequest(
            f"domain {result.domain!r} masks personal data in contexts (mask_contexts): pass mask=engine.mask"
        )
    return mask


def for_a_model(result: SearchResult, mask: Mask | None) -> SearchResult:
    """Return a result whose passages may go to a model: masked where its domain sets `mask_contexts`.

    Raises:
        InvalidRequest: its domain does, and no mask is given.
        MaskingError: a masker failed.
    """
    mask = context_mask(result, mask)
    return result if mask is None else with_masked_chunks(result, mask)


def _plain(text: str, mask: Mask | None) -> str:
    return text if mask is None else mask(text)


def assemble(
    chunks: Sequence[RankedChunk],
    *,
    decision: Decision = Decision.ANSWERED,
    status: Status = Status.COMPLETE,
    missing: Sequence[str] = (),
    notes: Sequence[str] = (),
    budget: int,
    counter: TokenCounter,
    form: Form = "markdown",
    nonce: str,
    heading: str | None = HEADING,
    max_untrusted_share: float = UNTRUSTED_SHARE,
    mask: Mask | None = None,
) -> Context:
    """Return ranked chunks as one text of at most `budget` tokens, with labels, origins and attributions.

    Chunks are chosen by rank while they fit; neighbours of one document become one block; blocks stand in the order of
    their best rank, so that what matters most comes first and labels rise as one reads. No block is moved to the end
    against a model's weak middle: whether that helps depends on the model, and it would part label from rank.
    Where the question is out of scope or nothing was returned the text is "No relevant information found".

    Args:
        chunks: in any order; `rank` decides.
        missing: names of the sources that did not answer, for the note.
        notes: further sentences on how the answer is to be read.
        budget: tokens, at least 1, of the whole text.
        nonce: 6 to 64 letters, digits, "_" or "-" that no document can guess.
        heading: first line, None for none.
        max_untrusted_share: [0, 1], the part of the budget that fenced blocks may take together.
        mask: what all that is shown of a passage passes, its ids, path and address excepted; None for none.

    Raises:
        InvalidRequest: a budget, share, form or nonce that cannot be used.
        MaskingError: a masker failed.
    """
    frame = checked_frame(Frame(counter, budget, form, nonce, heading, max_untrusted_share, mask=mask))
    frame = frame._replace(
        notes=(*_notes(decision, status, missing), *(f"Note: {' '.join(one.split())}." for one in notes))
    )
    if decision is Decision.OUT_OF_SCOPE:
        return page(
            (), frame, [OmittedPassage(one.source_id, one.chunk_id, one.rank, "out_of_scope") for one in chunks]
        )
    return page(sorted((passage_of(chunk) for chunk in chunks), key=lambda one: one.rank), frame)


def checked_frame(frame: Frame) -> Frame:
    """Return the frame if it can be kept to.

    Raises:
        InvalidRequest: a budget, share, form or nonce that cannot be used.
    """
    checked_nonce(frame.nonce)
    budget, share = frame.budget, frame.share
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidRequest(f"budget must be a whole number, 1 or more, got {budget!r}")
    if frame.form not in ("markdown", "text"):
        raise InvalidRequest(f"form must be 'markdown' or 'text', got {frame.form!r}")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
        raise InvalidRequest(f"max_untrusted_share must be from 0 to 1, got {share!r}")
    return frame


def _notes(decision: Decision, status: Status, missing: Sequence[str]) -> tuple[str, ...]:
    if missing:
        names = ", ".join(" ".join(str(name).split()) for name in missing[:_MOST_NAMES])
        more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
        word = "source" if len(missing) == 1 else "sources"
        return (f"Note: the answer may be incomplete: {word} {names}{more} did not answer.",)
    if decision is Decision.INCOMPLETE:
        return ("Note: the answer may be incomplete: required evidence was not found.",)
    if status is not Status.COMPLETE:
        return ("Note: the answer may be incomplete: a stage of the search failed.",)
    return ()
