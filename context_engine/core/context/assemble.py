"""Assemble ranked chunks into one text within a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import count, starmap
from typing import Final, NamedTuple

from context_engine.core.context.choose import ChosenPassages, choose
from context_engine.core.context.fence import checked_nonce
from context_engine.core.context.passage import BlockKey, JoinedPassage, Passage, passage_of
from context_engine.core.context.render import (
    FORMS,
    Form,
    attributions,
    below_heading,
    headed,
    is_markdown,
    one_line,
    sections,
    separator,
    title,
)
from context_engine.core.models import Citation, Context, ContextBlock, Decision, OmittedPassage, RankedChunk, Status
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

    Chunks are chosen by rank while they fit; neighbours of one document become one block; blocks are in the order of
    their best rank, so the most important text comes first and the labels rise. No block is moved to the end to
    compensate for a model's weak middle: whether that helps depends on the model, and labels would no longer follow the
    ranks. If the question is out of scope or nothing was returned, the text is "No relevant information found".

    Args:
        chunks: in any order; `rank` decides.
        missing: names of the sources that did not answer, for the note.
        notes: further sentences about the answer.
        budget: most tokens of the whole text, at least 1.
        nonce: 6 to 64 letters, digits, "_" or "-" that no document can guess.
        heading: first line, None for none.
        max_untrusted_share: [0, 1], the share of the budget for all fenced blocks together.
        mask: masks every part of a passage that is shown, except ids, path and address; None: nothing is masked.
        part, first: the number of this text among the texts of one answer, and the number of its first label.

    Raises:
        InvalidRequest: a budget, share, form or nonce that cannot be used.
        MaskingError: a masker failed.
    """
    frame = checked_frame(Frame(counter, budget, form, nonce, heading, max_untrusted_share, (), mask, part, first))
    frame = frame._replace(
        notes=(*_notes(decision, status, missing), *(f"Note: {' '.join(note.split())}." for note in notes))
    )
    if decision is Decision.OUT_OF_SCOPE:
        return page(
            (), frame, [OmittedPassage(chunk.source_id, chunk.chunk_id, chunk.rank, "out_of_scope") for chunk in chunks]
        )
    return page(sorted((passage_of(chunk) for chunk in chunks), key=lambda passage: passage.rank), frame)


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


NOTHING_FOUND: Final = "No relevant information found"
NOTHING_FITS: Final = "Relevant passages were found, but none of them fits into this context."
BEST_LEFT_OUT: Final = "Note: the most relevant passage does not fit into this context."


class Frame(NamedTuple):
    """The limits and options of a text.

    Attributes:
        share: the part of the budget, [0, 1], for untrusted blocks together.
        mask: applied to the text of every block; None: unmasked.
        part, first: the number of the text among the texts of one answer, and the number of its first label.
        drawn: the lines of the blocks below their headings, as far as they are known.
    """

    counter: TokenCounter
    budget: int
    form: Form
    nonce: str
    heading: str | None
    share: float
    notes: tuple[str, ...] = ()
    mask: Mask | None = None
    part: int = 1
    first: int = 1
    drawn: dict[BlockKey, str] | None = None

    @property
    def untrusted_room(self) -> int:
        """Tokens for untrusted blocks together."""
        return int(self.share * self.budget)


def page(passages: Sequence[Passage], frame: Frame, left_out: Sequence[OmittedPassage] = ()) -> Context:
    """Return passages, best first, as a context within the frame."""
    frame = _working_once(frame)
    if frame.mask is not None:
        passages = [passage.masked_labels(frame.mask) for passage in passages]
    selection = _selected(passages, frame)
    if selection.blocks and any(
        passage.rank == passages[0].rank and passage.reason == "budget" for passage in selection.left_out
    ):
        noted = frame._replace(notes=(*frame.notes, BEST_LEFT_OUT))
        with_note = _selected(passages, noted)
        frame, selection = (noted, with_note) if with_note.blocks else (frame, selection)
    blocks = selection.blocks
    placed = list(_placed(blocks, frame))
    text = _text(placed, frame) if blocks else _without_blocks(frame, found=bool(passages))
    return Context(
        text=text,
        tokens=frame.counter.count(text),
        budget=frame.budget,
        blocks=tuple(starmap(partial(_block, frame), placed)),
        citations=tuple(starmap(partial(_citation, frame), placed)),
        left_out=tuple(sorted([*left_out, *selection.left_out], key=lambda passage: passage.rank)),
        notes=frame.notes,
        form=frame.form,
        nonce=frame.nonce,
        counter=frame.counter.name,
        part=frame.part,
    )


class _CountingOnce:
    """Counts each text once."""

    def __init__(self, counter: TokenCounter) -> None:
        self.name, self.count = counter.name, cache(counter.count)


