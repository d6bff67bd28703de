"""Which questions a knowledge base can answer: the threshold that its own content gives, and the one in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeCalibration:
    """Where the questions that a base can answer begin, on the scale of the absolute relevance.

    It holds for one domain, one signal and one embedder: under another the same question has another value.

    Attributes:
        threshold: the best absolute relevance below which a question is out of scope, [0, 1].
        strong: the absolute relevance from which a text is strong evidence, [threshold, 1].
        signal: version of the absolute relevance that was measured.
        model_id: of the embedder; "" for words alone.
        own: sentences and headings of the base that were asked for.
        judged: questions with judged answers that were asked.
        outside: off-topic questions that were asked.
        chunks: how many the domain's sources had.
    """

    threshold: float
    strong: float
    signal: str
    model_id: str = ""
    own: int = 0
    judged: int = 0
    outside: int = 0
    chunks: int = 0


class ScopeThreshold(NamedTuple):
    """The scope threshold that a search ran with.

    Attributes:
        value: the best absolute relevance below which a question is out of scope, [0, 1].
        origin: "calibrated" or "measured default" where the setting is `auto`; "" where the setting itself says it.
        weak_below: the absolute relevance below which a text is weak evidence, [0, 1].
        strong_from: that from which it is strong evidence, [weak_below, 1].
    """

    value: float
    origin: str
    weak_below: float
    strong_from: float
