"""The whole text and its measure: what stands around the blocks, and that all of it keeps to the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import starmap
from typing import Final, NamedTuple

from context_engine.core.context.attribution import attributions, sections, title
from context_engine.core.context.choose import ChosenPassages, choose
from context_engine.core.context.line import one_line
from context_engine.core.context.merge import JoinedPassage
from context_engine.core.context.passage import Passage
from context_engine.core.context.render import Form, is_markdown, render, separator
from context_engine.core.models import Citation, Context, ContextBlock, OmittedPassage
from context_engine.core.protocols import Mask, TokenCounter

NOTHING_FOUND: Final = "No relevant information found"
NOTHING_FITS: Final = "Relevant passages were found, but none of them fits into this context."
BEST_LEFT_OUT: Final = "Note: the most relevant passage does not fit into this context."


class Frame(NamedTuple):
    """What a text has to keep to.

    Attributes:
        share: the part of the budget, [0, 1], for untrusted blocks together.
        mask: what the text of every block passes; None for a text as it is.
        part, first: the number of the text among those of one answer, and of its first label.
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

    @property
    def untrusted_room(self) -> int:
        """Tokens for untrusted blocks together."""
        return int(self.share * self.budget)


def page(passages: Sequence[Passage], frame: Frame, left_out: Sequence[OmittedPassage] = ()) -> Context:
    """Return passages, best first, as a context within the frame.

    Args:
        left_out: what was left out before.
    """
    if frame.mask is not None:
        mask = cache(frame.mask)  # a block is priced and shown several times
        frame, passages = frame._replace(mask=mask), [passage.masked_labels(mask) for passage in passages]
    selection = _selected(passages, frame)
    if selection.blocks and any(one.rank == passages[0].rank and one.reason == "budget" for one in selection.left_out):
        noted = frame._replace(notes=(*frame.notes, BEST_LEFT_OUT))
        with_note = _selected(passages, noted)
        frame, selection = (noted, with_note) if with_note.blocks else (frame, selection)
    blocks = selection.blocks
    named = attributions(blocks, frame.nonce)
    placed = list(_placed(blocks, named, frame))
    text = _text(blocks, frame) if blocks else _without_blocks(frame, found=bool(passages))
    return Context(
        text=text,
        tokens=frame.counter.count(text),
        budget=frame.budget,
        blocks=tuple(starmap(partial(_block, frame), placed)),
        citations=tuple(starmap(partial(_citation, frame), placed)),
        left_out=tuple(sorted([*left_out, *selection.left_out], key=lambda one: one.rank)),
        notes=frame.notes,
        form=frame.form,
        nonce=frame.nonce,
        counter=frame.counter.name,
        part=frame.part,
    )


def _selected(passages: Sequence[Passage], frame: Frame) -> ChosenPassages:
    """Return what fits: blocks are priced one by one, then the whole is counted and the last ones are taken back."""
    tokens, last = frame.counter.count, frame.first + len(passages) - 1

    def price(block: JoinedPassage) -> int:
        heading = _heading(last, attributions([block], frame.nonce)[0])
        return tokens(separator(frame.form) + _rendered(block, heading, frame))

    room = frame.budget - tokens(_head(len(passages), frame))
    selection = choose(passages, price, room=room, untrusted_room=frame.untrusted_room, mask=frame.mask)
    while blocks := selection.blocks:
        if _untrusted_tokens(blocks, frame) > frame.untrusted_room:
            selection.take_back(only_untrusted=True)
        elif tokens(_text(blocks, frame)) > frame.budget:
            selection.take_back()
        else:
            break
    return selection


def _untrusted_tokens(blocks: Sequence[JoinedPassage], frame: Frame) -> int:
    placed = _placed(blocks, attributions(blocks, frame.nonce), frame)
    return sum(_block(frame, *one).tokens for one in placed if not one[1].best.trusted)


def _placed(
    blocks: Sequence[JoinedPassage], named: Sequence[str], frame: Frame
) -> Iterator[tuple[int, JoinedPassage, str]]:
    """Yield each block with its place in the answer, 1-based, and what it is cited as."""
    yield from zip(range(frame.first, frame.first + len(blocks)), blocks, named)


def _label(place: int) -> str:
    return f"[{place}]"


def _heading(place: int, attribution: str) -> str:
    return f"{_label(place)} {attribution}"


def _head(count: int, frame: Frame) -> str:
    lines = [f"{'## ' if is_markdown(frame.form) else ''}{frame.heading}", ""] if frame.heading else []
    passages = "1 passage" if count == 1 else f"{count} passages, the most relevant first"
    return "\n".join([*lines, f"{passages}. Cite by label, such as {_label(frame.first)}.", *frame.notes])


def _text(blocks: Sequence[JoinedPassage], frame: Frame) -> str:
    placed = _placed(blocks, attributions(blocks, frame.nonce), frame)
    rendered = [_rendered(block, _heading(place, name), frame) for place, block, name in placed]
    return f"{_head(len(blocks), frame)}\n\n{separator(frame.form).join(rendered)}"


def _rendered(block: JoinedPassage, heading: str, frame: Frame) -> str:
    """Return a block as the reader sees it; masked whole, for what two neighbours share may be split in each."""
    return render(block._replace(text=_shown(block, frame)), heading, frame.form, frame.nonce)


def _shown(block: JoinedPassage, frame: Frame) -> str:
    return block.text if frame.mask is None else frame.mask(block.text)


def _without_blocks(frame: Frame, *, found: bool) -> str:
    """Return the sentence that stands alone, with the notes if they fit; nothing if even the sentence does not."""
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
