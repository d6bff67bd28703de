"""The searches of an answer that took several, as the pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.answer.gathering import Gathering, SearchRound, read_gathering
from context_engine.apps.web.addresses import search_address

_WHY: Final = {
    "question": "the question itself",
    "part": "a part of the question",
    "gap": "words that no passage had",
    "translation": "the question in another language",
    "model": "the model asked for it",
}
_STOPPED: Final = {
    "complete": "Every part of the question is covered.",
    "nothing_new": "There was nothing else to search for.",
    "rounds": "As many searches were made as are allowed.",
    "hops": "No further citation may be followed.",
    "deadline": "The time was up.",
    "budget": "The cost limit was reached.",
    "policy_failed": "The model that decides what to search failed.",
    "search_failed": "The next search failed.",
}


class ShownStep(NamedTuple):
    """One search.

    Attributes:
        number: 1-based.
        why: it was made, in words.
        passages: number of passages that were read.
        used: number of those that the answer could rest on.
        address: of its page.
    """

    number: int
    query: str
    why: str
    passages: int
    used: int
    search_id: str
    address: str


class StepsView(NamedTuple):
    """The searches of an answer.

    Attributes:
        stopped: why there was no further one, as a sentence.
        found_by: for each passage of the answer, best first, the number of the search that found it.
    """

    steps: tuple[ShownStep, ...]
    stopped: str
    found_by: tuple[int, ...]

    @property
    def counted(self) -> str:
        """The number of searches, with the noun."""
        return "one search" if len(self.steps) == 1 else f"{len(self.steps)} searches"

    def of(self, rank: int) -> ShownStep:
        """Return the search that found the passage of a rank, 1-based."""
        return self.steps[self.found_by[rank - 1] - 1]


def steps_view(gathering: Gathering) -> StepsView:
    """Return the searches of an answer just made."""
    return _view(gathering, [len(searched.keys) for searched in gathering.rounds])


def recorded_steps(facts: Mapping[str, Any], words: Mapping[str, Any]) -> StepsView | None:
    """Return the searches of an answer from its record; None if it took one.

    Args:
        facts, words: of the record; see `answer_record`.
    """
    workflow = facts.get("workflow")
    if workflow is None:
        return None
    return _view(read_gathering(workflow, words["searches"]), [made["chunks"] for made in workflow["rounds"]])


def _view(gathering: Gathering, read: Sequence[int]) -> StepsView:
    """Return the view of searches, of each of which some passages were read."""
    found_by = tuple(pick.round + 1 for pick in gathering.picks)
    numbered = enumerate(zip(gathering.rounds, read, strict=True), start=1)
    steps = (_step(number, searched, passages, found_by.count(number)) for number, (searched, passages) in numbered)
    return StepsView(tuple(steps), _STOPPED.get(gathering.stopped, ""), found_by)


def _step(number: int, searched: SearchRound, passages: int, used: int) -> ShownStep:
    why = f"a passage cites {searched.cites}" if searched.why == "citation" else _WHY.get(searched.why, searched.why)
    address = search_address(searched.search_id)
    return ShownStep(number, searched.query, why, passages, used, searched.search_id, address)
