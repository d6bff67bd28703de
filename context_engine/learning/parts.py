"""Divide questions into parts that share no answers, so that learning from one part reveals nothing about another.

People ask for one passage in many wordings. If two wordings are in different parts, learning from one already reveals
the answer of the other, and cross-validation measures memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from context_engine.errors import InvalidRequest

_MOST: Final = 0.5
"""Largest share of the questions in one group; a larger group leaves too little to learn from."""


class QuestionParts(NamedTuple):
    """Questions in disjoint parts.

    Attributes:
        places: the places of the questions of each part, ascending.
        groups: number of groups of questions connected by shared answers.
        largest: number of questions in the largest group.
    """

    places: list[list[int]]
    groups: int
    largest: int

    @property
    def cut(self) -> bool:
        """Whether the largest group was too large for a part and was divided."""
        return self.largest > _MOST * sum(map(len, self.places))

    def evidence(self) -> dict[str, Any]:
        """Return a description of the division, JSON-ready."""
        sizes = [len(places) for places in self.places]
        return {"questions": sizes, "groups": self.groups, "largest_group": self.largest, "cut": self.cut}


def parts_of(texts: Sequence[str], answers: Sequence[Iterable[Hashable]] | None, count: int) -> QuestionParts:
    """Divide questions into parts of about equal size, independent of their order.

    Questions that share an answer, directly or through others, are in one part, and so are those of equal text. The
    largest groups are placed first, each in the smallest part. Only a group of more than half of all questions is
    divided; learning must then leave out what answers a held-out question.

    Args:
        texts: of the questions.
        answers: of each question; None: only questions of equal text are kept together.
        count: number of parts, >= 2; fewer if there are fewer groups.

    Raises:
        InvalidRequest: fewer than two parts, or more than different questions.
    """
    names = list(map(_one_text, texts))
    if not 2 <= count <= len(set(names)):
        raise InvalidRequest(f"folds must be from 2 to the number of judged questions ({len(set(names))}), got {count}")
    shared = answers or [()] * len(names)
    groups = _connected(range(len(names)), [{("text", name), *own} for name, own in zip(names, shared, strict=True)])
    largest = max(groups, key=len)
    question_parts = QuestionParts([list(range(len(names)))], len(groups), len(largest))
    if question_parts.cut:
        groups.remove(largest)
        groups += _connected(largest, [{name} for name in names])
    parts: list[list[int]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(groups, key=lambda members: (-len(members), min(_digest(names[place]) for place in members))):
        min(parts, key=len).extend(group)
    return question_parts._replace(places=[sorted(part) for part in parts])


def _one_text(text: str) -> str:
    """Return a text with case and spaces normalised."""
    return " ".join(text.casefold().split())


def _connected(places: Iterable[int], keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Group places that share a key, directly or through others."""
    leader: dict[int, int] = {}
    first: dict[Hashable, int] = {}

    def found(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    for place in places:
        leader[place] = place
        for key in keys[place]:
            leader[found(place)] = found(first.setdefault(key, place))
    groups: dict[int, list[int]] = {}
    for place in leader:
        groups.setdefault(found(place), []).append(place)
    return list(groups.values())


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