def _working_once(frame: Frame) -> Frame:
    """Return the frame for one text: a block is priced and shown several times, but masked and drawn once."""
    mask = None if frame.mask is None else cache(frame.mask)
    return frame._replace(counter=_CountingOnce(frame.counter), mask=mask, drawn={})


def _selected(passages: Sequence[Passage], frame: Frame) -> ChosenPassages:
    """Return the passages that fit: blocks are priced one by one; then the whole text is counted, and the last blocks
    are removed if it is too long.
    """
    tokens, last = frame.counter.count, frame.first + len(passages) - 1

    def price(block: JoinedPassage) -> int:
        heading = _heading(last, attributions([block], frame.nonce)[0])
        return tokens(separator(frame.form) + _rendered(block, heading, frame))

    room = frame.budget - tokens(_head(len(passages), frame))
    selection = choose(passages, price, room=room, untrusted_room=frame.untrusted_room, mask=frame.mask)
    while blocks := selection.blocks:
        if _untrusted_tokens(blocks, frame) > frame.untrusted_room:
            selection.take_back(only_untrusted=True)
        elif tokens(_text(list(_placed(blocks, frame)), frame)) > frame.budget:
            selection.take_back()
        else:
            break
    return selection


def _untrusted_tokens(blocks: Sequence[JoinedPassage], frame: Frame) -> int:
    if all(block.best.trusted for block in blocks):
        return 0
    placed = _placed(blocks, frame)
    return sum(_block(frame, *block).tokens for block in placed if not block[1].best.trusted)


_Placed = tuple[int, JoinedPassage, str]


def _placed(blocks: Sequence[JoinedPassage], frame: Frame) -> Iterator[_Placed]:
    """Yield each block with its 1-based place in the answer and its attribution."""
    return zip(count(frame.first), blocks, attributions(blocks, frame.nonce))


def _label(place: int) -> str:
    return f"[{place}]"


def _heading(place: int, attribution: str) -> str:
    return f"{_label(place)} {attribution}"


def _head(number: int, frame: Frame) -> str:
    lines = [f"{'## ' if is_markdown(frame.form) else ''}{frame.heading}", ""] if frame.heading else []
    passages = "1 passage" if number == 1 else f"{number} passages, the most relevant first"
    return "\n".join([*lines, f"{passages}. Cite by label, such as {_label(frame.first)}.", *frame.notes])


def _text(placed: Sequence[_Placed], frame: Frame) -> str:
    rendered = [_rendered(block, _heading(place, name), frame) for place, block, name in placed]
    return f"{_head(len(placed), frame)}\n\n{separator(frame.form).join(rendered)}"


def _rendered(block: JoinedPassage, heading: str, frame: Frame) -> str:
    """Return a block as the reader sees it. The whole block is masked at once, because a value may span two
    passages.
    """
    drawn, key = frame.drawn, block.key
    assert drawn is not None
    if key not in drawn:
        drawn[key] = below_heading(block._replace(text=_shown(block, frame)), frame.form, frame.nonce)
    return headed(heading, drawn[key], frame.form)


def _shown(block: JoinedPassage, frame: Frame) -> str:
    return block.text if frame.mask is None else frame.mask(block.text)


def _without_blocks(frame: Frame, *, found: bool) -> str:
    """Return the sentence for a context without passages, with the notes if they fit; "" if even it does not fit."""
    sentence = NOTHING_FITS if found else NOTHING_FOUND
    for text in ("\n".join([sentence, *frame.notes]), sentence):
        if frame.counter.count(text) <= frame.budget:
            return text
    return ""


def _block(frame: Frame, place: int, block: JoinedPassage, attribution: str) -> ContextBlock:
    best = block.best
    return ContextBlock(
        label=_label(place),
        rank=best.rank,
        source_id=best.source_id,
        chunk_ids=tuple(part.chunk_id for part in block.parts),
        text=_shown(block, frame),
        span=(block.start, block.start + len(block.text)) if block.parts[0].chunk.span else None,
        tokens=frame.counter.count(_rendered(block, _heading(place, attribution), frame)),
        trusted=best.trusted,
        truncated=block.truncated,
        relevance=best.relevance,
        score=best.final,
    )


def _citation(frame: Frame, place: int, block: JoinedPassage, attribution: str) -> Citation:
    best, where = block.best, sections(block)
    return Citation(
        label=_label(place),
        source_id=best.source_id,
        chunk_ids=tuple(part.chunk_id for part in block.parts),
        document_id=best.chunk.document_id,
        document_version=best.chunk.document_version,
        title=one_line(title(best), frame.nonce),
        section=None if where is None else one_line(where, frame.nonce),
        attribution=attribution,
        path=best.chunk.path,
        page=best.chunk.page,
        url=best.url,
        authority_tier=best.tier,
        source_type=None if best.source_type is None else str(best.source_type),
    )
