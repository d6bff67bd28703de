"""What a base is taught from, whoever made it: questions with the passages that answer them."""

from __future__ import annotations

from typing import NamedTuple


class TrainingPairs(NamedTuple):
    """Questions and what answers them.

    Attributes:
        questions: their texts.
        passages: of each question the rows of the held vectors that answer it, at least one.
    """

    questions: list[str]
    passages: list[list[int]]
