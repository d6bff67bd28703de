"""What a base learns from the pairs that it makes itself: where the learning from judged questions may begin.

A piece of a passage is no question. That an adapter finds the passages of pieces better is measured on documents it
was not shown, and says no more than that it has learnt; whether it helps who asks, judged questions alone can say.
How long is learnt is chosen on other documents again, so that the gain is none that was looked for.
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
"""Of the pairs; one chooses, one reports, the others are learnt from."""


class OwnStart(NamedTuple):
    """The result of learning from own pairs.

    Attributes:
        maps: None if pairs held aside are found no better, beyond noise.
        kinds: how many pairs of each kind.
        rounds: how long was learnt.
        choosing: pairs held aside for whom so many rounds are best.
        aside: other pairs held aside.
        before, gain: their AP@10 by the model's cosines alone, and what learning adds to it after so many rounds.
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


def learn_own(
    held: HeldVectors,
    embedder: Embedder,
    *,
    most: int = MOST_PAIRS,
) -> OwnStart:
    """Learn from the pairs that a base makes itself; twice documents that hold a tenth of them are held aside first.

    Args:
        held: the chunks and vectors of the base.
        embedder: that of the base; embeds each question once.
        most: see `own_pairs`.

    Raises:
        InvalidRequest: the base makes too few pairs.
        EmbedderError: the model failed.
    """
    pairs = own_pairs(held.chunks, most=most)
    if len(pairs) < FEWEST_PAIRS:
        raise InvalidRequest(
            f"the base makes {len(pairs)} pairs of its own, and of fewer than {FEWEST_PAIRS} nothing is learnt: leave "
            "--own-pairs out, or ingest more"
        )
    taught = TrainingPairs([one.question for one in pairs], [list(one.answers) for one in pairs])
    lessons = lessons_of(taught, held, embedder)
    seed = lessons.seed(embedder.model_id)
    choosing, aside = _asides(lessons, held)
    dense = learn_by_folds(lessons, [choosing + aside], measures=_MEASURES, seed=seed, apart=True).dense
    rounds = best_rounds(dense, choosing, _MEASURES[0])
    before, after = ([dense[count][place][_MEASURES[0]] for place in aside] for count in (0, rounds))
    gain = paired_bootstrap(after, before)
    better = rounds > 0 and gain.beyond_noise and gain.mean > 0.0
    return OwnStart(
        maps=learn_all(lessons, rounds, seed=seed) if better else None,
        kinds=Counter(one.kind for one in pairs),
        rounds=rounds,
        choosing=len(choosing),
        aside=len(aside),
        before=sum(before) / len(before),
        gain=gain,
    )


def _asides(lessons: Lessons, held: HeldVectors) -> tuple[list[int], list[int]]:
    """Return the places of two tenths of the pairs that share no document with each other or the rest.

    Where there are too few documents, or one holds too much, it is no passage that they share.
    """
    documents = [{held.document_ids[row] for row in rows} for rows in lessons.chunks]
    for names in (documents, lessons.answers):
        found = parts_of(lessons.texts, names, _PARTS)
        parts = sorted(found.places, key=len)
        if not found.cut and len(parts) == _PARTS and 2 * _PARTS * len(parts[0]) >= len(lessons.texts):
            break
    return parts[0], parts[1]
