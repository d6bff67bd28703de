"""The watched recall of approximate searches by vectors.

An index answers fast and misses rows. So a share of the searches by it are also run exactly, and an access class whose
recall is below the limit is searched exactly from then on. Each class is watched alone: no other caller notices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from context_engine.core.concurrency.forking import Lock
from context_engine.core.protocols import LEAST_RECALL

WATCH_EVERY: Final = 50
"""Of so many searches by an index one is also run exactly, the first among them."""
_REMEMBERED: Final = 20


class RecallWatch:
    """The recall of approximate searches of each access class, in this process. Thread-safe."""

    def __init__(self) -> None:
        self._recalls: dict[int, deque[float]] = {}
        self._searches: dict[int, int] = {}
        self._lock = Lock()

    def is_due(self, class_key: int) -> bool:
        """Count a search by the index, and return whether it is to be run exactly too."""
        with self._lock:
            self._searches[class_key] = self._searches.get(class_key, 0) + 1
            return self._searches[class_key] % WATCH_EVERY == 1

    def add(self, class_key: int, recall: float) -> None:
        """Record the share of the exact neighbours that the index found."""
        with self._lock:
            self._recalls.setdefault(class_key, deque(maxlen=_REMEMBERED)).append(recall)

    def recall(self, class_keys: Sequence[int]) -> float | None:
        """Return the lowest mean recall of some classes; None if none was measured."""
        with self._lock:
            means = [sum(known) / len(known) for key in class_keys if (known := self._recalls.get(key))]
        return min(means, default=None)

    def lowest(self) -> float | None:
        """Return the lowest mean recall of all classes; None if none was measured."""
        with self._lock:
            class_keys = list(self._recalls)
        return self.recall(class_keys)

    def is_low(self, class_key: int) -> bool:
        """Return whether the recall of a class is below the limit."""
        recall = self.recall([class_key])
        return recall is not None and recall < LEAST_RECALL
