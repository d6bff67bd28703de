"""Copies of one text that all stay: the one of a higher tier never stands below the one of a lower."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.core.ranking.dedup import Match


def best_of_lower_copies(matches: Sequence[Match | None], values: Sequence[float]) -> list[float]:
    """Return for each text the highest value among itself and the equal texts after it.

    What stands around a copy, its headings and its section, makes it more or less relevant than another: without this
    a web page would pass the system of record that says the same.

    Args:
        matches: `deduplicate` by the method "exact" of the texts in survivor order, the highest tier first.
        values: of each text, [0, 1].

    >>> best_of_lower_copies([None, None, Match(0, 1.0, "equal_text")], [0.5, 0.7, 0.6])
    [0.6, 0.7, 0.6]
    """
    out = list(values)
    best: dict[int, float] = {}
    for index in reversed(range(len(out))):
        match = matches[index]
        first = index if match is None else match.into
        out[index] = best[first] = max(best.get(first, 0.0), out[index])
    return out
