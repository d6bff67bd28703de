"""What a base learns from the pairs that it makes itself: where the learning from judged questions may begin.

A piece of a passage is no question. That an adapter finds the passages of pieces better is measured on documents it
was not shown, and says no more than that it has learnt; whether it helps who asks, judged questions alone can say.
The same pairs choose how long is learnt: what they gain is the most of seven numbers, and a little too good.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.local.held_vectors import HeldVectors
from context_engine.core.protocols import Embedder
from context_engine.errors import InvalidRequest
from context_engine.evaluation.learning.contrast import Maps
from context_engine.evaluation.learning.folds import learn_all, learn_by_folds
from context_engine.evaluation.learning.lessons import lessons_of
from context_engine.evaluation.learning.own_pairs import MOST_PAIRS, OwnPair, own_pairs
from context_engine.evaluation.learning.training_pairs import TrainingPairs
from context_engine.evaluation.statistics import Paired, paired_bootstrap

__all__ = ["FEWEST_PAIRS", "OwnStart", "learn_own"]

FEWEST_PAIRS: Final = 500
"""Of fewer own pairs nothing is learnt."""

_MEASURES: Final = ("AP@10", "R@10")
_ASIDE: Final = 0.1


class OwnStart(NamedTuple):
    """What was learnt from own pairs.

    Attributes:
        maps: None where pairs held aside are found no better, beyond noise.
        kinds: how many pairs of each kind.
        rounds: how long was learnt.
        aside: pairs held aside.
        before, gain: their AP@10 by the model's cosines alone, and what learning adds to it after so many rounds as are
            best for them.
    """

    maps: Maps | None
    kinds: Mapping[str, int]
    rounds: int
    aside: int
    before: float
    gain: Paired

    def evidence(self) -> dict[str, Any]:
        """Return what was measured, JSON-ready."""
        return {
            "pairs": dict(self.kinds),
            "rounds": self.rounds,
            "held_aside": self.aside,
            "rounds_chosen_on": "held_aside",
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
    """Learn from the pairs that a base makes itself; documents that hold a tenth of the pairs are held aside first.

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
    aside = _aside(pairs, held)
    folds = learn_by_folds(lessons, [aside], measures=_MEASURES, seed=seed, apart=True)
    before, after = ([folds.dense[rounds][place][_MEASURES[0]] for place in aside] for rounds in (0, folds.rounds))
    gain = paired_bootstrap(after, before)
    better = folds.rounds > 0 and gain.beyond_noise and gain.mean > 0.0
    return OwnStart(
        maps=learn_all(lessons, folds.rounds, seed=seed) if better else None,
        kinds=Counter(one.kind for one in pairs),
        rounds=folds.rounds,
        aside=len(aside),
        before=sum(before) / len(before),
        gain=gain,
    )


def _aside(pairs: Sequence[OwnPair], held: HeldVectors) -> list[int]:
    """Return the places of all pairs of the documents with the lowest digests, until they are a tenth of all.

    Of a single document its chunks are parted instead.
    """
    names = held.document_ids if len(set(held.document_ids)) > 1 else held.chunk_ids
    places: dict[str, list[int]] = {}
    for place, one in enumerate(pairs):
        places.setdefault(names[one.answers[0]], []).append(place)
    out: list[int] = []
    for name in sorted(places, key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()):
        if len(out) >= _ASIDE * len(pairs):
            break
        out += places[name]
    return out
