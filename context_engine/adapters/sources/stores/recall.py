"""The watched recall of approximate searches by vectors.

An index answers fast and misses rows. So a share of the searches by it are also run exactly, and an access class whose
recall is below the limit is searched exactly, until its index meets the limit again. Each class is watched alone: no
other caller notices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final

from context_engine.core.concurrency.forking import Lock
from context_engine.core.protocols import LEAST_RECALL

WATCH_EVERY: Final = 50
"""Of so many searches of a class one is run both ways, the first among them."""
LEAST_MEASURED: Final = 5
"""Fewest measurements before an index is given up: one hard question is not enough."""
_REMEMBERED: Final = 20


class SearchWay(Enum):
    """How the vectors of a class are searched. `BOTH` measures the recall, and answers with the exact rows."""

    INDEX = "index"
    BOTH = "both"
    EXACT = "exact"


class RecallWatch:
    """The recall of approximate searches of each access class, in this process. Thread-safe."""

    def __init__(self) -> None:
        self._recalls: dict[int, deque[float]] = {}
        self._searches: dict[int, int] = {}
        self._lock = Lock()

    def next_way(self, class_key: int) -> SearchWay:
        """Count a search of a class, and return how it is to be run.

        Every fiftieth is run both ways. While fewer than `LEAST_MEASURED` searches were measured and their mean is
        below the limit, each one is.
        """
        with self._lock:
            number = self._searches.get(class_key, 0)
            self._searches[class_key] = number + 1
            recalls = self._recalls.get(class_key, ())
            low = bool(recalls) and _mean(recalls) < LEAST_RECALL
            if number % WATCH_EVERY == 0 or (low and len(recalls) < LEAST_MEASURED):
                return SearchWay.BOTH
            return SearchWay.EXACT if low else SearchWay.INDEX

    def add(self, class_key: int, recall: float) -> None:
        """Record the share of the exact neighbours that the index returned.

        If an index that was given up meets the limit, it is judged anew, from this measurement on.
        """
        with self._lock:
            recalls = self._recalls.setdefault(class_key, deque(maxlen=_REMEMBERED))
            if recall >= LEAST_RECALL and _is_low(recalls):
                recalls.clear()
            recalls.append(recall)

    def recall(self, class_keys: Sequence[int]) -> float | None:
        """Return the lowest mean recall of some classes; None if none was measured."""
        with self._lock:
            means = [_mean(recalls) for key in class_keys if (recalls := self._recalls.get(key))]
        return min(means, default=None)

    def lowest(self) -> float | None:
        """Return the lowest mean recall of all classes; None if none was measured."""
        with self._lock:
            class_keys = list(self._recalls)
        return self.recall(class_keys)

    def is_low(self, class_key: int) -> bool:
        """Return whether the index of a class was given up."""
        with self._lock:
            return _is_low(self._recalls.get(class_key, ()))


def _is_low(recalls: Sequence[float]) -> bool:
    return len(recalls) >= LEAST_MEASURED and _mean(recalls) < LEAST_RECALL


def _mean(recalls: Sequence[float]) -> float:
    return sum(recalls) / len(recalls)
