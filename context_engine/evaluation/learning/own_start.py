"""Learn an adapter from pairs made of the store's own texts, as a start for learning from judged questions.

A piece of a passage is not a question. The gain is measured on held-out documents and shows only that the adapter has
learnt to find passages by their pieces; only judged questions can show whether it helps users. The number of rounds is
chosen on other held-out documents, so that the reported gain is unbiased.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from context_engine.core.models import HeldVectors
from context_engine.core.protocols import Embedder
from context_engine.errors import InvalidRequest
from context_engine.evaluation.learning.folds import best_rounds, learn_all, learn_by_folds
from context_engine.evaluation.metrics import Paired, paired_bootstrap
from context_engine.learning.contrast import Lessons, Maps, lessons_of
from context_engine.learning.pairs import MOST_PAIRS, TrainingPairs, own_pairs
from context_engine.learning.parts import parts_of

FEWEST_PAIRS: Final = 500
"""Fewest own pairs to learn from."""

_MEASURES: Final = ("AP@10", "R@10")
_PARTS: Final = 10
"""Number of parts of the pairs: one chooses the rounds, one measures the gain, the others are for learning."""


class OwnStart(NamedTuple):
    """The result of learning from own pairs.

    Attributes:
        maps: the learnt maps; None if held-out pairs are not found better beyond noise.
        kinds: number of pairs of each kind.
        rounds: number of rounds learnt.
        choosing: number of held-out pairs that chose the rounds.
        aside: number of held-out pairs that measure the gain.
        before, gain: AP@10 of the latter by the model's cosine, and its change by learning.
    """

    maps: Maps | None
    kinds: Mapping[str, int]
    rounds: int
    choosing: int
    aside: int
    before: float
    gain: Paired

    def evidence(self) -> dict[str, Any]:
        """Return the measurements, JSON-ready."""
        return {
            "pairs": dict(self.kinds),
            "rounds": self.rounds,
            "held_aside": self.aside,
            "rounds_chosen_on": self.choosing,
            "measure": _MEASURES[0],
            "before": self.before,
            **self.gain._asdict(),
        }


def learn_own(vectors: HeldVectors, embedder: Embedder, *, most: int = MOST_PAIRS) -> OwnStart:
    """Learn from pairs of the store's own texts; documents with two tenths of the pairs are held out.

    Raises:
        InvalidRequest: too few pairs.
        EmbedderError: the model failed.
    """
    pairs = own_pairs(vectors.chunks, most=most)
    if len(pairs) < FEWEST_PAIRS:
        raise InvalidRequest(
            f"the store's texts give {len(pairs)} pairs, and at least {FEWEST_PAIRS} are needed: leave out "
            "--own-pairs, or ingest more"
        )
    taught = TrainingPairs([pair.question for pair in pairs], [list(pair.answers) for pair in pairs])
    lessons = lessons_of(taught, vectors, embedder)
    seed = lessons.seed(embedder.model_id)
    choosing, aside = _asides(lessons, vectors)
    dense = learn_by_folds(lessons, [choosing + aside], measures=_MEASURES, seed=seed, apart=True).dense
    rounds = best_rounds(dense, choosing, _MEASURES[0])
    before, after = ([dense[count][place][_MEASURES[0]] for place in aside] for count in (0, rounds))
    gain = paired_bootstrap(after, before)
    better = rounds > 0 and gain.beyond_noise and gain.mean > 0.0
    return OwnStart(
        maps=learn_all(lessons, rounds, seed=seed) if better else None,
        kinds=Counter(pair.kind for pair in pairs),
        rounds=rounds,
        choosing=len(choosing),
        aside=len(aside),
        before=sum(before) / len(before),
        gain=gain,
    )


def _asides(lessons: Lessons, vectors: HeldVectors) -> tuple[list[int], list[int]]:
    """Return the places of two tenths of the pairs that share no document with each other or the rest.

    If there are too few documents, or one has too many pairs, they only share no passage.
    """
    documents = [{vectors.document_ids[row] for row in rows} for rows in lessons.chunks]
    for names in (documents, lessons.answers):
        division = parts_of(lessons.texts, names, _PARTS)
        parts = sorted(division.places, key=len)
        if not division.cut and len(parts) == _PARTS and 2 * _PARTS * len(parts[0]) >= len(lessons.texts):
            break
    return parts[0], parts[1]
