"""Which passages get into a budget: by rank, each if it still fits."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from context_engine.core.context.passage import BlockKey, JoinedPassage, Passage, document_key, joined
from context_engine.core.models import OmittedPassage
from context_engine.core.protocols import Mask

_SENTENCE_END: Final = re.compile(r"[.!?][\"'”’)\]]*(?=\s)|[。！？]|\n")
_WORD_END: Final = re.compile(r"\S(?=\s)")
Reason = Literal["budget", "untrusted_share"]


class ChosenPassages:
    """The passages chosen so far and their cost.

    Args:
        price: tokens of a block. The sum over all blocks is compared with the room; the whole text is counted later.
        room: tokens for all blocks.
        untrusted_room: tokens for blocks that are not trusted, part of `room`.
    """

    def __init__(self, price: Callable[[JoinedPassage], int], room: int, untrusted_room: int) -> None:
        self._price, self._room, self._untrusted_room = price, room, untrusted_room
        self._groups: dict[tuple[object, ...], list[Passage]] = {}
        self._costs: dict[tuple[object, ...], int] = {}
        self._prices: dict[BlockKey, int] = {}
        self.left_out: list[OmittedPassage] = []

    @property
    def passages(self) -> list[Passage]:
        """The chosen passages, best first."""
        return sorted(
            (passage for group in self._groups.values() for passage in group), key=lambda passage: passage.rank
        )

    @property
    def blocks(self) -> list[JoinedPassage]:
        """The chosen passages with neighbours joined, in the order of their best rank."""
        return sorted(
            (block for group in self._groups.values() for block in joined(group)), key=lambda block: block.best.rank
        )

    def added(self, passage: Passage) -> int:
        """Return the tokens that a passage would add; fewer than its length if it continues a chosen passage."""
        key = document_key(passage)
        return self._cost([*self._groups.get(key, ()), passage]) - self._costs.get(key, 0)

    def room_for(self, passage: Passage) -> tuple[int, Reason]:
        """Return the tokens left for a passage and what bounds them."""
        room = self._room - sum(self._costs.values())
        if passage.trusted:
            return room, "budget"
        untrusted = sum(cost for key, cost in self._costs.items() if not self._groups[key][0].trusted)
        share = self._untrusted_room - untrusted
        return (room, "budget") if room <= share else (share, "untrusted_share")

    def add(self, passage: Passage) -> bool:
        """Choose a passage if it fits; return whether it did."""
        added = self.added(passage)
        if added > self.room_for(passage)[0]:
            return False
        key = document_key(passage)
        self._groups.setdefault(key, []).append(passage)
        self._costs[key] = self._costs.get(key, 0) + added
        return True

    def leave_out(self, passage: Passage) -> None:
        """Record why a passage that does not fit is not in the text."""
        room, reason = self.room_for(passage)
        self._note(passage, reason, self.added(passage), room)

    def take_back(self, *, only_untrusted: bool = False) -> None:
        """Leave out the last chosen passage, because the assembled blocks are longer than the sum of their prices."""
        last = [passage for passage in self.passages if not (only_untrusted and passage.trusted)][-1]
        key = document_key(last)
        before = self._costs[key]
        self._groups[key].remove(last)
        self._costs[key] = self._cost(self._groups[key])
        self._note(last, "untrusted_share" if only_untrusted else "budget", before - self._costs[key], 0)
        if not self._groups[key]:
            del self._groups[key], self._costs[key]

    def _note(self, passage: Passage, reason: Reason, tokens: int, room: int) -> None:
        self.left_out.append(OmittedPassage(*passage.key, passage.rank, reason, tokens, max(0, room)))

    def _cost(self, group: Iterable[Passage]) -> int:
        return sum(self._priced(block) for block in joined(list(group)))

    def _priced(self, block: JoinedPassage) -> int:
        """A block is priced once, however often its document is looked at."""
        key = block.key
        if key not in self._prices:
            self._prices[key] = self._price(block)
        return self._prices[key]


def choose(
    passages: Sequence[Passage],
    price: Callable[[JoinedPassage], int],
    *,
    room: int,
    untrusted_room: int,
    mask: Mask | None = None,
) -> ChosenPassages:
    """Return the passages that fit, best first; a passage that does not fit is left out, and the next ones are tried.

    Only the best passage is cut, if it is too long alone: after a sentence, or after a word if no sentence fits.

    Args:
        passages: best first.
        mask: applied to the text of a block; a passage is masked before it is cut, so that no cut goes through a
            number and leaves a part of it.
    """
    selection = ChosenPassages(price, room, untrusted_room)
    for index, passage in enumerate(passages):
        if not (
            selection.add(passage) or (index == 0 and _add_cut(passage.masked(mask) if mask else passage, selection))
        ):
            selection.leave_out(passage)
    return selection


def _add_cut(passage: Passage, selection: ChosenPassages) -> bool:
    """Choose the passage up to the last sentence that fits, else the last word; return whether at least one word
    fitted.
    """
    content = passage.chunk.content
    lead = len(content) - len(content.lstrip())
    room = selection.room_for(passage)[0]
    for part in (_SENTENCE_END, _WORD_END):
        ends = [match.end() for match in part.finditer(content, lead)]
        fitting = bisect_right(ends, room, key=lambda end: selection.added(passage.cut(end)))
        if fitting > 0 and selection.add(passage.cut(len(content[: ends[fitting - 1]].rstrip()))):
            return True
    return False
