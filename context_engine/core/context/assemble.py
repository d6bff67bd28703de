"""Ranked chunks as one text under a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.context.fence import checked_nonce
from context_engine.core.context.page import Frame, page
from context_engine.core.context.passage import passage_of
from context_engine.core.context.render import FORMS, Form
from context_engine.core.models import Context, Decision, OmittedPassage, RankedChunk, Status
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.errors import InvalidRequest

UNTRUSTED_SHARE: Final = 0.25
HEADING: Final = "Context"
_MOST_NAMES: Final = 5


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
    part: int = 1,
    first: int = 1,
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
        part, first: the number of this text among those of one answer, and of its first label.

    Raises:
        InvalidRequest: a budget, share, form or nonce that cannot be used.
        MaskingError: a masker failed.
    """
    frame = checked_frame(Frame(counter, budget, form, nonce, heading, max_untrusted_share, (), mask, part, first))
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
    if frame.form not in FORMS:
        raise InvalidRequest(f"form must be one of {', '.join(FORMS)}, got {frame.form!r}")
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
