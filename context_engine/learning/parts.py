"""Questions cut into parts of which no two share an answer: what is learnt in one part cannot know those of another.

People ask for one passage in many words. Where two of them stand in different parts, what was learnt from one question
knows the answer of the other already, and cross-validation measures how well it remembers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from context_engine.errors import InvalidRequest

_MOST: Final = 0.5
"""Of the questions, in one group; beside a larger one there is too little to learn from."""


class QuestionParts(NamedTuple):
    """Questions in disjoint parts.

    Attributes:
        places: of the questions of each part, ascending.
        groups: how many groups there are of questions connected by answers that they share.
        largest: how many questions the largest of them has.
    """

    places: list[list[int]]
    groups: int
    largest: int

    @property
    def cut(self) -> bool:
        """Whether the largest group was too large for a part: its questions are in several."""
        return self.largest > _MOST * sum(map(len, self.places))

    def evidence(self) -> dict[str, Any]:
        """Return how questions were parted, JSON-ready."""
        sizes = [len(places) for places in self.places]
        return {"questions": sizes, "groups": self.groups, "largest_group": self.largest, "cut": self.cut}


def parts_of(texts: Sequence[str], answers: Sequence[Iterable[Hashable]] | None, count: int) -> QuestionParts:
    """Return questions in parts of about one size: the same for the same questions in any order.

    Questions that share an answer, directly or through others, are in one part, and so are those of one text. The
    largest groups are placed first, each in the smallest part. Only a group of more than half of all questions is cut;
    who learns from parts that are cut leaves out what answers a question held out.

    Args:
        texts: of the questions.
        answers: of each question; None: only questions of one text are kept together.
        count: parts, >= 2; where there are fewer groups, there are fewer parts.

    Raises:
        InvalidRequest: fewer than two parts, or more than different questions.
    """
    names = list(map(_one_text, texts))
    if not 2 <= count <= len(set(names)):
        raise InvalidRequest(f"folds must be from 2 to the number of judged questions ({len(set(names))}), got {count}")
    shared = answers or [()] * len(names)
    groups = _connected(range(len(names)), [{("text", name), *own} for name, own in zip(names, shared, strict=True)])
    largest = max(groups, key=len)
    found = QuestionParts([list(range(len(names)))], len(groups), len(largest))
    if found.cut:
        groups.remove(largest)
        groups += _connected(largest, [{name} for name in names])
    parts: list[list[int]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(groups, key=lambda one: (-len(one), min(_digest(names[place]) for place in one))):
        min(parts, key=len).extend(group)
    return found._replace(places=[sorted(part) for part in parts])


def _one_text(text: str) -> str:
    """Return a text with case and spaces normalised."""
    return " ".join(text.casefold().split())


def _connected(places: Iterable[int], keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Return some places in groups: two are in one where they share a key, directly or through others."""
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
